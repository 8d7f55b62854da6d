//! Takes a request from its frame to its reply, which may have to wait.
//!
//! `arrival` begins with a frame, `routing` gives the request to native code or to Python. `job` is
//! the request in Python's hands; `backpressure`, `cold_reads` and `queue_timeout` continue or end
//! requests that wait.

pub(crate) mod arrival;
pub(crate) mod backpressure;
pub(crate) mod cold_reads;
pub(crate) mod job;
pub(crate) mod queue_timeout;
pub(crate) mod routing;
#[cfg(test)]
mod slow_disk_tests;
