//! The load generator: drives any RocketMQ broker over blocking sockets, one thread per connection.
//!
//! It shares the wire formats with the client engine, but not its threads. A run measures the
//! broker, so a request costs as little as possible here: frames are patched, not encoded. Each
//! kind of load has a file: `produce`, `consume`, `latency`, `connect`. All but the last share
//! `pace` (when to send, when to count), `exchange` (the socket) and `report`.

mod brokers;
mod connect;
mod consume;
mod error;
mod exchange;
mod latency;
mod offsets;
mod pace;
mod patch_points;
mod produce;
mod reader;
mod records;
mod report;
mod request;
mod route;
mod sender;
mod settings;
mod stamp;
mod template;
mod tls;
mod topics;

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

pub use error::BenchError;
pub use report::Report;
pub use settings::{Connect, Consume, Headers, Latency, Load, Produce, Role};
pub use tls::Tls;

/// Sends messages until time, count or `stop` ends it.
///
/// # Errors
/// `BenchError`; single refused sends and lost connections are counted in the report instead,
/// unless nothing was stored.
pub fn produce(settings: &Produce, stop: &AtomicBool) -> Result<Report, BenchError> {
    settings.check()?;
    produce::run(settings, stop)
}

/// Reads the backlog of all queues of the topics until its end, the time limit, or `stop`. A tail
/// reads new messages instead.
///
/// # Errors
/// `BenchError`; lost connections and refused pulls are counted in the report instead, unless
/// nothing was read.
pub fn consume(settings: &Consume, stop: &AtomicBool) -> Result<Report, BenchError> {
    settings.check()?;
    consume::run(settings, stop)
}

/// Sends messages and reads them at the same time. Measures the time from when each message is due
/// until its reader gets it, and counts lost messages.
///
/// # Errors
/// As `produce`.
pub fn latency(settings: &Latency, stop: &AtomicBool) -> Result<Report, BenchError> {
    settings.check()?;
    latency::run(settings, stop)
}

/// Opens connections, sends their heartbeats, and holds them.
///
/// # Errors
/// `BenchError`; single failed connections are counted in the report instead, unless all are.
pub fn connect(settings: &Connect, stop: &AtomicBool) -> Result<Report, BenchError> {
    settings.check()?;
    connect::run(settings, stop)
}
