//! Consume queues.

pub(crate) mod back;
pub(crate) mod deleted;
pub(crate) mod ext;
pub(crate) mod flush;
pub(crate) mod kept;
pub(crate) mod look;
pub(crate) mod open_files;
pub(crate) mod pending;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod recent;
pub(crate) mod sparse_files;
pub(crate) mod table;
#[cfg(test)]
mod tests;
