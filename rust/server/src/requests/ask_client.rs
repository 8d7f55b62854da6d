//! Sends requests to clients; Python takes the replies later.

use crate::conn::peers::Peer;
use crate::fair::share;
use crate::shared::Shared;
use mq_format::remoting::{FrameError, renumber};

/// Why a request was not sent to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAsked {
    /// Its connection is closed.
    Gone,
    /// It has not read earlier replies, or has not answered earlier requests.
    Full,
}

impl Shared {
    /// Sends a request to a client without waiting, and returns its opaque. The result appears in
    /// `client_replies`.
    ///
    /// # Errors
    /// If the bytes are not a frame.
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

    /// Whether a reply of `bytes` fits beside the unread replies of all clients. If not, stalled
    /// clients are closed.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let has_room = share::has_room(&self.peers, bytes);
        if !has_room {
            self.peers.close_stalled(self.clock.monotonic_ms());
        }
        has_room
    }

    /// Handles a client's reply to a request; a reply that is not expected is dropped.
    pub(crate) fn replied(&self, peer: &Peer, opaque: i32, frame: &[u8]) {
        if peer.forget_reply(opaque) {
            self.client_replies.push(peer.id, opaque, frame);
        }
    }
}
