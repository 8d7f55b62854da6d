//! What happens when requests come faster than they are served (`BrokerFastFailure`).
//!
//! While the log's lock is held for long, sends are answered 2 before they wait anywhere, and
//! those that wait already as well. A request that waited in its queue for longer than its family
//! allows is answered 2: its client has given it up, or will before it is served. All by the
//! monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::conn::peers::Peer;
use crate::core::Core;
use crate::handoff::SYSTEM_BUSY;
use crate::limits::{
    IDLE_TICK_MS, OWED_BYTES_BUDGET, OWED_SHARE_BYTES, PUT_LOCK_ABSURD_MS, PUT_LOCK_BUSY_MS,
    QUEUE_TICK_MS,
};
use crate::route;
use mq_format::remoting::{Frame, Head, ReplyTo, Serialize};

/// Remark while the store cannot keep up; RocketMQ answers it even to one-way requests.
const REJECTED: &str = "[REJECTREQUEST]system busy, start flow control for a while";
/// Of a send that waited when the store could not keep up.
const DRAINED: &str = "[PCBUSY_CLEAN_QUEUE]";
/// Of a request that waited for too long.
const EXPIRED: &str = "[TIMEOUT_CLEAN_QUEUE]";
/// Of a request of a client that does not take its answers.
pub(crate) const UNREAD: &str = "[OVERLOAD]system busy, take the answers to earlier requests first";
/// No limit.
const PATIENT: i64 = i64::MAX;

/// The limits, which may change at any time.
#[derive(Debug)]
pub struct Overload {
    /// `osPageCacheBusyTimeOutMills`.
    busy_ms: AtomicI64,
    /// `brokerFastFailureEnable`: queues are looked after.
    is_on: AtomicBool,
    /// Milliseconds a request may wait, by family.
    patience_ms: Box<[AtomicI64]>,
}

impl Overload {
    /// Requests of all of these families wait for as long as it takes.
    pub(crate) fn new(families: usize) -> Self {
        Self {
            busy_ms: AtomicI64::new(PUT_LOCK_BUSY_MS),
            is_on: AtomicBool::new(false),
            patience_ms: (0..families).map(|_| AtomicI64::new(PATIENT)).collect(),
        }
    }

    /// Takes new limits. `patience_ms`: by family, None waits for as long as it takes; None
    /// altogether leaves the queues alone.
    pub fn set(&self, busy_ms: i64, patience_ms: Option<Vec<Option<i64>>>) {
        self.busy_ms.store(busy_ms, Ordering::Relaxed);
        self.is_on.store(patience_ms.is_some(), Ordering::Relaxed);
        let limits = patience_ms.unwrap_or_default();
        for (known, limit) in self.patience_ms.iter().zip(limits) {
            known.store(limit.unwrap_or(PATIENT), Ordering::Relaxed);
        }
    }

    /// Whether the log's lock, held for so long, means that the store cannot keep up.
    fn is_busy(&self, lock_held_ms: i64) -> bool {
        lock_held_ms > self.busy_ms.load(Ordering::Relaxed) && lock_held_ms < PUT_LOCK_ABSURD_MS
    }
}

/// Whether sends are refused for now.
fn is_page_cache_busy(core: &Core) -> bool {
    let held_ms = core.store.as_ref().map_or(0, |store| store.lock_held_ms());
    core.overload.is_busy(held_ms)
}

/// Answers 2 to a request that would store a message while the store cannot keep up; False if it
/// may go on. RocketMQ answers this even to one-way requests, and always in JSON.
pub(crate) fn rejected(core: &Core, frame: &Frame<'_>, out: &mut Vec<u8>) -> bool {
    if !route::stores_a_message(frame.code) || !is_page_cache_busy(core) {
        return false;
    }
    core.counters.overloaded.one();
    let to = ReplyTo {
        opaque: frame.opaque,
        serialize: Serialize::Json,
    };
    Head::reply(to, SYSTEM_BUSY, Some(REJECTED)).encode(&[], &[], out);
    true
}

/// Answers 2 to what waited for too long.
pub(crate) fn clean(core: &Arc<Core>) {
    let overload = &core.overload;
    if !overload.is_on.load(Ordering::Relaxed) {
        return;
    }
    let now_ms = core.clock.monotonic_ms();
    let sends = core.routes.family(route::SEND, 0);
    let drained = sends.filter(|_| is_page_cache_busy(core));
    for (family, patience_ms) in overload.patience_ms.iter().enumerate() {
        let (limit_ms, why) = match drained {
            Some(sends) if sends == family => (0, DRAINED),
            _ => (patience_ms.load(Ordering::Relaxed), EXPIRED),
        };
        // Dropped outside the queue's lock: each answer is written, and may let others go.
        while let Some((job, left)) = core.handoff.pop_late(family, now_ms, limit_ms) {
            let waited_ms = now_ms - job.queued_ms();
            job.busy(&format!(
                "{why}broker busy, start flow control for a while, \
                 period in queue: {waited_ms}ms, size of queue: {left}"
            ));
        }
    }
}

/// Whether a client that is owed so much is to take some of it first. `limit`: if there is room.
pub(crate) fn is_full(core: &Core, owed: usize, limit: usize) -> bool {
    owed > OWED_SHARE_BYTES && (owed >= limit || core.peers.owed() > OWED_BYTES_BUDGET)
}

/// Whether a client that `more` bytes are on their way to has its share, while clients are owed too
/// much altogether.
pub(crate) fn has_its_share(core: &Core, peer: &Peer, more: usize) -> bool {
    core.peers.owed() > OWED_BYTES_BUDGET && peer.owed() + more > OWED_SHARE_BYTES
}

/// Looks after the queues for as long as the server lives.
pub(crate) async fn keep_queues(core: Arc<Core>) {
    loop {
        let is_idle = core.handoff.open() == 0;
        let pause_ms = if is_idle { IDLE_TICK_MS } else { QUEUE_TICK_MS };
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        clean(&core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_longer_than_the_limit_and_shorter_than_a_clock_error() {
        let overload = Overload::new(1);
        assert_eq!([1_000, 1_001].map(|ms| overload.is_busy(ms)), [false, true]);
        overload.set(50, None);
        assert_eq!([50, 51].map(|ms| overload.is_busy(ms)), [false, true]);
        assert!(!overload.is_busy(PUT_LOCK_ABSURD_MS));
    }

    #[test]
    fn families_without_a_limit_are_patient() {
        let overload = Overload::new(2);
        overload.set(1, Some(vec![Some(200), None]));
        let limits = overload.patience_ms.iter();
        let limits: Vec<_> = limits.map(|ms| ms.load(Ordering::Relaxed)).collect();
        assert_eq!(limits, [200, PATIENT]);
        assert!(overload.is_on.load(Ordering::Relaxed));
    }
}
