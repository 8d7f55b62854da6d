//! Keeps well-behaved clients fast while others misbehave. docs/architecture.md lists the situation
//! that each part handles.

pub(crate) mod backpressure;
pub(crate) mod share;
pub(crate) mod spare_buffers;
mod trial;
pub(crate) mod turns;

use crate::conn::peers::Peer;
use crate::fair::trial::Trial;
use crate::fair::turns::{Length, Place};
use crate::shared::Shared;

/// Limits of one connection that protect others.
pub(crate) struct Fairness {
    trial: Trial,
}

/// Limits of one turn.
pub(crate) struct Allowance {
    length: Length,
    /// Whether the connection's pulls are left to a later, long turn.
    pub leaves_pulls: bool,
}

impl Fairness {
    pub(crate) fn new() -> Self {
        Self {
            trial: Trial::new(),
        }
    }

    /// Whether to read the connection and serve requests that were read. `owed`: bytes of replies
    /// that its client has not read. `has_left`: requests are left from the last read.
    pub(crate) fn may_read(&self, shared: &Shared, owed: usize, has_left: bool) -> bool {
        let has_room = !share::is_full(&shared.peers, owed);
        has_room && (owed == 0 || self.next_length(has_left) == Length::Long)
    }

    /// Waits for a permit for a long turn.
    pub(crate) async fn place<'s>(&self, shared: &'s Shared, has_left: bool) -> Place<'s> {
        let turns = &shared.long_turns;
        let length = self.next_length(has_left);
        if !turns.are_taken(length == Length::Trial) {
            tokio::task::yield_now().await; // else it waits for a place anyway
        }
        turns.wait(length).await
    }

    /// Returns the limits of a turn.
    pub(crate) fn allowance(&self, shared: &Shared, length: Length) -> Allowance {
        Allowance {
            length,
            leaves_pulls: self.trial.must_wait(length, &shared.long_turns),
        }
    }

    /// Records a turn in which `answered` bytes of replies were sent to `peer` or queued for it.
    pub(crate) fn note(&mut self, shared: &Shared, peer: &Peer, length: Length, answered: usize) {
        self.trial.note(answered, length, peer, &shared.long_turns);
    }

    /// Without requests left, the connection only sends much. That does not show whether its client
    /// reads replies, so the turn needs no trial.
    fn next_length(&self, has_left: bool) -> Length {
        match has_left {
            true => self.trial.length(),
            false => Length::Long,
        }
    }
}

impl Allowance {
    /// Whether `answered` bytes of replies end the turn.
    pub(crate) fn is_used(&self, shared: &Shared, peer: &Peer, answered: usize) -> bool {
        answered > self.length.bytes() || share::has_its_share(&shared.peers, peer, answered)
    }
}
