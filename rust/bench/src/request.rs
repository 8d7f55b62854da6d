//! The values in which the requests of a run differ.

use std::time::Duration;

/// The values of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub worker: u32,
    /// Counts the worker's requests.
    pub number: u64,
    /// The slot in the window, which the reply names by its opaque.
    pub slot: usize,
    pub topic: u32,
    pub queue: i32,
    /// When it was due, since the run began.
    pub due: Duration,
    pub born_ms: i64,
}
