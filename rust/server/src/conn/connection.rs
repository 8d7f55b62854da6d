//! One connection: reads many frames at a time and answers them with one write.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::clients::events::{End, EventKind};
use crate::clients::peers::Peer;
use crate::conn::admission::Admission;
use crate::conn::budget::{self, Budget, Room, Share};
use crate::conn::deadlines::{self, Begun};
use crate::conn::handshakes::Handshake;
use crate::core::Core;
use crate::dispatch::{arrival, backpressure};
use crate::fair::Fairness;
use crate::fair::turn_permits::{self, TurnSize};
use crate::limits::{FIRST_READ_BYTES, READ_BYTES};
use crate::requests::context::Whole;
use mq_format::remoting::FrameError;
use mq_net::frame::{FrameBytes, FrameSplitter};
use mq_net::receiver::Receiver;

/// Buffers of one worker thread. Frames are answered in the poll that read them, so a connection
/// needs no buffers of its own.
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

/// A timer that fires this late means that the process was suspended.
const DELAY_FORGIVEN: Duration = Duration::from_secs(1);

/// How a read ended.
#[derive(PartialEq, Eq)]
enum Turn {
    /// Everything that was read is answered.
    Done,
    /// There is more to answer, and other connections come first.
    Over,
}

struct Connection {
    core: Arc<Core>,
    admission: Arc<Admission>,
    peer: Arc<Peer>,
    receiver: Receiver,
    splitter: FrameSplitter,
    /// Whether nothing was received yet, so that plain or TLS is not known.
    is_fresh: bool,
    /// The TLS handshake in progress.
    handshake: Option<Box<Handshake>>,
    /// Bytes that were read and are answered in this connection's next turn.
    left: Vec<u8>,
    /// Bytes to read at once: more for a client that sends much, less after long replies.
    room: usize,
    /// Limits of this connection that protect others.
    fairness: Fairness,
    /// Monotonic time since which the connection is not read.
    unread_since_ms: Option<i64>,
    /// Monotonic time since which a TLS record is incomplete.
    sealed_since_ms: Option<i64>,
    /// Whether the timer is set for the current incomplete frame.
    is_watched: bool,
    /// Its share of the budget for large requests, after its first large request.
    share: Option<Share>,
    /// Room in that budget for the current large frame.
    large_room: Option<Box<Room>>,
    /// Waits for room for the current large frame.
    room_wait: Option<RoomWait>,
}

/// Boxed: few connections wait here, but the task of every connection would reserve the space.
type RoomWait = Pin<Box<dyn Future<Output = Option<Room>> + Send>>;

/// Cleans up after a connection, however its task ends: return, panic, or drop at a stop.
struct Ending {
    core: Arc<Core>,
    peer: Arc<Peer>,
    end: End,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (core, peer) = (&self.core, &self.peer);
        core.clients.peers.remove(peer.id);
        core.clients.replies.closed(peer.id, peer.closed());
        backpressure::give_back(core, peer);
        core.clients.peers.forget_partial(peer);
        core.waiting.long_polls.left();
        let blank = (EventKind::Closed, String::new());
        let (mut kind, mut detail) = std::mem::replace(&mut self.end, blank);
        if peer.is_slow_reader() {
            (kind, detail) = (EventKind::Unread, "its client does not read".to_owned());
        } else if let Some(gave_way) = peer.gave_way() {
            (kind, detail) = gave_way.end();
        }
        core.clients.tell(kind, Some(peer), peer.remote, detail);
    }
}

/// Serves a connection until it ends, and leaves nothing behind. Not an `async fn`, because that
/// stores its arguments twice in a task, of which there may be ten thousand.
pub(crate) fn serve(
    core: Arc<Core>,
    admission: Arc<Admission>,
    peer: Arc<Peer>,
    receiver: Receiver,
) -> impl Future<Output = ()> + Send {
    let splitter = FrameSplitter::new(core.settings.frame_bytes_max, core.settings.header);
    let mut connection = Connection {
        core,
        admission,
        peer,
        receiver,
        splitter,
        is_fresh: true,
        handshake: None,
        left: Vec::new(),
        room: FIRST_READ_BYTES,
        fairness: Fairness::new(),
        unread_since_ms: None,
        sealed_since_ms: None,
        is_watched: false,
        share: None,
        large_room: None,
        room_wait: None,
    };
    async move {
        let mut ending = Ending {
            core: Arc::clone(&connection.core),
            peer: Arc::clone(&connection.peer),
            end: (EventKind::Closed, "its task was cancelled".to_owned()),
        };
        ending.end = connection.run().await;
    }
}

impl Connection {
    async fn run(&mut self) -> End {
        let peer = Arc::clone(&self.peer);
        let mut check = pin!(sleep_until(self.next_check()));
        // Kept across reads, because starting and ending a wait takes two locks.
        let mut writing = pin!(peer.write_some());
        let mut is_more = false;
        loop {
            let was_fresh = self.is_fresh;
            let outbound_bytes = peer.outbound_bytes();
            let may_read = self.may_read(outbound_bytes);
            self.note_whether_read(may_read);
            tokio::select! {
                turn = self.turn(is_more), if may_read => match turn {
                    Err(end) => return end,
                    Ok(turn) => is_more = turn == Turn::Over,
                },
                () = &mut writing => {
                    writing.set(peer.write_some());
                    self.wrote(outbound_bytes);
                }
                () = &mut check => {
                    self.forgive_delay(check.deadline());
                    if let Some(end) = self.overdue() {
                        return end;
                    }
                    check.as_mut().reset(self.next_check());
                }
            }
            // A handshake and an incomplete frame have earlier deadlines.
            if was_fresh && !self.is_fresh || self.needs_watch() {
                check.as_mut().reset(self.next_check());
            }
            if peer.is_closing() {
                return (EventKind::Closed, "closed by the server".to_owned());
            }
        }
    }

    /// Whether to read the connection and answer its requests; its client has not read
    /// `outbound_bytes` bytes of replies.
    fn may_read(&self, outbound_bytes: usize) -> bool {
        let has_left = !self.left.is_empty();
        let peers = &self.core.clients.peers;
        !self.peer.sends.is_full() && self.fairness.may_read(peers, outbound_bytes, has_left)
    }

    /// The incomplete frame, if the server waits for its sender.
    fn begun(&self) -> Option<Begun> {
        if self.unread_since_ms.is_some() {
            return None;
        }
        if !self.splitter.is_partial() {
            return self.begun_record();
        }
        let began_ms = self.peer.unfinished.began_ms()?;
        let large = self.large_size();
        Some(Begun {
            taken_ms: self.core.clock.monotonic_ms() - began_ms,
            received: self.splitter.received(),
            large: large.filter(|_| self.large_room.is_some()),
            is_awaited: self.admission.budget.is_awaited(),
        })
    }

    /// The incomplete TLS record. Its content is unknown until it is complete.
    fn begun_record(&self) -> Option<Begun> {
        let since_ms = self.sealed_since_ms.filter(|_| self.handshake.is_none())?;
        Some(Begun {
            taken_ms: self.core.clock.monotonic_ms() - since_ms,
            received: self.receiver.sealed_bytes(),
            large: None,
            is_awaited: false,
        })
    }

    /// Records the time at which a TLS record becomes incomplete, and that it is complete.
    fn note_record(&mut self) {
        if self.receiver.sealed_bytes() == 0 {
            self.sealed_since_ms = None;
        } else if self.sealed_since_ms.is_none() {
            self.sealed_since_ms = Some(self.core.clock.monotonic_ms());
        }
    }

    /// Whether a frame began after the timer was set. The timer is not set for each frame: it fires
    /// before the earliest deadline, and is then set for the frame of that moment.
    fn needs_watch(&self) -> bool {
        !self.is_watched && self.unread_since_ms.is_none() && self.splitter.is_partial()
    }

    fn next_check(&mut self) -> Instant {
        let frame = self.begun();
        self.is_watched = frame.is_some();
        let check = deadlines::next_check(&self.core, &self.peer, self.handshake.as_deref(), frame);
        match self.receiver.is_plain() {
            true => check,
            // Nothing wakes the task to set the timer when an incomplete TLS record arrives.
            false => check.min(Instant::now() + self.core.settings.frame.grace()),
        }
    }

    fn overdue(&self) -> Option<End> {
        let frame = self.begun();
        deadlines::overdue(&self.core, &self.peer, self.handshake.as_deref(), frame)
    }

    /// Excludes time in which the server does not read from the time of a frame.
    fn note_whether_read(&mut self, is_read: bool) {
        match (is_read, self.unread_since_ms) {
            (false, None) => self.unread_since_ms = Some(self.core.clock.monotonic_ms()),
            (true, Some(since_ms)) => {
                self.unread_since_ms = None;
                self.sealed_since_ms = None; // set again by the next read
                let unread_ms = self.core.clock.monotonic_ms() - since_ms;
                self.peer.unfinished.give_back(unread_ms);
            }
            _ => {}
        }
    }

    /// A late timer means that the process was suspended and did not read in that time.
    fn forgive_delay(&self, due: Instant) {
        let delay = Instant::now().saturating_duration_since(due);
        if delay >= DELAY_FORGIVEN {
            let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
            self.peer.unfinished.give_back(delay_ms);
        }
    }

    /// Records that the client has read some replies, if any could be written.
    fn wrote(&self, outbound_bytes: usize) {
        if self.peer.outbound_bytes() < outbound_bytes {
            self.peer.note_taken(self.core.clock.monotonic_ms());
        }
        backpressure::give_back(&self.core, &self.peer);
    }

    /// Waits until the current large frame has room. The wait may be cancelled at any time and
    /// keeps its position in the order.
    async fn admit(&mut self) {
        self.note_whether_read(false);
        if let Some(wait) = &mut self.room_wait
            && let Some(room) = wait.await
        {
            self.large_room = Some(Box::new(room));
        }
        self.room_wait = None;
        self.note_whether_read(true);
        self.is_watched = false; // a large frame is checked more often
    }

    /// Size of the current frame, if it needs room in the budget.
    fn large_size(&self) -> Option<usize> {
        self.splitter
            .partial_size()
            .filter(|size| Budget::concerns(*size))
    }

    /// Requests room for the current large frame, unless it has room or waits already.
    fn ask_for_room(&mut self) {
        if self.large_room.is_some() {
            return;
        }
        let Some(size) = self.large_size() else {
            return;
        };
        let admission = Arc::clone(&self.admission);
        let share = self
            .share
            .get_or_insert_with(|| admission.budget.share())
            .clone();
        self.room_wait = Some(Box::pin(
            async move { admission.budget.room(share, size).await },
        ));
    }

    /// Answers what arrives. If that is more than a short turn allows, it first waits for a
    /// long-turn permit, so that this connection does not delay others.
    async fn turn(&mut self, is_more: bool) -> Result<Turn, End> {
        if self.room_wait.is_some() {
            Box::pin(self.admit()).await;
        }
        if !is_more {
            return poll_fn(|cx| self.poll_read(cx, TurnSize::Short)).await;
        }
        let admission = Arc::clone(&self.admission);
        self.note_whether_read(false);
        let has_left = !self.left.is_empty();
        // Boxed: few connections are here at once, but the task of every connection would reserve
        // the space.
        let permit = Box::pin(self.fairness.permit(&admission.turn_permits, has_left)).await;
        self.note_whether_read(true);
        let once = poll_fn(|cx| Poll::Ready(self.poll_read(cx, permit.size))).await;
        permit.leave();
        match once {
            Poll::Ready(turn) => turn,
            Poll::Pending => Ok(Turn::Done), // the socket had no further bytes
        }
    }

    /// Reads once, unless requests are left from the last read, and answers the complete frames
    /// until the replies reach the limit of the turn.
    fn poll_read(&mut self, cx: &mut Context<'_>, size: TurnSize) -> Poll<Result<Turn, End>> {
        if self.admission.is_draining() {
            return Poll::Pending; // nothing is read any more
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.replies.clear(); // a panic may have left replies of another connection
            if !self.left.is_empty() {
                let left = std::mem::take(&mut self.left);
                return Poll::Ready(self.answer(&left, &mut scratch.replies, size));
            }
            if self.receiver.is_plain() && self.splitter.is_large() {
                turn_permits::hand_over_io_driver();
            }
            let input = &mut scratch.input[..self.room];
            let received = self.receiver.poll_receive(cx, &mut self.splitter, input);
            let failure = self.follow_handshake(&received);
            self.note_record();
            Poll::Ready(match ready!(received) {
                Ok((0, _)) => Err((EventKind::Closed, "closed by the client".to_owned())),
                Ok((count, bytes)) => {
                    self.peer.note_read(self.core.clock.monotonic_ms());
                    if count == self.room {
                        self.room = READ_BYTES.min(2 * self.room);
                    }
                    let turn = self.take(bytes, count, &mut scratch.replies, size);
                    turn.map(|turn| if count < READ_BYTES { turn } else { Turn::Over })
                }
                Err(error) => Err((failure, error.to_string())),
            })
        })
    }

    /// Processes the `count` bytes just read; `bytes` is empty if they belong to a large frame. The
    /// first byte of a connection decides between plain and TLS.
    fn take(
        &mut self,
        bytes: &[u8],
        count: usize,
        replies: &mut Vec<u8>,
        size: TurnSize,
    ) -> Result<Turn, End> {
        if self.is_fresh && !self.begin(bytes)? {
            return Ok(Turn::Done);
        }
        self.core.stats.counters.bytes_in.add(count as u64);
        self.answer(bytes, replies, size)
    }

    /// Starts a TLS handshake and returns false if these bytes begin one.
    fn begin(&mut self, bytes: &[u8]) -> Result<bool, End> {
        self.is_fresh = false;
        let failed = |core: &Core, why: String| {
            core.stats.counters.tls_failed.one();
            (EventKind::Tls, why)
        };
        let begun = self.admission.tls.begin(bytes[0], &self.peer);
        let Some((session, handshake)) = begun.map_err(|why| failed(&self.core, why))? else {
            return Ok(true);
        };
        if handshake.made_room {
            self.core.stats.counters.handshakes_given_up.one();
        }
        self.handshake = Some(Box::new(handshake));
        let upgraded = (self.receiver).upgrade(self.peer.connection(), session, bytes);
        upgraded.map_err(|error| failed(&self.core, error.to_string()))?;
        self.note_greeting();
        Ok(false)
    }

    /// Records that the client's first handshake message is complete.
    fn note_greeting(&mut self) {
        if let Some(handshake) = &mut self.handshake
            && self.receiver.has_answered()
        {
            handshake.greeted();
        }
    }

    /// Records the end of a handshake, and returns the kind of event that an error means now.
    fn follow_handshake(&mut self, received: &Poll<io::Result<(usize, &[u8])>>) -> EventKind {
        if self.handshake.is_none() {
            return EventKind::Closed;
        }
        self.note_greeting();
        let counters = &self.core.stats.counters;
        match received {
            _ if !self.receiver.is_handshaking() => counters.tls_sessions.one(),
            Poll::Ready(Ok((0, _)) | Err(_)) => counters.tls_failed.one(),
            _ => return EventKind::Tls,
        }
        self.handshake = None;
        EventKind::Tls
    }

    /// Answers the complete frames until the turn is over; keeps the rest of `bytes` for the next
    /// turn.
    fn answer(
        &mut self,
        mut bytes: &[u8],
        replies: &mut Vec<u8>,
        size: TurnSize,
    ) -> Result<Turn, End> {
        let now_ms = self.core.clock.monotonic_ms();
        let mut is_new = !self.splitter.is_partial();
        let result = self.answer_frames(&mut bytes, &mut is_new, replies, size);
        let (core, peer) = (&self.core, &self.peer);
        // Also before an error: requests before the bad frame get their replies.
        if !replies.is_empty() {
            let count = replies.len();
            send(core, peer, replies, now_ms);
            let permits = &self.admission.turn_permits;
            self.fairness.note(permits, peer, size, count);
        }
        result.map_err(|error| {
            core.stats.counters.frames_bad.one();
            (EventKind::BadFrame, error.to_string())
        })?;
        self.left.extend_from_slice(bytes);
        if !self.left.is_empty() {
            self.room = FIRST_READ_BYTES.max(self.room / 2);
        }
        let held = self.splitter.held_bytes() + self.left.capacity();
        let limit = core.settings.unfinished_bytes_max;
        let closed = core
            .clients
            .peers
            .note_partial(peer, held, is_new, now_ms, limit);
        if closed > 0 {
            core.stats.counters.frames_given_up.add(closed);
        }
        if self.splitter.is_partial() {
            self.ask_for_room();
        }
        match self.left.is_empty() {
            true => Ok(Turn::Done),
            false => Ok(Turn::Over),
        }
    }

    /// Answers frames until none is complete, or the replies fill the turn. A SYNC_MASTER sends
    /// their messages to its slaves a part at a time, not one by one. Sets `is_new` when the
    /// frame that was incomplete before has ended.
    fn answer_frames(
        &mut self,
        bytes: &mut &[u8],
        is_new: &mut bool,
        replies: &mut Vec<u8>,
        size: TurnSize,
    ) -> Result<(), FrameError> {
        let (core, peer) = (&self.core, &self.peer);
        let allowance = (self.fairness).allowance(&self.admission.turn_permits, size);
        let store = core.state.store.as_ref();
        let _held = store.and_then(|store| store.hold_sends());
        loop {
            let before = *bytes;
            let Some(whole) = self.splitter.next(bytes)? else {
                return Ok(());
            };
            *is_new = true;
            match whole {
                FrameBytes::Among(frame)
                    if allowance.leaves_pulls && arrival::is_pull(core, frame) =>
                {
                    *bytes = before;
                    return Ok(());
                }
                FrameBytes::Among(frame) => {
                    arrival::frame(core, peer, Whole::among(frame), replies)?;
                }
                FrameBytes::Own(frame) => {
                    let frame = budget::keep_room(frame, self.large_room.take());
                    arrival::frame(core, peer, Whole::own(&frame), replies)?;
                }
            }
            if allowance.is_used(&core.clients.peers, peer, replies.len()) {
                return Ok(());
            }
        }
    }
}

fn send(core: &Core, peer: &Peer, replies: &mut Vec<u8>, now_ms: i64) {
    core.stats.counters.bytes_out.add(replies.len() as u64);
    peer.note_write(now_ms);
    peer.send(replies);
    replies.clear();
    // The memory of one large pull must not stay with the thread forever.
    replies.shrink_to(4 * READ_BYTES);
}
