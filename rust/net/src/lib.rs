//! Framing and sockets, shared by the server and the client.

pub mod connect;
pub mod connection;
pub mod frame;
mod open;
pub mod receiver;
pub mod threads;
pub mod tls;
pub mod tls_config;
pub mod tls_dates;
mod tls_verify;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
