//! Holds many threads and lets all of them go by one call.
//!
//! A condition variable hands its mutex from one thread to the next: each must run before the
//! next may. What these threads wait for is read without a lock, so that none is needed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex;

/// Closed until it is opened; then closed again for who comes later.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    opened: AtomicU32,
}

impl Gate {
    /// How often it was opened: read before the decision to wait.
    pub(crate) fn opened(&self) -> u32 {
        self.opened.load(Ordering::SeqCst)
    }

    /// Waits until it was opened more often than `seen`, or the time is over, or for no reason.
    pub(crate) fn wait(&self, seen: u32, at_most: Duration) {
        // Longer than the system's clock can tell is for ever.
        let at_most = futex::Timespec::try_from(at_most).ok();
        // Every way to come back means to look again.
        let _ = futex::wait(&self.opened, futex::Flags::PRIVATE, seen, at_most.as_ref());
    }

    /// Opens it. Nobody wakes before [`Gate::release`].
    pub(crate) fn open(&self) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes who waits since before it was opened.
    pub(crate) fn release(&self) {
        // Fails for no valid address.
        let _ = futex::wake(&self.opened, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn all_go_at_once_or_when_their_time_is_over() {
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
