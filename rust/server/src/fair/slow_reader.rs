//! Tells clients that read their replies from clients that do not. Until a client has proven that
//! it reads, it gets few replies at a time, and more only when it has read all.

use crate::clients::peers::Peer;
use crate::fair::turn_permits::{TurnPermits, TurnSize};
use crate::limits::{BULK_BYTES, TAKEN_BYTES, UNSENT_BYTES_MAX};

/// Knowledge about one client.
pub(crate) struct Trial {
    /// Whether its last replies were long, or there were none yet.
    is_bulk: bool,
    /// Bytes of replies so far, read or not.
    answered: usize,
    /// Whether it has read enough to prove that it reads.
    is_over: bool,
}

impl Trial {
    pub(crate) fn new() -> Self {
        Self {
            is_bulk: true,
            answered: 0,
            is_over: false,
        }
    }

    /// Returns the kind of the client's next long turn.
    pub(crate) fn size(&self) -> TurnSize {
        match self.is_over {
            true => TurnSize::Long,
            false => TurnSize::Trial,
        }
    }

    /// Whether its pulls must wait for a permit in a turn of this size.
    pub(crate) fn must_wait(&self, size: TurnSize, permits: &TurnPermits) -> bool {
        size == TurnSize::Short && self.is_bulk && permits.are_taken(!self.is_over)
    }

    /// Records a turn in which `bytes` of replies were sent to `peer` or queued for it.
    pub(crate) fn note(
        &mut self,
        bytes: usize,
        size: TurnSize,
        peer: &Peer,
        permits: &TurnPermits,
    ) {
        self.is_bulk = bytes > BULK_BYTES;
        if self.is_over {
            return;
        }
        self.answered += bytes;
        if self.answered >= TAKEN_BYTES
            && self.answered.saturating_sub(peer.outbound_bytes()) >= TAKEN_BYTES
        {
            self.is_over = true;
            peer.connection().keep_unsent(UNSENT_BYTES_MAX);
        } else if self.is_bulk && size == TurnSize::Short {
            permits.note_trial();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::limits::UNREAD_BYTES_MAX;
    use mq_net::connection::Connection;

    const LITTLE: usize = 100;
    const MUCH: usize = BULK_BYTES + 1;

    /// Returns a peer whose client reads nothing, and that client.
    async fn peer() -> (Arc<Peer>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (far, near) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (connection, _) = Connection::new(near.unwrap().0, UNREAD_BYTES_MAX).unwrap();
        let peer = Peer::new(1, address, false, connection, 0);
        (Arc::new(peer), far.unwrap())
    }

    #[tokio::test]
    async fn a_trial_ends_when_enough_was_read() {
        let (peer, _far) = peer().await;
        let permits = TurnPermits::new(2);
        let mut trial = Trial::new();
        for _ in 0..TAKEN_BYTES / MUCH {
            trial.note(MUCH, TurnSize::Trial, &peer, &permits);
            assert_eq!(trial.size(), TurnSize::Trial);
        }
        trial.note(MUCH, TurnSize::Trial, &peer, &permits);
        assert_eq!(trial.size(), TurnSize::Long);
        assert!(!trial.must_wait(TurnSize::Long, &permits));
    }

    #[tokio::test]
    async fn unread_replies_do_not_end_a_trial() {
        let (peer, _far) = peer().await;
        let permits = TurnPermits::new(2);
        let mut trial = Trial::new();
        while peer.outbound_bytes() < TAKEN_BYTES {
            assert!(peer.send(&vec![0; TAKEN_BYTES]));
        }
        trial.note(TAKEN_BYTES, TurnSize::Trial, &peer, &permits);
        assert_eq!(trial.size(), TurnSize::Trial);
    }

    #[tokio::test]
    async fn long_replies_in_a_short_turn_delay_other_trials() {
        let (peer, _far) = peer().await;
        let permits = TurnPermits::new(2);
        let (mut first, second) = (Trial::new(), Trial::new());
        first.note(LITTLE, TurnSize::Short, &peer, &permits);
        assert!(!second.must_wait(TurnSize::Short, &permits));
        first.note(MUCH, TurnSize::Short, &peer, &permits);
        assert!(second.must_wait(TurnSize::Short, &permits));
        first.note(LITTLE, TurnSize::Short, &peer, &permits);
        assert!(
            !first.must_wait(TurnSize::Short, &permits),
            "asks for little"
        );
    }
}
