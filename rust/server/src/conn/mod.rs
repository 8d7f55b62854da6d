//! Connections: the listener, TLS, frames, and limits on the time and memory of each connection.

pub(crate) mod admission;
mod budget;
pub(crate) mod connection;
mod deadlines;
mod handshakes;
pub(crate) mod listener;
pub(crate) mod memory;
pub(crate) mod tls;
