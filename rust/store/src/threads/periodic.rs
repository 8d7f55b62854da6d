//! A thread that runs its work on an interval.
//!
//! The waits are pauses and need no exact clock. A round that starts early or late uses the store's
//! clock to decide which work is due ([`Every`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use mq_base::services::Services;

/// The running thread. Dropping stops it after the current round.
pub(crate) struct Periodic {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    /// The next round shall start now.
    is_wanted: bool,
}

/// Pauses within a round, which a stop of the thread ends.
#[derive(Debug)]
pub(crate) struct Pause(Arc<Shared>);

impl Pause {
    /// Sleeps; returns false at once if the thread shall stop.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        let mut state = self.0.state.lock();
        let goes_on = |state: &mut State| !state.is_stopped;
        self.0.changed.wait_while_for(&mut state, goes_on, time);
        !state.is_stopped
    }
}

impl Periodic {
    /// Calls `work` once per `every`, first after `every`. A panic is counted in `services`, and
    /// the next round runs at its time.
    pub(crate) fn start(
        name: &'static str,
        every: Duration,
        services: &Arc<Services>,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        Self::start_pausing(name, every, services, move |_| work())
    }

    /// Like [`Periodic::start`], for work that pauses.
    pub(crate) fn start_pausing(
        name: &'static str,
        every: Duration,
        services: &Arc<Services>,
        mut work: impl FnMut(&Pause) + Send + 'static,
    ) -> io::Result<Self> {
        let services = Arc::clone(services);
        let shared = Arc::<Shared>::default();
        let pause = Pause(Arc::clone(&shared));
        let run = move || {
            while pause.0.next_round(every) {
                // `services` notes a panic, and the thread continues.
                let _ = services.round(name, || work(&pause));
            }
        };
        let thread = Some(thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(Self { shared, thread })
    }

    /// Starts the next round now.
    pub(crate) fn wake(&self) {
        self.shared.state.lock().is_wanted = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// Waits for the next round; false after a stop.
    fn next_round(&self, every: Duration) -> bool {
        let mut state = self.state.lock();
        let waits = |state: &mut State| !state.is_stopped && !state.is_wanted;
        self.changed.wait_while_for(&mut state, waits, every);
        state.is_wanted = false;
        !state.is_stopped
    }
}

/// An interval for one kind of work of a thread that does several.
#[derive(Debug)]
pub(crate) struct Every {
    interval_ms: i64,
    /// Monotonic time at which the work is due next.
    at_ms: AtomicI64,
}

impl Every {
    /// Due at once, and then once per `interval_ms`.
    pub(crate) fn new(interval_ms: u64) -> Self {
        Self {
            interval_ms: interval_ms.cast_signed(),
            at_ms: AtomicI64::new(0),
        }
    }

    /// Whether the work is due. If so, it is due again one interval from now.
    pub(crate) fn is_due(&self, now_ms: i64) -> bool {
        let is_due = now_ms >= self.at_ms.load(Ordering::Relaxed);
        if is_due {
            let next_ms = now_ms.saturating_add(self.interval_ms);
            self.at_ms.store(next_ms, Ordering::Relaxed);
        }
        is_due
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The join cannot fail, because rounds catch panics.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_round_comes_when_woken_and_a_pause_ends_at_the_stop() {
        let (rounds, seen) = mpsc::channel();
        let services = Arc::default();
        let periodic = Periodic::start_pausing("test", LONG, &services, move |pause| {
            assert!(pause.sleep(Duration::from_millis(1)));
            rounds.send("in").unwrap();
            assert!(!pause.sleep(LONG), "the stop ends the sleep");
            rounds.send("out").unwrap();
        })
        .unwrap();
        periodic.wake();
        assert_eq!(seen.recv_timeout(Duration::from_secs(10)), Ok("in"));
        drop(periodic);
        assert_eq!(seen.try_recv(), Ok("out"));
        assert!(seen.try_recv().is_err());
    }

    #[test]
    fn a_round_that_panics_is_noted_and_the_next_one_comes() {
        let services = Arc::<Services>::default();
        let (rounds, seen) = mpsc::channel();
        let mut count = 0;
        let every = Duration::from_millis(1);
        let work = move || {
            count += 1;
            rounds.send(count).unwrap();
            assert_ne!(count, 1, "the first round fails");
        };
        let periodic = Periodic::start("test", every, &services, work).unwrap();
        for round in 1..=3 {
            assert_eq!(seen.recv_timeout(Duration::from_secs(10)), Ok(round));
        }
        drop(periodic);
        let failures = &services.all()["test"];
        assert_eq!((failures.count, &failures.now), (1, &None));
    }

    #[test]
    fn rounds_repeat() {
        let (rounds, seen) = mpsc::channel();
        let every = Duration::from_millis(1);
        let send = move || rounds.send(()).unwrap();
        let _periodic = Periodic::start("test", every, &Arc::default(), send).unwrap();
        for _ in 0..3 {
            seen.recv_timeout(Duration::from_secs(10)).unwrap();
        }
    }
}
