//! The load generator: drives any RocketMQ broker over blocking sockets, a thread a connection.
//!
//! It shares the wire with the client engine but not its threads: what is measured is the
//! broker, so a request costs as little here as possible (frames are patched, not encoded).

mod consume;
mod exchange;
mod pace;
mod produce;
mod report;
mod route;
mod settings;
mod template;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::AtomicBool;

use thiserror::Error;

pub use report::Report;
pub use settings::{Consume, Headers, Load, Produce};

/// Why a run ended without a result.
#[derive(Debug, Error)]
pub enum BenchError {
    /// A setting is out of its range.
    #[error("{name} {value} is not between {min} and {max}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The smallest.
        min: String,
        /// The largest.
        max: String,
    },
    /// No connection, or it broke.
    #[error("{address}: {cause}")]
    Io {
        /// "host:port".
        address: String,
        /// The system's words.
        cause: io::Error,
    },
    /// What a server sent cannot be read.
    #[error("{address} sent what cannot be read: {cause}")]
    Wire {
        /// "host:port".
        address: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A server refused.
    #[error("{address} answered code {code}: {remark}")]
    Refused {
        /// "host:port".
        address: String,
        /// Its response code.
        code: i32,
        /// Its words.
        remark: String,
    },
    /// The topic has no queue to use.
    #[error("topic {topic} has no {purpose} queue at {namesrv}")]
    NoQueue {
        /// The topic.
        topic: String,
        /// "writable" or "readable".
        purpose: &'static str,
        /// The NameServer asked.
        namesrv: String,
    },
    /// A worker thread panicked.
    #[error("a worker ended unexpectedly")]
    Worker,
}

/// Sends messages until time, count or `stop` ends it.
///
/// # Errors
/// `BenchError`; single refused sends are counted in the report instead, unless all are.
pub fn produce(settings: &Produce, stop: &AtomicBool) -> Result<Report, BenchError> {
    settings.check()?;
    produce::run(settings, stop)
}

/// Reads the backlog of all queues of a topic until its end, time, or `stop`.
///
/// # Errors
/// `BenchError`.
pub fn consume(settings: &Consume, stop: &AtomicBool) -> Result<Report, BenchError> {
    settings.check()?;
    consume::run(settings, stop)
}
