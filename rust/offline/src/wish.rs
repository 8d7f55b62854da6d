//! What a caller wants of a rebuild.

use std::path::Path;

use mq_store::inspect::SetSizes;

/// What is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// Mend the log and the state files, too.
    pub repairs: bool,
    /// Where a whole copy shall be; None works in place.
    pub to: Option<&'a Path>,
    /// `messageDelayLevel`; None for RocketMQ's.
    pub delay_levels: Option<&'a str>,
    /// `maxHashSlotNum` and `maxIndexNum` of the new index files; None where the old ones tell.
    pub index: SetSizes,
}
