//! The store's directory: its lock, its layout, and the files of the log.

pub(crate) mod deleted;
pub(crate) mod layout;
pub(crate) mod lock;
pub(crate) mod log_facts;
pub(crate) mod log_files;
pub(crate) mod log_place;
pub(crate) mod queue_ends;
pub(crate) mod recognise;
