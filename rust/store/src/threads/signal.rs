//! [`Signal`] wakes one follower of an increasing number, and costs little while the follower is
//! awake.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::listeners::{AlreadyRegistered, Listener};
use mq_base::services::Services;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The condition may hold, or the time is over: check.
    Look,
    /// Stop.
    Stop,
}

/// Tells whether a reader waits for the follower's work.
pub type IsAwaited = dyn Fn() -> bool + Send + Sync;

/// One thread waits; any number of threads ring.
pub(crate) struct Signal {
    /// The follower sleeps, or is about to.
    is_asleep: AtomicBool,
    /// The follower rests because no reader waits.
    is_resting: AtomicBool,
    is_awaited: Listener<IsAwaited>,
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Default for Signal {
    fn default() -> Self {
        Self {
            is_asleep: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
            is_awaited: Listener::new("is-awaited"),
            is_stopped: Mutex::default(),
            changed: Condvar::new(),
        }
    }
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
    pub(crate) fn set_awaited(
        &self,
        is_awaited: Box<IsAwaited>,
        services: &Arc<Services>,
    ) -> Result<(), AlreadyRegistered> {
        self.is_awaited.register(is_awaited, services)
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
        let is_awaited = self.is_awaited.call(|is_awaited| is_awaited()) != Some(false);
        if !*is_stopped && !is_awaited {
            self.changed.wait_for(&mut is_stopped, at_most);
        }
        self.is_resting.store(false, Ordering::SeqCst);
    }

    /// Makes all later waits return [`Woken::Stop`], until [`Signal::resume`].
    pub(crate) fn stop(&self) {
        *self.is_stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Ends the effect of a stop: a new follower may wait.
    pub(crate) fn resume(&self) {
        *self.is_stopped.lock() = false;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

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
        let is_awaited = Box::new(move || asked.load(Ordering::SeqCst));
        signal.set_awaited(is_awaited, &Arc::default()).unwrap();
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
}
