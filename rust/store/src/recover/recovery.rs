//! The input of recovery.

use std::path::Path;
use std::sync::Arc;

use crate::files::io_error;
use crate::settings::Settings;
use crate::state::checkpoint::Checkpoint;
use crate::types::StoreError;
use mq_base::clock::Clock;
use mq_log::Segments;

/// Name of the log in errors whose path is not known.
pub(super) const LOG: &str = "commit log";

/// The input of recovery.
pub(crate) struct Recovery<'a> {
    /// Root directory of the store.
    pub root: &'a Path,
    /// The log, just opened.
    pub log: &'a Segments,
    /// The checkpoint, just opened.
    pub checkpoint: &'a Checkpoint,
    /// The settings with which the store is opened.
    pub settings: &'a Settings,
    /// Gives the names of new index files.
    pub clock: &'a Arc<dyn Clock>,
    /// Whether `abort` was missing.
    pub was_clean: bool,
}

/// An error of the log; [`Recovery::run`] adds the path.
pub(super) fn log_io(source: std::io::Error) -> StoreError {
    io_error(LOG.as_ref())(source)
}
