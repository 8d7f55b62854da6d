//! One connection: reads many frames at a time, answers them with one write.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::core::Core;
use super::dispatch;
use super::events::EventKind;
use super::limits::{FRAME_SECONDS_MAX, READ_BYTES, UNREAD_BYTES_PAUSE};
use super::overload;
use super::peers::Peer;
use super::split::Splitter;
use super::tls::Handshake;
use crate::net::receiver::Receiver;

/// Buffers of one worker thread. Frames are answered where they were read, without a wait in
/// between, so a connection needs none of its own.
struct Scratch {
    input: Box<[u8]>,
    replies: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        input: vec![0; READ_BYTES].into_boxed_slice(),
        replies: Vec::new(),
    });
}

/// Why a connection ends.
type End = (EventKind, String);

struct Connection {
    core: Arc<Core>,
    peer: Arc<Peer>,
    receiver: Receiver,
    splitter: Splitter,
    /// When the frame that is being read began.
    partial_since: Option<Instant>,
    /// Nothing was received yet: plain or TLS?
    is_fresh: bool,
    /// A TLS handshake that goes on.
    handshake: Option<Handshake>,
}

/// Takes a connection down, however its task ends: returned, panicked, or dropped by a stop.
struct Ending {
    core: Arc<Core>,
    peer: Arc<Peer>,
    end: End,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (core, peer) = (&self.core, &self.peer);
        core.peers.remove(peer.id);
        peer.closed();
        core.holds.left();
        let blank = (EventKind::Closed, String::new());
        let (mut kind, mut detail) = std::mem::replace(&mut self.end, blank);
        if peer.is_unread() {
            (kind, detail) = (EventKind::Unread, "its client does not read".to_owned());
        }
        core.tell(kind, Some(peer), peer.remote, detail);
    }
}

/// Serves a connection until it ends; then nothing of it is left.
pub(super) async fn serve(core: Arc<Core>, peer: Arc<Peer>, receiver: Receiver) {
    let mut ending = Ending {
        core: Arc::clone(&core),
        peer: Arc::clone(&peer),
        end: (EventKind::Closed, "its task was ended".to_owned()),
    };
    let splitter = Splitter::new(core.settings.frame_bytes_max);
    let mut connection = Connection {
        core,
        peer,
        receiver,
        splitter,
        partial_since: None,
        is_fresh: true,
        handshake: None,
    };
    ending.end = connection.run().await;
}

impl Connection {
    async fn run(&mut self) -> End {
        let peer = Arc::clone(&self.peer);
        let mut check = pin!(sleep_until(self.next_check()));
        loop {
            let was_fresh = self.is_fresh;
            let may_read = !overload::is_full(&self.core, peer.owed(), UNREAD_BYTES_PAUSE);
            tokio::select! {
                end = poll_fn(|cx| self.poll_read(cx)), if may_read => {
                    if let Err(end) = end {
                        return end;
                    }
                }
                () = peer.write_some() => {}
                () = &mut check => {
                    if let Some(end) = self.overdue() {
                        return end;
                    }
                    check.as_mut().reset(self.next_check());
                }
            }
            if was_fresh && !self.is_fresh {
                check.as_mut().reset(self.next_check()); // a handshake has less time
            }
            if peer.is_closing() {
                return (EventKind::Closed, "closed by the server".to_owned());
            }
        }
    }

    /// Reads once and answers every whole frame that is there.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        if self.core.is_draining() {
            return Poll::Pending; // for good: nothing more is read
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.replies.clear(); // a panic may have left another connection's
            let received = self.receiver.poll_receive(cx, &mut scratch.input);
            let failure = self.follow_handshake(&received);
            Poll::Ready(match ready!(received) {
                Ok(0) => Err((EventKind::Closed, "closed by the client".to_owned())),
                Ok(count) if self.is_fresh => {
                    self.begin(&scratch.input[..count], &mut scratch.replies)
                }
                Ok(count) => self.answer(&scratch.input[..count], &mut scratch.replies),
                Err(error) => Err((failure, error.to_string())),
            })
        })
    }

    /// The first bytes say whether the connection is plain or under TLS.
    fn begin(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> Result<(), End> {
        self.is_fresh = false;
        let failed = |core: &Core, why: String| {
            core.counters.tls_failed.one();
            (EventKind::Tls, why)
        };
        let begun = self.core.tls.begin(bytes[0]);
        let Some((session, handshake)) = begun.map_err(|why| failed(&self.core, why))? else {
            return self.answer(bytes, replies);
        };
        self.peer.note_read(self.core.clock.monotonic_ms());
        self.handshake = Some(handshake);
        let upgraded = (self.receiver).upgrade(self.peer.connection(), session, bytes);
        upgraded.map_err(|error| failed(&self.core, error.to_string()))
    }

    /// Notes a handshake's end, good or bad; what an error means now.
    fn follow_handshake(&mut self, received: &Poll<io::Result<usize>>) -> EventKind {
        if self.handshake.is_none() {
            return EventKind::Closed;
        }
        let counters = &self.core.counters;
        match received {
            _ if !self.receiver.is_handshaking() => counters.tls_sessions.one(),
            Poll::Ready(Ok(0) | Err(_)) => counters.tls_failed.one(),
            _ => return EventKind::Tls,
        }
        self.handshake = None;
        EventKind::Tls
    }

    fn answer(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> Result<(), End> {
        let (core, peer) = (&self.core, &self.peer);
        let now_ms = core.clock.monotonic_ms();
        peer.note_read(now_ms);
        core.counters.bytes_in.add(bytes.len() as u64);
        let result = self.splitter.feed(bytes, |frame| {
            let result = dispatch::frame(core, peer, frame, replies);
            if replies.len() > READ_BYTES {
                send(core, peer, replies, now_ms);
            }
            result
        });
        // Also before an error: what was asked before the bad frame is answered.
        if !replies.is_empty() {
            send(core, peer, replies, now_ms);
        }
        self.partial_since = match (self.splitter.is_partial(), self.partial_since) {
            (false, _) => None,
            (true, None) => Some(Instant::now()),
            (true, since) => since,
        };
        result.map_err(|error| {
            core.counters.frames_bad.one();
            (EventKind::BadFrame, error.to_string())
        })
    }

    /// When to look at the limits of time again: often enough for both.
    fn next_check(&self) -> Instant {
        let idle = self.core.settings.idle_timeout;
        let quiet_ms = self.core.clock.monotonic_ms() - self.peer.last_active_ms();
        let quiet = Duration::from_millis(quiet_ms.try_into().unwrap_or(0));
        let left = idle.saturating_sub(quiet).max(Duration::from_millis(1));
        let check = Instant::now() + left.min(Duration::from_secs(FRAME_SECONDS_MAX));
        let handshake = self.handshake.as_ref();
        handshake.map_or(check, |handshake| check.min(handshake.deadline))
    }

    fn overdue(&self) -> Option<End> {
        if let Some(handshake) = &self.handshake
            && handshake.deadline <= Instant::now()
        {
            self.core.counters.tls_failed.one();
            let seconds = self.core.settings.tls.handshake_timeout.as_secs_f64();
            let detail = format!("the TLS handshake was not complete after {seconds} s");
            return Some((EventKind::Tls, detail));
        }
        let limit = Duration::from_secs(FRAME_SECONDS_MAX);
        if self
            .partial_since
            .is_some_and(|since| since.elapsed() >= limit)
        {
            self.core.counters.frames_bad.one();
            let detail = format!("a frame was not complete after {FRAME_SECONDS_MAX} s");
            return Some((EventKind::BadFrame, detail));
        }
        let idle = self.core.settings.idle_timeout;
        let quiet_ms = self.core.clock.monotonic_ms() - self.peer.last_active_ms();
        if Duration::from_millis(quiet_ms.try_into().unwrap_or(0)) < idle {
            return None;
        }
        self.core.counters.connections_idle.one();
        Some((
            EventKind::Idle,
            format!("idle for {} s", idle.as_secs_f64()),
        ))
    }
}

fn send(core: &Core, peer: &Peer, replies: &mut Vec<u8>, now_ms: i64) {
    core.counters.bytes_out.add(replies.len() as u64);
    peer.note_write(now_ms);
    peer.send(replies);
    replies.clear();
    // One large pull must not stay with the thread for ever.
    replies.shrink_to(4 * READ_BYTES);
}
