//! How much Python has to do: requests, and their bytes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The requests of one server.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Requests that exist and are not held: what a stop has to wait for.
    open: AtomicUsize,
    /// Bytes of the frames of all requests, held ones too, and of sends that wait for one.
    pub(crate) bytes: AtomicUsize,
}

impl Load {
    /// A request is on its way to Python.
    pub(crate) fn count(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    /// It is answered, or held.
    pub(crate) fn uncount(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Requests that Python has or will get, held ones not counted.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Bytes of requests in Python's hands, and of sends that wait for one of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }
}
