//! The client engine: a connection per address, and requests matched with their replies.

pub mod batch;
pub mod credentials;
pub mod events;
mod line;
mod lines;
pub mod pool;
mod requests;
pub mod settings;
mod shared;
mod silence;
mod waiters;

#[cfg(test)]
mod tests;
