//! Tells clients that read their replies from clients that do not. Until a client has proven that
//! it reads, it gets few replies at a time, and more only when it has read all.

use crate::conn::peers::Peer;
use crate::fair::turns::{Length, LongTurns};
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
    pub(crate) fn length(&self) -> Length {
        match self.is_over {
            true => Length::Long,
            false => Length::Trial,
        }
    }

    /// Whether its pulls must wait for a permit in a turn of this length.
    pub(crate) fn must_wait(&self, length: Length, turns: &LongTurns) -> bool {
        length == Length::Short && self.is_bulk && turns.are_taken(!self.is_over)
    }

    /// Records a turn in which `bytes` of replies were sent to `peer` or queued for it.
    pub(crate) fn note(&mut self, bytes: usize, length: Length, peer: &Peer, turns: &LongTurns) {
        self.is_bulk = bytes > BULK_BYTES;
        if self.is_over {
            return;
        }
        self.answered += bytes;
        if self.answered >= TAKEN_BYTES && self.answered.saturating_sub(peer.owed()) >= TAKEN_BYTES
        {
            self.is_over = true;
            peer.connection().keep_unsent(UNSENT_BYTES_MAX);
        } else if self.is_bulk && length == Length::Short {
            turns.note_trial();
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
        let turns = LongTurns::new(2);
        let mut trial = Trial::new();
        for _ in 0..TAKEN_BYTES / MUCH {
            trial.note(MUCH, Length::Trial, &peer, &turns);
            assert_eq!(trial.length(), Length::Trial);
        }
        trial.note(MUCH, Length::Trial, &peer, &turns);
        assert_eq!(trial.length(), Length::Long);
        assert!(!trial.must_wait(Length::Long, &turns));
    }

    #[tokio::test]
    async fn unread_replies_do_not_end_a_trial() {
        let (peer, _far) = peer().await;
        let turns = LongTurns::new(2);
        let mut trial = Trial::new();
        while peer.owed() < TAKEN_BYTES {
            assert!(peer.send(&vec![0; TAKEN_BYTES]));
        }
        trial.note(TAKEN_BYTES, Length::Trial, &peer, &turns);
        assert_eq!(trial.length(), Length::Trial);
    }

    #[tokio::test]
    async fn long_replies_in_a_short_turn_delay_other_trials() {
        let (peer, _far) = peer().await;
        let turns = LongTurns::new(2);
        let (mut first, second) = (Trial::new(), Trial::new());
        first.note(LITTLE, Length::Short, &peer, &turns);
        assert!(!second.must_wait(Length::Short, &turns));
        first.note(MUCH, Length::Short, &peer, &turns);
        assert!(second.must_wait(Length::Short, &turns));
        first.note(LITTLE, Length::Short, &peer, &turns);
        assert!(!first.must_wait(Length::Short, &turns), "asks for little");
    }
}
