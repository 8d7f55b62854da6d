//! Whether the writer lacks what a slow disk has yet to make: the next file, or blocks of this one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// Begins when the writer goes away empty-handed; ends when another try is worth its while.
#[derive(Debug, Default)]
pub struct Stall {
    is_on: AtomicBool,
    since: Mutex<Option<Instant>>,
    ended: Condvar,
}

impl Stall {
    /// Whether a try is in vain for now.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// How long it lasts, milliseconds; 0 where there is none. One atomic read then.
    pub fn lasts_ms(&self) -> i64 {
        if !self.is_on() {
            return 0;
        }
        let since = self.since.lock().map_or(0, |at| at.elapsed().as_millis());
        i64::try_from(since).unwrap_or(i64::MAX)
    }

    /// Waits for its end; false if that has not come by `until`.
    pub fn wait(&self, until: Instant) -> bool {
        let mut since = self.since.lock();
        while since.is_some() {
            if self.ended.wait_until(&mut since, until).timed_out() {
                return since.is_none();
            }
        }
        true
    }

    pub(super) fn begin(&self) {
        self.since.lock().get_or_insert_with(Instant::now);
        self.is_on.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        if self.is_on() {
            *self.since.lock() = None;
            self.is_on.store(false, Ordering::Release);
            self.ended.notify_all();
        }
    }
}
