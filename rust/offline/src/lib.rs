//! Tools that read a store directory without owning it. They take no lock, run no recovery and
//! create no file, so a broker may run on the store meanwhile. Only `rebuild` and `repair` write.

mod ahead;
mod build;
mod columns;
mod copy;
mod fields;
mod groups;
mod hosts;
mod json;
mod lines;
#[cfg(test)]
mod link_tests;
mod log;
mod mend;
mod pairs;
mod plan;
mod progress;
mod rebuild;
#[cfg(test)]
mod rebuild_tests;
#[cfg(test)]
mod repair_tests;
mod scan;
mod select;
#[cfg(test)]
mod select_tests;
mod shapes;
mod sink;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod verify;
mod view;
mod wish;

pub use self::ahead::{Ahead, Made, Wanted};
pub use self::columns::{
    Buffers, Choice, Collected, ColumnError, ColumnWork, Columns, ColumnsMade, TextBuffers,
    column_layouts,
};
pub use self::groups::GroupOutlook;
pub use self::json::{BodyText, Decompress, json_lines};
pub use self::lines::{LineWork, LinesMade};
pub use self::progress::{Progress, Step as WorkStep};
pub use self::rebuild::{Rebuilt, rebuild};
pub use self::scan::{Chunk, Layout, Scan};
pub use self::select::{Ended, Filter, Selected};
pub use self::sink::Sink;
pub use self::state::State;
pub use self::verify::{FINDINGS_MAX, Finding, Report};
pub use self::view::{QueueChunk, QueueRange, QueueSummary};
pub use self::wish::Wish;
pub use mq_store::inspect::SetSizes;
