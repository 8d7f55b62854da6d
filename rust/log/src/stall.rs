//! The writer's wait for a slow disk that has to create the next file or to reserve blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use mq_base::clock::Clock;

/// A stall begins when the writer gives up with `NotReady`, and ends when another attempt makes
/// sense.
pub struct Stall {
    clock: Arc<dyn Clock>,
    is_on: AtomicBool,
    /// Monotonic time at which the stall began.
    since_ms: Mutex<Option<i64>>,
    ended: Condvar,
}

impl Stall {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            is_on: AtomicBool::new(false),
            since_ms: Mutex::new(None),
            ended: Condvar::new(),
        }
    }

    /// Whether an append would fail with `NotReady` for now.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Duration of the stall so far, milliseconds; 0 without a stall, which costs one atomic read.
    pub fn lasts_ms(&self) -> i64 {
        if !self.is_on() {
            return 0;
        }
        let since_ms = *self.since_ms.lock();
        since_ms.map_or(0, |since_ms| self.clock.monotonic_ms() - since_ms)
    }

    /// Waits for the end of the stall; false if it lasts longer than `at_most`.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut since_ms = self.since_ms.lock();
        let lasts = |since_ms: &mut Option<i64>| since_ms.is_some();
        self.ended.wait_while_for(&mut since_ms, lasts, at_most);
        since_ms.is_none()
    }

    pub(super) fn begin(&self) {
        let now_ms = || self.clock.monotonic_ms();
        self.since_ms.lock().get_or_insert_with(now_ms);
        self.is_on.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        if self.is_on() {
            *self.since_ms.lock() = None;
            self.is_on.store(false, Ordering::Release);
            self.ended.notify_all();
        }
    }
}
