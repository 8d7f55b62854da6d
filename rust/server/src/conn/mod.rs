//! Connections: the listener, TLS, frames, and limits on the time and memory of each connection.

pub(crate) mod budget;
pub(crate) mod client_replies;
pub(crate) mod connection;
pub(crate) mod deadlines;
pub(crate) mod events;
pub(crate) mod frames;
pub(crate) mod handshakes;
pub(crate) mod listener;
pub(crate) mod memory;
pub(crate) mod partial_frames;
pub(crate) mod peers;
pub(crate) mod tls;
