//! Permits for connections that request more than a short turn may answer.
//!
//! There is one permit fewer than cores. In addition, a client that has not proven yet that it
//! reads its replies needs the only trial permit, which stays unused for a short time after each
//! trial. So a thousand clients that request much and read nothing occupy one permit between them,
//! and clients that read do not wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::sleep;

use crate::counted::Counted;
use crate::limits::{READ_BYTES, SHORT_TURN_BYTES, TRIAL_REST, TRIAL_TURN_BYTES};

/// Length of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// A turn that needs no permit. It may delay any other connection, so it is short.
    Short,
    /// The turn of a client that has not proven yet that it reads.
    Trial,
    /// The turn of a client that has proven it.
    Long,
}

impl Length {
    /// Bytes of replies after which the turn ends.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Short => SHORT_TURN_BYTES,
            Self::Trial => TRIAL_TURN_BYTES,
            Self::Long => READ_BYTES,
        }
    }
}

/// The permits of one server.
pub(crate) struct LongTurns {
    all: Semaphore,
    trial: Arc<Semaphore>,
    /// Number of clients that wait for the trial permit.
    waiting: AtomicUsize,
}

/// A permit; released when it is dropped.
pub(crate) struct Place<'t> {
    /// The allowed length of the turn.
    pub length: Length,
    turns: &'t LongTurns,
    _any: Option<SemaphorePermit<'t>>,
    trial: Option<OwnedSemaphorePermit>,
}

impl LongTurns {
    /// Creates the permits for a machine with this number of cores.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            all: Semaphore::new(cores.saturating_sub(1).max(1)),
            trial: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Whether a connection would have to wait for a permit.
    pub(crate) fn are_taken(&self, is_trial: bool) -> bool {
        let is_taken = |places: &Semaphore| places.available_permits() == 0;
        is_taken(&self.all) || is_trial && is_taken(&self.trial)
    }

    /// Waits for a permit for a turn of this length, in order of arrival.
    pub(crate) async fn wait(&self, length: Length) -> Place<'_> {
        // An error would mean that the semaphore is closed, which never happens.
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

    /// Counts a short turn with long replies as a trial: the next trial has to wait as after any
    /// other.
    pub(crate) fn note_trial(&self) {
        if let Ok(place) = Arc::clone(&self.trial).try_acquire_owned() {
            rest(place);
        }
    }
}

impl Place<'_> {
    /// Releases the permit. If others wait for a trial, the trial permit is released a little
    /// later.
    pub(crate) fn leave(self) {
        if let Some(place) = self.trial
            && self.turns.waiting.load(Ordering::Relaxed) > 0
        {
            rest(place);
        }
    }
}

/// Hands the I/O driver to another worker. Only one worker polls the sockets, and tokio wakes no
/// other for it while this one has at most one task. Without this call, long work here would delay
/// the requests of others.
pub(crate) fn pass_on_the_watch() {
    tokio::spawn(std::future::ready(()));
}

/// Keeps the trial permit unused for a short time.
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
    async fn after_a_trial_only_readers_get_a_permit() {
        let turns = LongTurns::new(2);
        assert!(!turns.are_taken(true));
        let trial = turns.wait(Length::Trial).await;
        assert!(turns.are_taken(false), "two cores have one permit");
        let mut next = Box::pin(turns.wait(Length::Trial));
        assert!(poll_once(&mut next).is_none());
        trial.leave();
        // There is one thread, so the spawned task has not run yet.
        assert!(turns.are_taken(true));
        assert!(!turns.are_taken(false));
        turns.wait(Length::Long).await.leave();
        next.await.leave();
        assert!(
            !turns.are_taken(true),
            "no client waits, so there is no pause"
        );
    }

    #[tokio::test]
    async fn a_client_that_gave_up_does_not_wait() {
        let turns = LongTurns::new(2);
        let trial = turns.wait(Length::Trial).await;
        let mut next = Box::pin(turns.wait(Length::Trial));
        assert!(poll_once(&mut next).is_none());
        drop(next);
        trial.leave();
        assert!(!turns.are_taken(true));
    }

    /// Returns the output of a future that is ready after one poll.
    fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(future).poll(&mut context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn a_trial_that_waits_for_a_core_delays_no_reader() {
        let turns = LongTurns::new(3);
        let _trial = turns.wait(Length::Trial).await;
        assert!(turns.are_taken(true));
        assert!(!turns.are_taken(false));
        let _reader = turns.wait(Length::Long).await;
        assert!(turns.are_taken(false));
    }
}
