//! The client engine: a connection per address, and requests matched with their replies.

mod backoff;
pub mod batch;
pub mod credentials;
pub mod events;
mod inbox;
mod line;
mod lines;
pub mod pool;
pub mod range;
mod requests;
pub mod settings;
mod shared;
mod silence;
mod waiters;
pub mod write;

#[cfg(test)]
mod tests;
