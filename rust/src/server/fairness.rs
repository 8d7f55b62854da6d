//! What keeps a client fast beside others that ask for too much or take no answers.
//!
//! docs/architecture.md says which measured row each call serves.

use super::core::Core;
use super::limits::{
    FIRST_READ_BYTES, OWED_BYTES_BUDGET, OWED_SHARE_BYTES, READ_BYTES, TURN_BYTES,
    UNREAD_BYTES_PAUSE, UNSENT_BYTES_MAX,
};
use super::peers::Peer;
use crate::net::connection::Connection;

/// Limits what the system keeps of a new connection's answers while its client does not read.
pub(super) fn limit_unsent(connection: &Connection) {
    connection.keep_unsent(UNSENT_BYTES_MAX);
}

/// Whether a client that is owed this many bytes has to take some of them before it gets more.
pub(super) fn must_take_answers(core: &Core, owed: usize) -> bool {
    is_owed_too_much(owed, core.peers.owed())
}

/// Whether a turn ends that has answered this many bytes: other connections are served next.
pub(super) fn ends_turn(core: &Core, peer: &Peer, answered: usize) -> bool {
    answered > TURN_BYTES
        || core.peers.owed() > OWED_BYTES_BUDGET && peer.owed() + answered > OWED_SHARE_BYTES
}

fn is_owed_too_much(owed: usize, owed_to_all: usize) -> bool {
    owed > OWED_SHARE_BYTES && (owed >= UNREAD_BYTES_PAUSE || owed_to_all > OWED_BYTES_BUDGET)
}

/// How many bytes a connection reads at once. A client that sends much is read in large pieces;
/// one whose requests ask for more than a turn answers keeps most of them in its own socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadSize(usize);

impl ReadSize {
    /// Of a new connection.
    pub(super) fn first() -> Self {
        Self(FIRST_READ_BYTES)
    }

    /// Bytes of the next read.
    pub(super) fn bytes(self) -> usize {
        self.0
    }

    /// Takes note of what a read brought.
    pub(super) fn read(&mut self, count: usize) {
        if count == self.0 {
            self.0 = READ_BYTES.min(2 * self.0);
        }
    }

    /// Takes note that a turn ended before all requests of a read were answered.
    pub(super) fn left_some(&mut self) {
        self.0 = FIRST_READ_BYTES.max(self.0 / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_grow_with_what_is_sent_and_shrink_with_what_is_left() {
        let mut size = ReadSize::first();
        size.read(FIRST_READ_BYTES - 1);
        assert_eq!(size.bytes(), FIRST_READ_BYTES);
        for _ in 0..10 {
            size.read(size.bytes());
        }
        assert_eq!(size.bytes(), READ_BYTES);
        size.left_some();
        assert_eq!(size.bytes(), READ_BYTES / 2);
        for _ in 0..10 {
            size.left_some();
        }
        assert_eq!(size, ReadSize::first());
    }

    #[test]
    fn a_client_has_its_share_whatever_the_others_are_owed() {
        assert!(!is_owed_too_much(OWED_SHARE_BYTES, usize::MAX));
        assert!(is_owed_too_much(
            OWED_SHARE_BYTES + 1,
            OWED_BYTES_BUDGET + 1
        ));
        assert!(!is_owed_too_much(UNREAD_BYTES_PAUSE - 1, OWED_BYTES_BUDGET));
        assert!(is_owed_too_much(UNREAD_BYTES_PAUSE, 0));
    }
}
