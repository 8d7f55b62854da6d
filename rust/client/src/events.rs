//! What the engine tells its user.

use std::time::Duration;

use thiserror::Error;

use mq_format::remoting::Frame;

/// Why a request got no reply. The text names the address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// No connection could be made, or it broke before the reply.
    #[error("{0}")]
    Unreachable(String),
    /// No reply in time; the server may have done what was asked.
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
    /// The frame given cannot be sent.
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

/// Receiver of the engine's news. Called from the engine's threads and from `submit`: return
/// soon, never block, never call back into the pool.
///
/// Every submitted token is told exactly once: `reply`, `failed`, or `written` if one-way.
pub trait Events: Send + Sync + 'static {
    /// The reply to the request submitted with `token`, and the bytes of its whole frame.
    fn reply(&self, token: u64, reply: &Frame<'_>, frame: &[u8]);
    /// There will be no reply.
    fn failed(&self, token: u64, failure: Failure);
    /// A one-way request was given to the system.
    fn written(&self, token: u64);
    /// A server asks us something, or tells us.
    fn request(&self, address: &str, frame: &[u8]);
    /// The connection to a server is gone; its requests were failed before.
    fn closed(&self, address: &str);
    /// Everything that arrived together was told: a good moment to wake somebody.
    fn settled(&self);
}
