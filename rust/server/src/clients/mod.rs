//! Connected clients, as any thread sees them: their connections, what they have not read yet, the
//! requests that the server sends them, and the ends of their connections.

pub(crate) mod calls;
pub(crate) mod deferred_sends;
pub(crate) mod events;
mod partial_frames;
pub(crate) mod peers;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::bounded_queue::BoundedQueue;
use crate::clients::calls::{ClientReplies, NotAsked};
use crate::clients::events::{Event, EventKind};
use crate::clients::peers::{Peer, Peers};
use crate::limits::EVENTS_MAX;
use crate::stats::Stats;
use mq_base::clock::Clock;
use mq_format::remoting::{FrameError, renumber};

/// The clients of one server.
pub struct Clients {
    /// Open connections.
    pub peers: Peers,
    /// Ends of connections, for Python.
    pub events: BoundedQueue<Event>,
    /// Replies of clients to the server's requests, for Python.
    pub replies: ClientReplies,
    clock: Arc<dyn Clock>,
    pub(crate) stats: Arc<Stats>,
}

impl Clients {
    /// `reply_bytes_max`: limit on the unread replies of all clients, bytes.
    pub(crate) fn new(reply_bytes_max: usize, clock: &Arc<dyn Clock>, stats: &Arc<Stats>) -> Self {
        Self {
            peers: Peers::new(reply_bytes_max),
            events: BoundedQueue::new(EVENTS_MAX, Arc::clone(clock)),
            replies: ClientReplies::new(Arc::clone(clock)),
            clock: Arc::clone(clock),
            stats: Arc::clone(stats),
        }
    }

    /// Writes replies to a client from outside its own task.
    pub(crate) fn write(&self, peer: &Peer, out: &[u8]) {
        if !out.is_empty() {
            self.stats.counters.bytes_out.add(out.len() as u64);
            peer.note_write(self.clock.monotonic_ms());
            peer.send(out);
        }
    }

    /// Reports the end of a connection to Python.
    pub(crate) fn tell(
        &self,
        kind: EventKind,
        peer: Option<&Peer>,
        remote: SocketAddr,
        detail: String,
    ) {
        let event = Event {
            kind,
            connection: peer.map_or(0, |peer| peer.id),
            remote,
            detail,
        };
        if self.events.push_over(event).is_some() {
            self.stats.counters.events_lost.one();
        }
    }

    /// Whether a reply of `bytes` fits beside the unread replies of all clients. If not, stalled
    /// clients are closed.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let has_room = self.peers.has_room(bytes);
        if !has_room {
            self.peers.close_stalled(self.clock.monotonic_ms());
        }
        has_room
    }

    /// Sends a request to a client without waiting, and returns its opaque. The result appears in
    /// `replies`.
    ///
    /// # Errors
    /// If the bytes are not a frame.
    pub fn ask(&self, peer: &Peer, frame: &[u8]) -> Result<Result<i32, NotAsked>, FrameError> {
        if self.peers.must_wait(peer) || !self.has_room(frame.len()) {
            return Ok(Err(NotAsked::Full));
        }
        let Some(opaque) = peer.expect_reply() else {
            return Ok(Err(match peer.is_closing() {
                true => NotAsked::Gone,
                false => NotAsked::Full,
            }));
        };
        let sent = renumber(frame, opaque).map(|frame| peer.send(&frame));
        if !matches!(sent, Ok(true)) {
            peer.forget_reply(opaque);
        }
        Ok(sent?.then_some(opaque).ok_or(NotAsked::Gone))
    }

    /// Handles a client's reply to a request; a reply that is not expected is dropped.
    pub(crate) fn replied(&self, peer: &Peer, opaque: i32, frame: &[u8]) {
        if peer.forget_reply(opaque) {
            self.replies.push(peer.id, opaque, frame);
        }
    }
}
