//! A thread that does something every so often.
//!
//! Its waits are pauses and need no clock: a round that comes early or late decides by the store's
//! clock what is due ([`Every`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use mq_base::services::Services;

/// The running thread; dropping stops it, after the present round.
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
    /// A round is wanted before its time.
    is_wanted: bool,
}

/// Lets a round pause without holding up the end of its thread.
#[derive(Debug)]
pub(crate) struct Pause(Arc<Shared>);

impl Pause {
    /// Sleeps; false at once when the thread is to stop.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        let mut state = self.0.state.lock();
        let goes_on = |state: &mut State| !state.is_stopped;
        self.0.changed.wait_while_for(&mut state, goes_on, time);
        !state.is_stopped
    }
}

impl Periodic {
    /// Calls `work` every `every`, the first time after `every`. A round that panics is noted in
    /// `services`, and the next one comes in its time.
    pub(crate) fn start(
        name: &'static str,
        every: Duration,
        services: &Arc<Services>,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        Self::start_pausing(name, every, services, move |_| work())
    }

    /// As [`Periodic::start`], for work that pauses.
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
                // A panic is noted, and the thread goes on.
                let _ = services.round(name, || work(&pause));
            }
        };
        let thread = Some(thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(Self { shared, thread })
    }

    /// Has the next round come now.
    pub(crate) fn wake(&self) {
        self.shared.state.lock().is_wanted = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// Waits for the next round; false when stopped.
    fn next_round(&self, every: Duration) -> bool {
        let mut state = self.state.lock();
        let waits = |state: &mut State| !state.is_stopped && !state.is_wanted;
        self.changed.wait_while_for(&mut state, waits, every);
        state.is_wanted = false;
        !state.is_stopped
    }
}

/// Something that is due every so often, for a thread that does more than that.
#[derive(Debug)]
pub(crate) struct Every {
    interval_ms: i64,
    /// Monotonic time it is due next.
    at_ms: AtomicI64,
}

impl Every {
    /// Due at once, and then every `interval_ms`.
    pub(crate) fn new(interval_ms: u64) -> Self {
        Self {
            interval_ms: interval_ms.cast_signed(),
            at_ms: AtomicI64::new(0),
        }
    }

    /// Whether it is due; if so, the next time is an interval from now.
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
            // No round can end it with a panic.
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
            assert!(!pause.sleep(LONG), "stopped, not slept out");
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
