//! Consume queues.

pub(crate) mod deleted;
pub(crate) mod ends_saver;
pub(crate) mod entries_backwards;
pub(crate) mod ext;
pub(crate) mod flush;
pub(crate) mod kept;
pub(crate) mod look;
pub(crate) mod open_files;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod queue_buffer;
pub(crate) mod queue_cache;
pub(crate) mod queue_files;
pub(crate) mod table;
#[cfg(test)]
mod tests;
