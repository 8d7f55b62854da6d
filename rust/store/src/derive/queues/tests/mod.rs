//! Consume queues in memory and on disk.

mod queue;
pub(crate) mod queue_buffer;
mod queue_buffer_memory;
mod queue_files;
mod slow_queue;
