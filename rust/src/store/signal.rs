//! Wakes one follower of a number that only rises, cheaply while it is awake.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something may have happened, or the time is over: look.
    Look,
    /// Stop.
    Stop,
}

/// One thread waits, any number ring.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// The follower is, or is about to be, asleep.
    is_asleep: AtomicBool,
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Wakes the follower; one atomic read while it is awake.
    pub(crate) fn ring(&self) {
        // SeqCst pairs with `wait_until`: either this sees the sleeper, or the sleeper's second
        // look sees what the caller did before ringing.
        if self.is_asleep.load(Ordering::SeqCst) && self.is_asleep.swap(false, Ordering::SeqCst) {
            let _guard = self.is_stopped.lock();
            self.changed.notify_one();
        }
    }

    /// Makes every later wait answer [`Woken::Stop`].
    pub(crate) fn stop(&self) {
        *self.is_stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until a ring, a stop or the end of `at_most`, unless `is_news` holds already.
    pub(crate) fn wait(&self, at_most: Option<Duration>, is_news: impl Fn() -> bool) -> Woken {
        let mut is_stopped = self.is_stopped.lock();
        self.is_asleep.store(true, Ordering::SeqCst);
        // A ring before this store saw nobody asleep; what it told of is visible now.
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
    use std::sync::Arc;
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
    fn stop_ends_waiting() {
        let signal = Signal::default();
        signal.stop();
        assert_eq!(signal.wait(None, || false), Woken::Stop);
    }
}
