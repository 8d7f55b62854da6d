//! Keeps well-behaved clients fast while others misbehave. docs/architecture.md lists the situation
//! that each part handles.
//!
//! A client is on trial until it has proven that it reads its replies: it gets few replies at a
//! time, and more only when it has read all.

pub(crate) mod turn_permits;

use crate::clients::peers::{Peer, Peers};
use crate::fair::turn_permits::{TurnPermit, TurnPermits, TurnSize};
use crate::limits::{BULK_BYTES, TAKEN_BYTES, UNSENT_BYTES_MAX};

/// Limits of one connection that protect others.
pub(crate) struct Fairness {
    /// Whether its last replies were long, or there were none yet.
    is_bulk: bool,
    /// Bytes of replies so far, read or not.
    answered: usize,
    /// Whether its client has read enough to prove that it reads.
    is_proven: bool,
}

/// Limits of one turn.
pub(crate) struct Allowance {
    size: TurnSize,
    /// Whether the connection's pulls are left to a later, long turn.
    pub leaves_pulls: bool,
}

impl Fairness {
    pub(crate) fn new() -> Self {
        Self {
            is_bulk: true,
            answered: 0,
            is_proven: false,
        }
    }

    /// Whether to read the connection and serve requests that were read. `outbound_bytes`: bytes of
    /// replies that its client has not read. `has_left`: requests are left from the last read.
    pub(crate) fn may_read(&self, peers: &Peers, outbound_bytes: usize, has_left: bool) -> bool {
        let has_room = !peers.is_full(outbound_bytes);
        has_room && (outbound_bytes == 0 || self.next_size(has_left) == TurnSize::Long)
    }

    /// Waits for a permit for a long turn.
    pub(crate) async fn permit<'p>(
        &self,
        permits: &'p TurnPermits,
        has_left: bool,
    ) -> TurnPermit<'p> {
        let size = self.next_size(has_left);
        if !permits.are_taken(size == TurnSize::Trial) {
            tokio::task::yield_now().await; // otherwise it waits for a permit anyway
        }
        permits.wait(size).await
    }

    /// Returns the limits of a turn. In a short turn, pulls of a connection with long replies are
    /// left while no permit is free.
    pub(crate) fn allowance(&self, permits: &TurnPermits, size: TurnSize) -> Allowance {
        Allowance {
            size,
            leaves_pulls: size == TurnSize::Short
                && self.is_bulk
                && permits.are_taken(!self.is_proven),
        }
    }

    /// Records a turn in which `bytes` of replies were sent to `peer` or queued for it.
    pub(crate) fn note(
        &mut self,
        permits: &TurnPermits,
        peer: &Peer,
        size: TurnSize,
        bytes: usize,
    ) {
        self.is_bulk = bytes > BULK_BYTES;
        if self.is_proven {
            return;
        }
        self.answered += bytes;
        if self.answered >= TAKEN_BYTES
            && self.answered.saturating_sub(peer.outbound_bytes()) >= TAKEN_BYTES
        {
            self.is_proven = true;
            peer.connection().keep_unsent(UNSENT_BYTES_MAX);
        } else if self.is_bulk && size == TurnSize::Short {
            permits.note_trial();
        }
    }

    /// Returns the size of the next long turn. Without requests left, the connection only sends
    /// much. That does not show whether its client reads replies, so the turn needs no trial.
    fn next_size(&self, has_left: bool) -> TurnSize {
        match has_left && !self.is_proven {
            true => TurnSize::Trial,
            false => TurnSize::Long,
        }
    }
}

impl Allowance {
    /// Whether `answered` bytes of replies end the turn.
    pub(crate) fn is_used(&self, peers: &Peers, peer: &Peer, answered: usize) -> bool {
        answered > self.size.bytes() || peers.has_its_share(peer, answered)
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
        let mut trial = Fairness::new();
        for _ in 0..TAKEN_BYTES / MUCH {
            trial.note(&permits, &peer, TurnSize::Trial, MUCH);
            assert_eq!(trial.next_size(true), TurnSize::Trial);
        }
        trial.note(&permits, &peer, TurnSize::Trial, MUCH);
        assert_eq!(trial.next_size(true), TurnSize::Long);
        assert!(!trial.allowance(&permits, TurnSize::Long).leaves_pulls);
    }

    #[tokio::test]
    async fn unread_replies_do_not_end_a_trial() {
        let (peer, _far) = peer().await;
        let permits = TurnPermits::new(2);
        let mut trial = Fairness::new();
        while peer.outbound_bytes() < TAKEN_BYTES {
            assert!(peer.send(&vec![0; TAKEN_BYTES]));
        }
        trial.note(&permits, &peer, TurnSize::Trial, TAKEN_BYTES);
        assert_eq!(trial.next_size(true), TurnSize::Trial);
    }

    #[tokio::test]
    async fn long_replies_in_a_short_turn_delay_other_trials() {
        let (peer, _far) = peer().await;
        let permits = TurnPermits::new(2);
        let (mut first, second) = (Fairness::new(), Fairness::new());
        first.note(&permits, &peer, TurnSize::Short, LITTLE);
        assert!(!second.allowance(&permits, TurnSize::Short).leaves_pulls);
        first.note(&permits, &peer, TurnSize::Short, MUCH);
        assert!(second.allowance(&permits, TurnSize::Short).leaves_pulls);
        first.note(&permits, &peer, TurnSize::Short, LITTLE);
        assert!(
            !first.allowance(&permits, TurnSize::Short).leaves_pulls,
            "asks for little"
        );
    }
}
