//! What happens to connections, told to Python: membership tables and logs follow it.

use std::net::SocketAddr;

/// Why the event was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The connection is gone: the client closed it, or its socket failed.
    Closed,
    /// We closed it: no byte went either way for the idle timeout.
    Idle,
    /// We closed it: it sent a frame that cannot be read, or did not finish one in time.
    BadFrame,
    /// We closed it: its client does not read its replies.
    Unread,
    /// We closed it: TLS was not agreed on.
    Tls,
    /// It was closed as it was accepted: too many connections.
    Refused,
}

impl EventKind {
    /// The name Python sees.
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
    /// The connection's id; 0 when it never got one.
    pub connection: u64,
    /// The client's address.
    pub remote: SocketAddr,
    /// Why, in words, for the log.
    pub detail: String,
}

/// Why a connection ends.
pub(crate) type End = (EventKind, String);
