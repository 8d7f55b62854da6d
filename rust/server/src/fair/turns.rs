//! Places of connections that ask for more than a short turn takes.
//!
//! There is one fewer than there are cores. Clients that have not shown yet that they take answers
//! share one more, a trial's: it stays empty for a while after each turn. A thousand who ask for
//! much and take nothing so leave the cores to others, and no reader waits behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::sleep;

use crate::counted::Counted;
use crate::limits::{READ_BYTES, SHORT_TURN_BYTES, TRIAL_REST, TRIAL_TURN_BYTES};

/// How much a turn may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// A turn that needs no place. It may delay any other connection, so it is short.
    Short,
    /// The turn of a client that has not shown yet that it takes answers.
    Trial,
    /// The turn of a client that has shown it.
    Long,
}

impl Length {
    /// Bytes of answers that end the turn.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Short => SHORT_TURN_BYTES,
            Self::Trial => TRIAL_TURN_BYTES,
            Self::Long => READ_BYTES,
        }
    }
}

/// The places of one server.
pub(crate) struct LongTurns {
    all: Semaphore,
    trial: Arc<Semaphore>,
    /// Clients that wait for the place of a trial.
    waiting: AtomicUsize,
}

/// A place, until it is left.
pub(crate) struct Place<'t> {
    /// How long the turn may be.
    pub length: Length,
    turns: &'t LongTurns,
    _any: Option<SemaphorePermit<'t>>,
    trial: Option<OwnedSemaphorePermit>,
}

impl LongTurns {
    /// The places on a machine with so many cores.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            all: Semaphore::new(cores.saturating_sub(1).max(1)),
            trial: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Whether a connection would have to wait for a place.
    pub(crate) fn are_taken(&self, is_trial: bool) -> bool {
        let is_taken = |places: &Semaphore| places.available_permits() == 0;
        is_taken(&self.all) || is_trial && is_taken(&self.trial)
    }

    /// Waits for a place for a turn of this length: first come, first served.
    pub(crate) async fn wait(&self, length: Length) -> Place<'_> {
        // An error would mean that the places are closed, which nobody does.
        let trial = match length == Length::Trial {
            true => {
                let _waiting = Counted::new(&self.waiting);
                Arc::clone(&self.trial).acquire_owned().await.ok()
            }
            false => None,
        };
        let _any = self.all.acquire().await.ok();
        if trial.is_some() {
            pass_on_the_watch();
        }
        Place {
            length,
            turns: self,
            _any,
            trial,
        }
    }

    /// A short turn with long answers was a trial too: the next one comes after a rest.
    pub(crate) fn note_trial(&self) {
        if let Ok(place) = Arc::clone(&self.trial).try_acquire_owned() {
            rest(place);
        }
    }
}

impl Place<'_> {
    /// Makes room for the next one; if others wait for a trial, not at once after one.
    pub(crate) fn leave(self) {
        if let Some(place) = self.trial
            && self.turns.waiting.load(Ordering::Relaxed) > 0
        {
            rest(place);
        }
    }
}

/// Has another worker watch the sockets. Only one does, and as long as it has no more than one task
/// the runtime wakes nobody in its place: before long work others' requests would go unseen.
pub(crate) fn pass_on_the_watch() {
    tokio::spawn(std::future::ready(()));
}

/// Keeps a trial's place empty for a while.
fn rest(place: OwnedSemaphorePermit) {
    tokio::spawn(async move {
        sleep(TRIAL_REST).await;
        drop(place);
    });
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn after_a_trial_others_may_but_no_further_trial() {
        let turns = LongTurns::new(2);
        assert!(!turns.are_taken(true));
        let trial = turns.wait(Length::Trial).await;
        assert!(turns.are_taken(false), "two cores have one place");
        let mut next = Box::pin(turns.wait(Length::Trial));
        assert!(poll_once(&mut next).is_none());
        trial.leave();
        // One thread: what was spawned has not run yet.
        assert!(turns.are_taken(true));
        assert!(!turns.are_taken(false));
        turns.wait(Length::Long).await.leave();
        next.await.leave();
        assert!(!turns.are_taken(true), "nobody waits for a rest to end");
    }

    #[tokio::test]
    async fn who_gave_up_waits_for_nothing() {
        let turns = LongTurns::new(2);
        let trial = turns.wait(Length::Trial).await;
        let mut next = Box::pin(turns.wait(Length::Trial));
        assert!(poll_once(&mut next).is_none());
        drop(next);
        trial.leave();
        assert!(!turns.are_taken(true));
    }

    /// What a future has by now.
    fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(future).poll(&mut context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn a_trial_that_waits_for_a_core_is_in_no_readers_way() {
        let turns = LongTurns::new(3);
        let _trial = turns.wait(Length::Trial).await;
        assert!(turns.are_taken(true));
        assert!(!turns.are_taken(false));
        let _reader = turns.wait(Length::Long).await;
        assert!(turns.are_taken(false));
    }
}
