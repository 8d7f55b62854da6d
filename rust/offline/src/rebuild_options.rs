//! Options of a rebuild or repair.

use std::path::Path;

use mq_store::inspect::SetSizes;

/// Options of a rebuild or repair.
#[derive(Debug, Clone, Copy, Default)]
pub struct RebuildOptions<'a> {
    /// Repair the log and the state files, too.
    pub repairs: bool,
    /// Directory for a complete copy; None works in place.
    pub to: Option<&'a Path>,
    /// `messageDelayLevel`; None for RocketMQ's default.
    pub delay_levels: Option<&'a str>,
    /// `maxHashSlotNum` and `maxIndexNum` of new index files; None takes them from the old files.
    pub index: SetSizes,
}
