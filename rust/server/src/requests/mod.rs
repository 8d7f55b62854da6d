//! Requests that native code answers, one file each: it decodes the frame, calls the operation and
//! encodes the reply.

pub(crate) mod acknowledgement;
pub(crate) mod context;
pub(crate) mod heartbeat;
pub(crate) mod lock;
pub(crate) mod offsets;
pub(crate) mod published;
pub(crate) mod pull;
pub(crate) mod send;
mod send_reply;
pub(crate) mod transaction;
