//! What keeps healthy clients fast beside bad ones; docs/architecture.md says which situation each
//! part serves.

pub(crate) mod backpressure;
pub(crate) mod share;
pub(crate) mod spare_buffers;
mod trial;
pub(crate) mod turns;

use crate::conn::peers::Peer;
use crate::fair::trial::Trial;
use crate::fair::turns::{Length, Place};
use crate::shared::Shared;

/// What one connection may take beside the others.
pub(crate) struct Fairness {
    trial: Trial,
}

/// What one turn may answer.
pub(crate) struct Allowance {
    length: Length,
    /// The connection's pulls wait for a place in a long turn.
    pub leaves_pulls: bool,
}

impl Fairness {
    pub(crate) fn new() -> Self {
        Self {
            trial: Trial::new(),
        }
    }

    /// Whether the connection is read, and the requests that were read are served. `owed`: bytes
    /// of answers that its client has not taken. `has_left`: requests are left of the last read.
    pub(crate) fn may_read(&self, shared: &Shared, owed: usize, has_left: bool) -> bool {
        let has_room = !share::is_full(&shared.peers, owed);
        has_room && (owed == 0 || self.next_length(has_left) == Length::Long)
    }

    /// Waits for a place among the few connections that may have long turns.
    pub(crate) async fn place<'s>(&self, shared: &'s Shared, has_left: bool) -> Place<'s> {
        let turns = &shared.long_turns;
        let length = self.next_length(has_left);
        if !turns.are_taken(length == Length::Trial) {
            tokio::task::yield_now().await; // else it waits for a place anyway
        }
        turns.wait(length).await
    }

    /// What a turn of this length may answer.
    pub(crate) fn allowance(&self, shared: &Shared, length: Length) -> Allowance {
        Allowance {
            length,
            leaves_pulls: self.trial.must_wait(length, &shared.long_turns),
        }
    }

    /// Takes note of a turn of this length, in which `answered` bytes of answers were sent to
    /// `peer` or left for it.
    pub(crate) fn note(&mut self, shared: &Shared, peer: &Peer, length: Length, answered: usize) {
        self.trial.note(answered, length, peer, &shared.long_turns);
    }

    /// A connection without requests left sends much: that does not show whether its client takes
    /// answers.
    fn next_length(&self, has_left: bool) -> Length {
        match has_left {
            true => self.trial.length(),
            false => Length::Long,
        }
    }
}

impl Allowance {
    /// Whether `answered` bytes of answers end the turn.
    pub(crate) fn is_used(&self, shared: &Shared, peer: &Peer, answered: usize) -> bool {
        answered > self.length.bytes() || share::has_its_share(&shared.peers, peer, answered)
    }
}
