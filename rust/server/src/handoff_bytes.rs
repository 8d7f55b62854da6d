//! Memory of the requests in Python's hands, and its limit.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the frames of all requests and long polls, and of sends that wait for a request.
#[derive(Debug)]
pub struct HandoffBytes {
    held: AtomicUsize,
    max: usize,
}

impl HandoffBytes {
    /// Nothing is held; `max` bytes may be.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            held: AtomicUsize::new(0),
            max,
        }
    }

    /// Counts `bytes`, whether or not they fit.
    pub(crate) fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Ends the count of `bytes`.
    pub(crate) fn free(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Whether more is held than the limit allows.
    pub(crate) fn is_over(&self) -> bool {
        self.held() > self.max
    }

    /// The same for the family of long requests, so that a flood of them leaves room for others.
    pub(crate) fn is_over_half(&self) -> bool {
        self.held() > self.max / 2
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }
}

#[cfg(test)]
impl HandoffBytes {
    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held() == 0
    }
}
