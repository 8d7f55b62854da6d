//! Bounded queues between threads.

pub(crate) mod bounded_queue;
mod lanes;
