//! Requests to clients, whose replies Python takes later.

use crate::conn::peers::Peer;
use crate::fair::share;
use crate::shared::Shared;
use mq_format::remoting::{FrameError, renumber};

/// Why a client was not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAsked {
    /// Its connection is closed.
    Gone,
    /// It has not taken earlier answers, or has not answered earlier requests.
    Full,
}

impl Shared {
    /// Sends a request to a client without waiting, and gives its opaque; `client_replies` tells
    /// what became of it.
    ///
    /// # Errors
    /// Bytes that are no frame.
    pub fn ask(&self, peer: &Peer, frame: &[u8]) -> Result<Result<i32, NotAsked>, FrameError> {
        if share::must_wait(&self.peers, peer) || !self.has_room(frame.len()) {
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

    /// Whether a reply of `bytes` has room beside the bytes that all clients are owed. If it has
    /// none, clients that take nothing are closed.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let has_room = share::has_room(&self.peers, bytes);
        if !has_room {
            self.peers.close_stalled(self.clock.monotonic_ms());
        }
        has_room
    }

    /// A client answered a request; an answer that nobody waits for is dropped.
    pub(crate) fn replied(&self, peer: &Peer, opaque: i32, frame: &[u8]) {
        if peer.forget_reply(opaque) {
            self.client_replies.push(peer.id, opaque, frame);
        }
    }
}
