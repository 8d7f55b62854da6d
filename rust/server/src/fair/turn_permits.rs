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

use crate::limits::{READ_BYTES, SHORT_TURN_BYTES, TRIAL_REST, TRIAL_TURN_BYTES};
use crate::stats::counters::Counted;

/// Length of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnSize {
    /// A turn that needs no permit. It may delay any other connection, so it is short.
    Short,
    /// The turn of a client that has not proven yet that it reads.
    Trial,
    /// The turn of a client that has proven it.
    Long,
}

impl TurnSize {
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
pub(crate) struct TurnPermits {
    all: Semaphore,
    trial: Arc<Semaphore>,
    /// Number of clients that wait for the trial permit.
    waiting: AtomicUsize,
}

/// A permit; released when it is dropped.
pub(crate) struct TurnPermit<'t> {
    /// The allowed length of the turn.
    pub size: TurnSize,
    permits: &'t TurnPermits,
    _any: Option<SemaphorePermit<'t>>,
    trial: Option<OwnedSemaphorePermit>,
}

impl TurnPermits {
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

    /// Waits for a permit for a turn of this size, in order of arrival.
    pub(crate) async fn wait(&self, size: TurnSize) -> TurnPermit<'_> {
        // An error would mean that the semaphore is closed, which never happens.
        let trial = match size == TurnSize::Trial {
            true => {
                let _waiting = Counted::new(&self.waiting);
                Arc::clone(&self.trial).acquire_owned().await.ok()
            }
            false => None,
        };
        let _any = self.all.acquire().await.ok();
        if trial.is_some() {
            hand_over_io_driver();
        }
        TurnPermit {
            size,
            permits: self,
            _any,
            trial,
        }
    }

    /// Counts a short turn with long replies as a trial: the next trial has to wait as after any
    /// other.
    pub(crate) fn note_trial(&self) {
        if let Ok(permit) = Arc::clone(&self.trial).try_acquire_owned() {
            rest(permit);
        }
    }
}

impl TurnPermit<'_> {
    /// Releases the permit. If others wait for a trial, the trial permit is released a little
    /// later.
    pub(crate) fn leave(self) {
        if let Some(permit) = self.trial
            && self.permits.waiting.load(Ordering::Relaxed) > 0
        {
            rest(permit);
        }
    }
}

/// Hands the I/O driver to another worker. Only one worker polls the sockets, and tokio wakes no
/// other for it while this one has at most one task. Without this call, long work here would delay
/// the requests of others.
pub(crate) fn hand_over_io_driver() {
    tokio::spawn(std::future::ready(()));
}

/// Keeps the trial permit unused for a short time.
fn rest(permit: OwnedSemaphorePermit) {
    tokio::spawn(async move {
        sleep(TRIAL_REST).await;
        drop(permit);
    });
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn after_a_trial_only_readers_get_a_permit() {
        let permits = TurnPermits::new(2);
        assert!(!permits.are_taken(true));
        let trial = permits.wait(TurnSize::Trial).await;
        assert!(permits.are_taken(false), "two cores have one permit");
        let mut next = Box::pin(permits.wait(TurnSize::Trial));
        assert!(poll_once(&mut next).is_none());
        trial.leave();
        // There is one thread, so the spawned task has not run yet.
        assert!(permits.are_taken(true));
        assert!(!permits.are_taken(false));
        permits.wait(TurnSize::Long).await.leave();
        next.await.leave();
        assert!(
            !permits.are_taken(true),
            "no client waits, so there is no pause"
        );
    }

    #[tokio::test]
    async fn a_client_that_gave_up_does_not_wait() {
        let permits = TurnPermits::new(2);
        let trial = permits.wait(TurnSize::Trial).await;
        let mut next = Box::pin(permits.wait(TurnSize::Trial));
        assert!(poll_once(&mut next).is_none());
        drop(next);
        trial.leave();
        assert!(!permits.are_taken(true));
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
        let permits = TurnPermits::new(3);
        let _trial = permits.wait(TurnSize::Trial).await;
        assert!(permits.are_taken(true));
        assert!(!permits.are_taken(false));
        let _reader = permits.wait(TurnSize::Long).await;
        assert!(permits.are_taken(false));
    }
}
