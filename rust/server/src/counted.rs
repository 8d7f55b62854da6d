//! Counts tasks that are waiting now.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Adds one to a counter until it is dropped, also when the task that holds it is dropped.
pub(crate) struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    pub(crate) fn new(count: &'c AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
