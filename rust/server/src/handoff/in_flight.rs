//! Requests in Python's hands: their number and bytes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The requests of one server.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Number of requests without long polls. A stop waits for these.
    open: AtomicUsize,
    /// Bytes of the frames of all requests and long polls, and of sends that wait for a request.
    pub(crate) bytes: AtomicUsize,
}

impl InFlight {
    /// Counts a request on its way to Python.
    pub(crate) fn count(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the count: the request was answered or became a long poll.
    pub(crate) fn uncount(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Number of requests that Python has or will get, without long polls.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Bytes of requests in Python's hands, and of sends that wait for one of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }
}
