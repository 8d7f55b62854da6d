//! Tools that read a store directory without owning it. They take no lock, run no recovery and
//! create no file, so a broker may run on the store meanwhile. Only `rebuild` and `repair` write.

mod build;
mod column_work;
mod copy;
mod groups;
mod line_work;
#[cfg(test)]
mod link_tests;
mod log;
mod log_repair;
mod pipeline;
mod plan;
mod progress;
mod rebuild;
mod rebuild_options;
#[cfg(test)]
mod rebuild_tests;
#[cfg(test)]
mod repair_tests;
mod scan;
mod select;
#[cfg(test)]
mod select_tests;
mod state;
#[cfg(test)]
mod tests;
mod verify;
mod view;

pub use self::column_work::{ColumnChunk, ColumnWork};
pub use self::groups::GroupOutlook;
pub use self::line_work::{LineChunk, LineWork};
pub use self::pipeline::{ChunkRequest, ChunkResult, Pipeline};
pub use self::progress::{Progress, Step as WorkStep};
pub use self::rebuild::{Rebuilt, rebuild};
pub use self::rebuild_options::RebuildOptions;
pub use self::scan::{Chunk, Layout, Scan};
pub use self::select::{Ended, Filter, Selected};
pub use self::state::State;
pub use self::verify::{FINDINGS_MAX, Finding, Report};
pub use self::view::{QueueChunk, QueueRange, QueueSummary};
pub use mq_store::inspect::SetSizes;
