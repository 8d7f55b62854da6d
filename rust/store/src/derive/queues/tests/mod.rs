//! Consume queues in memory and on disk.

pub(crate) mod pending;
mod pending_memory;
mod queue;
mod slow_queue;
mod sparse_files;
