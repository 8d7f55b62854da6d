//! A request in Python's hands: answered exactly once, followed by whatever must happen next.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::bounded_queue::Popped;
use crate::clients::peers::Peer;
use crate::core::Core;
use crate::dispatch::{backpressure, routing};
use crate::handoff::request::{JobHead, Request};
use crate::limits::HOLD_MS_MAX;
use crate::route::Family;
use crate::waiting::backpressure::Parked;
use crate::waiting::long_polls::{LongPoll, PollKey};
use mq_format::remoting::ExtFields;
use mq_store::MessageFilter;

/// One request in Python's hands. If it is dropped without a reply, it replies with code 1; any
/// thread may drop it.
pub struct Job {
    core: Arc<Core>,
    /// The connection it came from.
    pub peer: Arc<Peer>,
    /// Fixed header fields.
    pub head: JobHead,
    /// 0, or 1 after a wake-up or a second routing.
    pub attempt: u8,
    /// None after it became a long poll or ended.
    request: Option<Request>,
}

impl Core {
    /// Waits for the next request of a family. Parks requests whose client does not read its
    /// replies.
    pub fn next_job(self: &Arc<Self>, family: Family, timeout: Duration) -> Popped<Job> {
        let began_ms = self.clock.monotonic_ms();
        loop {
            let waited_ms = self.clock.monotonic_ms() - began_ms;
            let waited = Duration::from_millis(u64::try_from(waited_ms).unwrap_or(0));
            let request = match self.handoff.pop(family, timeout.saturating_sub(waited)) {
                Popped::Item(request) => request,
                Popped::Timeout => return Popped::Timeout,
                Popped::Closed => return Popped::Closed,
            };
            if request.is_oneway() || !self.clients.peers.must_wait(&request.peer) {
                return Popped::Item(Job::new(self, request));
            }
            let peer = Arc::clone(&request.peer);
            backpressure::park(self, &peer, Parked::Python(Box::new(request)));
        }
    }
}

impl Job {
    fn new(core: &Arc<Core>, request: Request) -> Self {
        Self {
            core: Arc::clone(core),
            peer: Arc::clone(&request.peer),
            head: request.head,
            attempt: request.attempt,
            request: Some(request),
        }
    }

    /// The whole frame as it came.
    pub fn frame(&self) -> Bytes {
        let frame = self.request.as_ref().map(|request| request.frame().clone());
        frame.unwrap_or_default()
    }

    /// Whether other sends wait for this one; its reply stores them.
    pub fn has_turn(&self) -> bool {
        self.request.as_ref().is_some_and(Request::has_turn)
    }

    /// Whether the client expects no reply.
    pub fn is_oneway(&self) -> bool {
        self.request.as_ref().is_some_and(Request::is_oneway)
    }

    /// Replies in the request's serialization.
    pub fn respond(mut self, code: i32, remark: Option<&str>, fields: ExtFields<'_>, body: &[u8]) {
        if let Some(request) = &mut self.request {
            request.respond(&self.core.clients, code, remark, fields, body);
        }
    }

    /// Replies with code 1, as RocketMQ does when a processor throws: always in JSON.
    pub fn fail(mut self, remark: &str) {
        if let Some(request) = &mut self.request {
            request.fail(&self.core.clients, remark);
        }
    }

    /// Ends the request without a reply.
    pub fn no_reply(mut self) {
        if let Some(request) = &mut self.request {
            request.no_reply();
        }
    }

    /// Makes the request a long poll until a message that passes `filter` arrives in the queue at
    /// `offset` or above, or until `timeout`. Then Python gets it again, with `attempt` 1.
    pub fn hold(
        mut self,
        topic: Arc<str>,
        queue_id: i32,
        offset: i64,
        filter: MessageFilter,
        timeout: Duration,
    ) {
        let core = Arc::clone(&self.core);
        let Some(mut request) = self.request.take() else {
            return;
        };
        request.note_held(&core.handoff.load);
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let deadline_ms = core.clock.monotonic_ms() + timeout_ms.min(HOLD_MS_MAX);
        let poll_key = PollKey {
            topic,
            queue_id,
            offset,
            filter,
            deadline_ms,
        };
        let held = LongPoll::Python(Box::new((poll_key, request)));
        let woken = core.waiting.long_polls.hold(&core.state, held);
        routing::wake(&core, woken);
    }

    /// Routes the request once more, as if it had just arrived; possible once.
    pub fn again(mut self) {
        if self.attempt > 0 {
            return self.fail("a request was routed again after it had been routed again");
        }
        let Some(request) = &mut self.request else {
            return;
        };
        request.leave();
        let (frame, turn) = (request.frame().clone(), request.take_turn());
        routing::again(&self.core, &self.peer, &frame, turn);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        match self.request.take() {
            Some(request) if request.is_answered() => routing::end(&self.core, request),
            Some(request) => routing::abandon(&self.core, request),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::dispatch::slow_disk_tests::{Fixture, until};

    /// Deferred sends, more than are resumed together.
    const SENDS: i64 = 200;

    /// Spawned tasks run only when the test waits.
    #[tokio::test]
    async fn sends_behind_a_dropped_request_continue_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let mut fixture = Fixture::new(root.path()).await;
        let (core, store) = (Arc::clone(&fixture.core), Arc::clone(&fixture.store));
        core.waiting.run_on(tokio::runtime::Handle::current());
        fixture.store_first();
        fixture.publish_topic(2, false);
        assert_eq!(fixture.send(b"first"), None, "Python creates the topic");
        fixture.publish_topic(3, true);
        for _ in 0..SENDS {
            assert_eq!(fixture.send(b"later"), None);
        }
        let Popped::Item(job) = core.next_job(0, Duration::ZERO) else {
            panic!("Python gets the send");
        };
        let log_end = store.max_physical_offset();
        drop(job);
        assert_eq!(core.handoff.open(), 0);
        let stored_here = store.max_physical_offset() - log_end;
        assert_eq!(stored_here, 0, "bytes stored by the thread that dropped it");
        while fixture.peer.sends.is_busy() {
            tokio::task::yield_now().await;
        }
        until("all are stored", || store.max_offset("T", 1) == 1 + SENDS);
    }
}
