//! How threads of the store wait for each other. [`Signal`] wakes one follower of an increasing
//! number, and costs little while the follower is awake. [`Gate`] blocks many threads, which one
//! call releases.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::thread::futex;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The condition may hold, or the time is over: check.
    Look,
    /// Stop.
    Stop,
}

/// Tells whether a reader waits for the follower's work.
pub(crate) type IsAwaited = Box<dyn Fn() -> bool + Send + Sync>;

/// One thread waits; any number of threads ring.
#[derive(Default)]
pub(crate) struct Signal {
    /// The follower sleeps, or is about to.
    is_asleep: AtomicBool,
    /// The follower rests because no reader waits.
    is_resting: AtomicBool,
    is_awaited: OnceLock<IsAwaited>,
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Wakes the follower. Costs one atomic read while it is awake.
    pub(crate) fn ring(&self) {
        // SeqCst pairs with `wait`: either this call sees the sleeper, or the sleeper's second
        // check sees the caller's change.
        if self.is_asleep.load(Ordering::SeqCst) && self.is_asleep.swap(false, Ordering::SeqCst) {
            let _guard = self.is_stopped.lock();
            self.changed.notify_one();
        }
    }

    /// Registers the function that knows of waiting readers. Without it, a reader is assumed to
    /// wait.
    pub(crate) fn set_awaited(&self, is_awaited: IsAwaited) {
        let _ = self.is_awaited.set(is_awaited);
    }

    /// Ends a rest because a reader waits. Costs one atomic read while the follower does not rest.
    pub(crate) fn hurry(&self) {
        fence(Ordering::SeqCst); // pairs with `rest`, as in `ring`
        if self.is_resting.load(Ordering::SeqCst) && self.is_resting.swap(false, Ordering::SeqCst) {
            let _guard = self.is_stopped.lock();
            self.changed.notify_one();
        }
    }

    /// Rests for `at_most`, ignoring rings, unless a reader waits already or begins to.
    pub(crate) fn rest(&self, at_most: Duration) {
        let mut is_stopped = self.is_stopped.lock();
        self.is_resting.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let is_awaited = self.is_awaited.get().is_none_or(|is_awaited| is_awaited());
        if !*is_stopped && !is_awaited {
            self.changed.wait_for(&mut is_stopped, at_most);
        }
        self.is_resting.store(false, Ordering::SeqCst);
    }

    /// Makes all later waits return [`Woken::Stop`].
    pub(crate) fn stop(&self) {
        *self.is_stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for a ring, a stop or the end of `at_most`; does not wait if `is_news` returns true.
    pub(crate) fn wait(&self, at_most: Option<Duration>, is_news: impl Fn() -> bool) -> Woken {
        let mut is_stopped = self.is_stopped.lock();
        self.is_asleep.store(true, Ordering::SeqCst);
        // An earlier ring saw no sleeper, but the change that it announced is visible now.
        if !*is_stopped && !is_news() {
            match at_most {
                Some(at_most) => drop(self.changed.wait_for(&mut is_stopped, at_most)),
                None => self.changed.wait(&mut is_stopped),
            }
        }
        self.is_asleep.store(false, Ordering::SeqCst);
        if *is_stopped {
            Woken::Stop
        } else {
            Woken::Look
        }
    }
}

/// A gate that is closed until it is opened, and is then closed again for later threads.
///
/// A condition variable would pass its mutex from thread to thread, so each must run before the
/// next may. These threads read their condition without a lock, so they need no mutex.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    opened: AtomicU32,
}

impl Gate {
    /// Number of openings. Read it before deciding to wait.
    pub(crate) fn opened(&self) -> u32 {
        self.opened.load(Ordering::SeqCst)
    }

    /// Waits until the number of openings exceeds `seen` or the time is over; may return
    /// spuriously.
    pub(crate) fn wait(&self, seen: u32, at_most: Duration) {
        // A time beyond the system's range means forever.
        let at_most = futex::Timespec::try_from(at_most).ok();
        // After any result the caller checks again.
        let _ = futex::wait(&self.opened, futex::Flags::PRIVATE, seen, at_most.as_ref());
    }

    /// Opens the gate. No thread wakes before [`Gate::release`].
    pub(crate) fn open(&self) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes the threads that have waited since before the opening.
    pub(crate) fn release(&self) {
        // Cannot fail, because the address is valid.
        let _ = futex::wake(&self.opened, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_follower_sees_every_number() {
        let shared = Arc::new((Signal::default(), AtomicU64::new(0)));
        let seen = Arc::clone(&shared);
        let follower = std::thread::spawn(move || {
            let (signal, number) = &*seen;
            let mut last = 0;
            while last < 10_000 {
                let is_news = || number.load(Ordering::SeqCst) > last;
                assert_eq!(signal.wait(None, is_news), Woken::Look);
                last = number.load(Ordering::SeqCst);
            }
        });
        for next in 1..=10_000 {
            shared.1.store(next, Ordering::SeqCst);
            shared.0.ring();
        }
        follower.join().unwrap();
    }

    #[test]
    fn a_rest_ends_when_a_reader_waits() {
        const LONG: Duration = Duration::from_secs(60);
        let signal = Arc::new(Signal::default());
        signal.rest(LONG); // nobody can tell: it does not rest
        let waits = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&waits);
        signal.set_awaited(Box::new(move || asked.load(Ordering::SeqCst)));
        let resting = Arc::clone(&signal);
        let follower = std::thread::spawn(move || resting.rest(LONG));
        while !signal.is_resting.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        signal.ring();
        assert!(
            signal.is_resting.load(Ordering::SeqCst),
            "a ring is no hurry"
        );
        waits.store(true, Ordering::SeqCst);
        signal.hurry();
        follower.join().unwrap();
        signal.rest(LONG); // somebody waits already
        waits.store(false, Ordering::SeqCst);
        signal.stop();
        signal.rest(LONG);
    }

    #[test]
    fn stop_ends_waiting() {
        let signal = Signal::default();
        signal.stop();
        assert_eq!(signal.wait(None, || false), Woken::Stop);
    }

    #[test]
    fn all_threads_wake_at_once_or_after_their_time() {
        let gate = Arc::new(Gate::default());
        let seen = gate.opened();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let gate = Arc::clone(&gate);
                std::thread::spawn(move || {
                    while gate.opened() == seen {
                        gate.wait(seen, Duration::from_secs(5));
                    }
                })
            })
            .collect();
        gate.open();
        gate.release();
        for thread in threads {
            thread.join().unwrap();
        }
        let (now, started) = (gate.opened(), Instant::now());
        while started.elapsed() < Duration::from_millis(10) {
            gate.wait(now, Duration::from_millis(10));
        }
        assert_eq!(gate.opened(), now);
    }
}
