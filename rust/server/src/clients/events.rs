//! Ends of connections, reported to Python for its membership tables and its log.

use std::net::SocketAddr;

/// Why the connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The client closed the connection, or its socket failed.
    Closed,
    /// The server closed it: idle in both directions for the idle timeout.
    Idle,
    /// The server closed it: it sent an invalid frame, or did not complete one in time.
    BadFrame,
    /// The server closed it: its client does not read its replies.
    Unread,
    /// The server closed it: no TLS session could be agreed on.
    Tls,
    /// The server closed it on accept: too many connections.
    Refused,
}

impl EventKind {
    /// Returns the name that Python sees.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Idle => "idle",
            Self::BadFrame => "bad_frame",
            Self::Unread => "unread",
            Self::Tls => "tls",
            Self::Refused => "refused",
        }
    }
}

/// One connection's end.
#[derive(Debug, Clone)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The connection's id; 0 if it was refused.
    pub connection: u64,
    /// The client's address.
    pub remote: SocketAddr,
    /// The reason as text, for the log.
    pub detail: String,
}

/// Why a connection ends.
pub(crate) type End = (EventKind, String);
