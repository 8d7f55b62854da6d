//! [`Bell`] wakes the threads that send the log to slaves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Any number of threads wait for the log to grow. A ring costs one atomic read while none waits.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    sleepers: AtomicUsize,
    state: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    /// Wakes all waiting threads. The caller has announced its news, and has taken or released a
    /// lock since then.
    pub(crate) fn ring(&self) {
        // SeqCst pairs with `wait`: either this call sees the sleeper, or the sleeper sees the
        // news.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self.state.lock();
            self.rung.notify_all();
        }
    }

    /// Waits for a ring, at most this long; does not wait if `is_news` returns true.
    pub(crate) fn wait(&self, at_most: Duration, is_news: impl Fn() -> bool) {
        let mut guard = self.state.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if !is_news() {
            self.rung.wait_for(&mut guard, at_most);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn every_follower_sees_every_number() {
        const LAST: u64 = 5_000;
        let shared = Arc::new((Bell::default(), AtomicU64::new(0)));
        let follow = |shared: Arc<(Bell, AtomicU64)>| {
            let (bell, number) = &*shared;
            let mut seen = 0;
            while seen < LAST {
                bell.wait(Duration::from_secs(60), || {
                    number.load(Ordering::SeqCst) > seen
                });
                seen = number.load(Ordering::SeqCst);
            }
        };
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || follow(shared))
        };
        let followers: Vec<_> = (0..2).map(spawn).collect();
        for next in 1..=LAST {
            shared.1.store(next, Ordering::SeqCst);
            shared.0.ring();
        }
        for follower in followers {
            follower.join().unwrap();
        }
    }
}
