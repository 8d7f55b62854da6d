//! Events of the engine.

use std::time::Duration;

use thiserror::Error;

use mq_format::remoting::Frame;

/// Why a request failed. The text names the address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// Connecting failed, or the connection broke before the reply.
    #[error("{0}")]
    Unreachable(String),
    /// No reply in time; the server may have processed the request.
    #[error("no reply from {address} within {after:?}")]
    Timeout {
        /// "host:port".
        address: String,
        /// The time that was allowed.
        after: Duration,
    },
    /// Too many requests are in flight, or the server reads too slowly.
    #[error("{0}")]
    Busy(String),
    /// The frame is not valid.
    #[error("not a frame: {0}")]
    BadFrame(String),
    /// The engine is closed.
    #[error("the client is closed")]
    Closed,
}

impl Failure {
    /// One word for the kind, stable for programs.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::Busy(_) => "busy",
            Self::BadFrame(_) => "bad_frame",
            Self::Closed => "closed",
        }
    }
}

/// Receives the engine's events. The engine's threads and `submit` call it: return soon, never
/// block, never call the pool.
///
/// Every submitted token gets exactly one of `reply`, `failed`, or `written` (one-way only).
pub trait Events: Send + Sync + 'static {
    /// The reply to the request submitted with `token`, and the bytes of its whole frame.
    fn reply(&self, token: u64, reply: &Frame<'_>, frame: &[u8]);
    /// The request failed; no reply will come.
    fn failed(&self, token: u64, failure: Failure);
    /// The system has the bytes of a one-way request.
    fn written(&self, token: u64);
    /// A server sent a request of its own, such as a notice to consumers.
    fn request(&self, address: &str, frame: &[u8]);
    /// The connection to a server ended; its requests have failed before this call.
    fn closed(&self, address: &str);
    /// All events that came together have been reported: the time to wake a waiting thread once.
    fn settled(&self);
}
