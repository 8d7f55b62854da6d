//! One connection: reads many frames at a time, answers them with one write.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, sleep_until};

use super::core::Core;
use super::deadlines;
use super::dispatch;
use super::events::EventKind;
use super::limits::{FIRST_READ_BYTES, READ_BYTES, UNREAD_BYTES_PAUSE};
use super::overload;
use super::parked;
use super::peers::Peer;
use super::slice;
use super::split::{Splitter, Taken};
use super::tls::Handshake;
use super::trial::{Length, Trial};
use super::turns;
use super::unfinished;
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
pub(super) type End = (EventKind, String);

/// How a read ended.
#[derive(PartialEq, Eq)]
enum Turn {
    /// Everything that was there is served.
    Done,
    /// There is more: others come first.
    Over,
}

struct Connection {
    core: Arc<Core>,
    peer: Arc<Peer>,
    receiver: Receiver,
    splitter: Splitter,
    /// Nothing was received yet: plain or TLS?
    is_fresh: bool,
    /// A TLS handshake that goes on.
    handshake: Option<Handshake>,
    /// Was read, and is served when it is this connection's turn again.
    left: Vec<u8>,
    /// Bytes to read at once: more for who sends much, less for who is owed much.
    room: usize,
    /// Whether its client takes its answers.
    trial: Trial,
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
        parked::give_back(core, peer);
        unfinished::forget(core, peer);
        core.holds.left();
        let blank = (EventKind::Closed, String::new());
        let (mut kind, mut detail) = std::mem::replace(&mut self.end, blank);
        if peer.is_unread() {
            (kind, detail) = (EventKind::Unread, "its client does not read".to_owned());
        } else if peer.unfinished.gave_way() {
            let made_room = "its unfinished frame made room for those of others";
            (kind, detail) = (EventKind::BadFrame, made_room.to_owned());
        }
        core.tell(kind, Some(peer), peer.remote, detail);
    }
}

/// Serves a connection until it ends; then nothing of it is left. No `async fn`: that keeps what it
/// is given twice, in a task of which there may be ten thousand.
pub(super) fn serve(
    core: Arc<Core>,
    peer: Arc<Peer>,
    receiver: Receiver,
) -> impl Future<Output = ()> + Send {
    let splitter = Splitter::new(core.settings.frame_bytes_max, core.settings.header);
    let mut connection = Connection {
        core,
        peer,
        receiver,
        splitter,
        is_fresh: true,
        handshake: None,
        left: Vec::new(),
        room: FIRST_READ_BYTES,
        trial: Trial::new(),
    };
    async move {
        let mut ending = Ending {
            core: Arc::clone(&connection.core),
            peer: Arc::clone(&connection.peer),
            end: (EventKind::Closed, "its task was ended".to_owned()),
        };
        ending.end = connection.run().await;
    }
}

impl Connection {
    async fn run(&mut self) -> End {
        let peer = Arc::clone(&self.peer);
        let mut check = pin!(sleep_until(self.next_check()));
        // Kept from read to read: to begin and end a wait takes two locks.
        let mut writing = pin!(peer.write_some());
        let mut is_more = false;
        loop {
            let was_fresh = self.is_fresh;
            let owed = peer.owed();
            let may_read = self.may_read(owed);
            tokio::select! {
                turn = self.turn(is_more), if may_read => match turn {
                    Err(end) => return end,
                    Ok(turn) => is_more = turn == Turn::Over,
                },
                () = &mut writing => {
                    writing.set(peer.write_some());
                    self.wrote(owed, may_read);
                }
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

    /// Whether a client that is owed so many bytes is read, and what was read of it served.
    fn may_read(&self, owed: usize) -> bool {
        if self.peer.sends.is_full() {
            return false;
        }
        let has_room = !overload::is_full(&self.core, owed, UNREAD_BYTES_PAUSE);
        has_room && (owed == 0 || self.next_length() == Length::Long)
    }

    fn next_check(&self) -> Instant {
        deadlines::next_check(&self.core, &self.peer, self.handshake.as_ref())
    }

    fn overdue(&self) -> Option<End> {
        let is_awaited = self.splitter.is_partial() && self.may_read(self.peer.owed());
        deadlines::overdue(&self.core, &self.peer, self.handshake.as_ref(), is_awaited)
    }

    /// The client took some of the answers it was owed, if any could be written.
    fn wrote(&self, owed: usize, may_read: bool) {
        let now_ms = self.core.clock.monotonic_ms();
        if self.peer.owed() < owed {
            self.peer.note_write(now_ms);
        }
        if !may_read {
            self.peer.unfinished.begin_anew(now_ms);
        }
        parked::give_back(&self.core, &self.peer);
    }

    /// Serves what comes; if there is more than a short turn takes, when there is a place among the
    /// few connections that may have long ones. All others are in nobody's way until then.
    async fn turn(&mut self, is_more: bool) -> Result<Turn, End> {
        if !is_more {
            return poll_fn(|cx| self.poll_read(cx, Length::Short)).await;
        }
        let core = Arc::clone(&self.core);
        let length = self.next_length();
        let is_trial = length == Length::Trial;
        if !core.long_turns.are_taken(is_trial) {
            tokio::task::yield_now().await; // else it waits for a place anyway
        }
        // In a block of its own: few wait, and every connection's task would have room for it.
        let place = Box::pin(core.long_turns.wait(is_trial)).await;
        let once = poll_fn(|cx| {
            let _long = slice::LongWork::begin();
            if is_trial {
                turns::pass_on_the_watch();
            }
            Poll::Ready(self.poll_read(cx, length))
        })
        .await;
        place.leave();
        match once {
            Poll::Ready(turn) => turn,
            Poll::Pending => Ok(Turn::Done), // it ended with the read before
        }
    }

    /// Of a turn of its own. One that is not left with requests sends much: that is no question of
    /// taking answers.
    fn next_length(&self) -> Length {
        match self.left.is_empty() {
            true => Length::Long,
            false => self.trial.length(),
        }
    }

    /// Reads once, unless something is left from the last time, and answers the whole frames that
    /// are there, until the answers are longer than `limit` bytes.
    fn poll_read(&mut self, cx: &mut Context<'_>, length: Length) -> Poll<Result<Turn, End>> {
        if self.core.is_draining() {
            return Poll::Pending; // for good: nothing more is read
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.replies.clear(); // a panic may have left another connection's
            if !self.left.is_empty() {
                let left = std::mem::take(&mut self.left);
                return Poll::Ready(self.answer(&left, &mut scratch.replies, length));
            }
            let (received, is_kept) = self.receive(cx, &mut scratch.input);
            let failure = self.follow_handshake(&received);
            Poll::Ready(match ready!(received) {
                Ok(0) => Err((EventKind::Closed, "closed by the client".to_owned())),
                Ok(count) => {
                    self.peer.note_read(self.core.clock.monotonic_ms());
                    if count == self.room {
                        self.room = READ_BYTES.min(2 * self.room);
                    }
                    let bytes = &scratch.input[..if is_kept { 0 } else { count }];
                    let turn = self.take(bytes, count, &mut scratch.replies, length);
                    turn.map(|turn| if count < READ_BYTES { turn } else { Turn::Over })
                }
                Err(error) => Err((failure, error.to_string())),
            })
        })
    }

    /// Receives into `input`, or into the large frame that has begun: true then.
    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut [u8],
    ) -> (Poll<io::Result<usize>>, bool) {
        if self.receiver.is_plain()
            && let Some((frame, missing)) = self.splitter.large(self.room)
        {
            turns::pass_on_the_watch();
            let limit = missing.min(READ_BYTES);
            return (self.receiver.poll_receive_more(cx, frame, limit), true);
        }
        let received = self.receiver.poll_receive(cx, &mut input[..self.room]);
        (received, false)
    }

    /// Takes the `count` bytes just read; none are in `bytes` if a large frame has them. The first
    /// ones say whether the connection is plain or under TLS.
    fn take(
        &mut self,
        bytes: &[u8],
        count: usize,
        replies: &mut Vec<u8>,
        length: Length,
    ) -> Result<Turn, End> {
        if self.is_fresh && !self.begin(bytes)? {
            return Ok(Turn::Done);
        }
        self.core.counters.bytes_in.add(count as u64);
        self.answer(bytes, replies, length)
    }

    /// False if these bytes begin a TLS handshake, which is under way then.
    fn begin(&mut self, bytes: &[u8]) -> Result<bool, End> {
        self.is_fresh = false;
        let failed = |core: &Core, why: String| {
            core.counters.tls_failed.one();
            (EventKind::Tls, why)
        };
        let begun = self.core.tls.begin(bytes[0]);
        let Some((session, handshake)) = begun.map_err(|why| failed(&self.core, why))? else {
            return Ok(true);
        };
        self.handshake = Some(handshake);
        let upgraded = (self.receiver).upgrade(self.peer.connection(), session, bytes);
        upgraded.map_err(|error| failed(&self.core, error.to_string()))?;
        Ok(false)
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

    fn answer(&mut self, bytes: &[u8], replies: &mut Vec<u8>, length: Length) -> Result<Turn, End> {
        let (core, peer) = (&self.core, &self.peer);
        let now_ms = core.clock.monotonic_ms();
        let mut is_new = !self.splitter.is_partial();
        let may_wait = self.trial.must_wait(length, &core.long_turns);
        let result = self.splitter.feed(bytes, |whole| {
            is_new = true; // what is left after it
            if may_wait && whole.own.is_none() && dispatch::is_pull(core, whole.bytes) {
                return Ok(Taken::NotYet);
            }
            dispatch::frame(core, peer, whole, replies)?;
            let owed = replies.len();
            Ok(
                match owed > length.bytes() || overload::has_its_share(core, peer, owed) {
                    true => Taken::Last,
                    false => Taken::Next,
                },
            )
        });
        // Also before an error: what was asked before the bad frame is answered.
        if !replies.is_empty() {
            let count = replies.len();
            send(core, peer, replies, now_ms);
            self.trial.note(count, length, peer, &core.long_turns);
        }
        let left = result.map_err(|error| {
            core.counters.frames_bad.one();
            (EventKind::BadFrame, error.to_string())
        })?;
        self.left.extend_from_slice(left);
        if !self.left.is_empty() {
            self.room = FIRST_READ_BYTES.max(self.room / 2);
        }
        let held = self.splitter.held_bytes() + self.left.capacity();
        unfinished::note(core, peer, held, is_new, now_ms);
        match self.left.is_empty() {
            true => Ok(Turn::Done),
            false => Ok(Turn::Over),
        }
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
