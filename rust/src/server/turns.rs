//! Places of connections that ask for more than a short turn takes.
//!
//! There is one fewer than there are cores. Clients that have not shown yet that they take answers
//! share one more, a trial's: it stays empty for a while after each turn. A thousand who ask for
//! much and take nothing so leave the cores to others, and no reader waits behind them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::sleep;

use super::limits::TRIAL_REST;

/// The places of one server.
pub(super) struct LongTurns {
    all: Semaphore,
    trial: Arc<Semaphore>,
}

/// A place, until it is left.
pub(super) struct Place<'t> {
    _any: Option<SemaphorePermit<'t>>,
    trial: Option<OwnedSemaphorePermit>,
}

impl LongTurns {
    /// The places on a machine with so many cores.
    pub(super) fn new(cores: usize) -> Self {
        Self {
            all: Semaphore::new(cores.saturating_sub(1).max(1)),
            trial: Arc::new(Semaphore::new(1)),
        }
    }

    /// Whether a connection would have to wait for a place.
    pub(super) fn are_taken(&self, is_trial: bool) -> bool {
        let is_taken = |places: &Semaphore| places.available_permits() == 0;
        is_taken(&self.all) || is_trial && is_taken(&self.trial)
    }

    /// Waits for a place: first come, first served.
    pub(super) async fn wait(&self, is_trial: bool) -> Place<'_> {
        // An error would mean that the places are closed, which nobody does.
        let trial = match is_trial {
            true => Arc::clone(&self.trial).acquire_owned().await.ok(),
            false => None,
        };
        let _any = self.all.acquire().await.ok();
        Place { _any, trial }
    }
}

impl Place<'_> {
    /// Makes room for the next one, after a trial not at once.
    pub(super) fn leave(self) {
        if let Some(place) = self.trial {
            tokio::spawn(async move {
                sleep(TRIAL_REST).await;
                drop(place);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn after_a_trial_others_may_but_no_further_trial() {
        let turns = LongTurns::new(2);
        assert!(!turns.are_taken(true));
        let trial = turns.wait(true).await;
        assert!(turns.are_taken(false), "two cores have one place");
        trial.leave();
        // One thread: what was spawned has not run yet.
        assert!(turns.are_taken(true));
        assert!(!turns.are_taken(false));
        turns.wait(false).await.leave();
        turns.wait(true).await;
        assert!(
            !turns.are_taken(true),
            "one that is only dropped rests for nobody"
        );
    }

    #[tokio::test]
    async fn a_trial_that_waits_for_a_core_is_in_no_readers_way() {
        let turns = LongTurns::new(3);
        let _trial = turns.wait(true).await;
        assert!(turns.are_taken(true));
        assert!(!turns.are_taken(false));
        let _reader = turns.wait(false).await;
        assert!(turns.are_taken(false));
    }
}
