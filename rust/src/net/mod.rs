//! Framing and sockets: one wire under the server and the client.

pub mod connect;
pub mod connection;
pub mod frame;

#[cfg(test)]
mod tests;
