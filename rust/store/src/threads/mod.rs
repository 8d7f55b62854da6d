//! Threads that run on an interval or on a signal.

pub(crate) mod bell;
pub(crate) mod periodic;
pub(crate) mod signal;
