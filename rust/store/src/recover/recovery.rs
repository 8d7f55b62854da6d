//! The input of recovery.

use std::path::Path;
use std::sync::Arc;

use crate::settings::Settings;
use crate::state::checkpoint::Checkpoint;
use mq_base::clock::Clock;
use mq_log::Segments;

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
