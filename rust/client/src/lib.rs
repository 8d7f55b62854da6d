//! The client engine: a connection per address, and requests matched with their replies.

pub mod batch;
mod connection;
mod connections;
pub mod credentials;
pub mod events;
pub mod pool;
mod requests;
pub mod settings;
mod shared;
mod silence;
mod waiters;

#[cfg(test)]
mod tests;
