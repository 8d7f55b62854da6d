//! Threads that work on an interval, or when there is something to do.

pub(crate) mod periodic;
pub(crate) mod signal;
