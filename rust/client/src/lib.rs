//! The client engine: a connection per address, and requests matched with their replies.

pub mod batch;
pub mod credentials;
pub mod events;
mod line;
pub mod pool;
mod waiters;

#[cfg(test)]
mod tests;
