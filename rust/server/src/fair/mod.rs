//! Keeps well-behaved clients fast while others misbehave. docs/architecture.md lists the situation
//! that each part handles.

mod slow_reader;
pub(crate) mod turn_permits;

use crate::clients::peers::{Peer, Peers};
use crate::fair::slow_reader::Trial;
use crate::fair::turn_permits::{TurnPermit, TurnPermits, TurnSize};

/// Limits of one connection that protect others.
pub(crate) struct Fairness {
    trial: Trial,
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
            trial: Trial::new(),
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

    /// Returns the limits of a turn.
    pub(crate) fn allowance(&self, permits: &TurnPermits, size: TurnSize) -> Allowance {
        Allowance {
            size,
            leaves_pulls: self.trial.must_wait(size, permits),
        }
    }

    /// Records a turn in which `answered` bytes of replies were sent to `peer` or queued for it.
    pub(crate) fn note(
        &mut self,
        permits: &TurnPermits,
        peer: &Peer,
        size: TurnSize,
        answered: usize,
    ) {
        self.trial.note(answered, size, peer, permits);
    }

    /// Without requests left, the connection only sends much. That does not show whether its client
    /// reads replies, so the turn needs no trial.
    fn next_size(&self, has_left: bool) -> TurnSize {
        match has_left {
            true => self.trial.size(),
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
