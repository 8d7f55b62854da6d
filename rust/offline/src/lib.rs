//! Reading a store directory without owning it: no lock, no recovery, nothing created, so that
//! a broker may run on it meanwhile.

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
mod select;
#[cfg(test)]
mod select_tests;
mod shapes;
mod sink;
mod state;
#[cfg(test)]
mod tests;
mod verify;
mod view;

use std::path::{Path, PathBuf};

pub use self::ahead::{Ahead, Made, Wanted};
pub use self::columns::{
    Buffers, Choice, Collected, ColumnError, ColumnWork, Columns, ColumnsMade, TextBuffers,
    column_layouts,
};
pub use self::groups::GroupOutlook;
pub use self::json::{BodyText, Decompress, json_lines};
pub use self::lines::{LineWork, LinesMade};
use self::log::LogDirectory;
pub use self::progress::{Progress, Step as WorkStep};
pub use self::rebuild::{Rebuilt, Wish, rebuild};
pub use self::select::{Ended, Filter, Selected};
pub use self::sink::Sink;
pub use self::state::State;
pub use self::view::{QueueChunk, QueueRange, QueueSummary};
use mq_format::consume_queue::ENTRY_BYTES;
use mq_format::message::{CheckCrc, RecordView};
use mq_store::StoreError;
pub use mq_store::inspect::SetSizes;
use mq_store::inspect::index_paths;
use mq_store::inspect::io_error;
use mq_store::inspect::{Geometry, geometry};
use mq_store::inspect::{LogRead, Step, Walk};
use mq_store::inspect::{adopted_file_bytes, queue_directories};

/// Sizes of a store's files, as found on disk; None where it has no such file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    /// Length of a commit-log file, bytes.
    pub commit_log_file_bytes: Option<u64>,
    /// Length of a consume-queue file, bytes.
    pub consume_queue_file_bytes: Option<u64>,
    /// Hash slots of an index file.
    pub index_slots: Option<u32>,
    /// Entries of an index file.
    pub index_entries: Option<u32>,
}

/// Whole records of one stretch of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// The records' bytes, one after the other.
    pub bytes: Vec<u8>,
    /// Where each record starts, bytes from the start of the log.
    pub physical_offsets: Vec<i64>,
    /// Where the next chunk begins; equal to the offset asked for at the end of the log.
    pub next_offset: i64,
}

/// Something wrong, found by [`Scan::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A stable word: `record`, `crc`, `physical_offset`, `store_time`, `delay_time`, `log_end`,
    /// `log_tail`, `queue_entry`, `queue_missing`, `queue_offset`, `index_entry`, `index_header`,
    /// `index_slot`, `index_layout`, `index_missing`, `checkpoint`, `closed`, `state`, `offset`,
    /// `file`.
    pub kind: &'static str,
    /// File or queue it is in.
    pub place: String,
    /// Physical offset (or queue offset for queue findings), -1 when it has none.
    pub offset: i64,
    /// What was found and what was expected.
    pub what: String,
}

/// What [`Scan::verify`] counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Good records.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Queue units looked at.
    pub queue_entries: u64,
    /// Units of the queues' extension looked at.
    pub extension_units: u64,
    /// Index entries looked at.
    pub index_entries: u64,
    /// Committed and delay offsets looked at.
    pub offsets: u64,
    /// Where the last good record ends, bytes.
    pub log_end: u64,
    /// Findings, at most [`FINDINGS_MAX`]: damage.
    pub findings: Vec<Finding>,
    /// All findings, those left out included.
    pub finding_count: u64,
    /// What is no damage: the next open mends it, or it only needs attention. As many at most.
    pub notices: Vec<Finding>,
}

/// Most findings a report keeps.
pub const FINDINGS_MAX: usize = 1_000;

/// A store directory, read as it is.
#[derive(Debug)]
pub struct Scan {
    root: PathBuf,
    log: LogDirectory,
    layout: Layout,
}

impl Scan {
    /// Looks at the store at `root`; [`StoreError::UnknownLayout`] when it is none.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let metadata = root.metadata().map_err(io_error(root))?;
        if !metadata.is_dir() || !root.join("commitlog").is_dir() {
            return Err(StoreError::UnknownLayout {
                root: root.display().to_string(),
                what: "there is no commitlog directory in it; name the directory that holds \
                       commitlog, consumequeue and index. If storePathCommitLog is elsewhere, \
                       make commitlog a link to it: ln -s LOG commitlog"
                    .into(),
            });
        }
        let log = LogDirectory::open(root)?;
        let index = match geometry(&index_paths(root)?, SetSizes::default())? {
            Geometry::Known(layout) => Some(layout),
            _ => None,
        };
        let layout = Layout {
            commit_log_file_bytes: log.file_bytes(),
            consume_queue_file_bytes: adopted_file_bytes(
                &queue_directories(&root.join("consumequeue"))?,
                ENTRY_BYTES as u64,
            )?,
            index_slots: index.map(|layout| layout.slots),
            index_entries: index.map(|layout| layout.entries),
        };
        Ok(Self {
            root: root.to_owned(),
            log,
            layout,
        })
    }

    /// Sizes of the store's files.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Start of the log, bytes.
    pub fn min_physical_offset(&self) -> i64 {
        self.log.min_offset().cast_signed()
    }

    /// End of the last file's length: at or beyond the end of the last record.
    pub fn max_physical_offset(&self) -> i64 {
        self.log.max_offset().cast_signed()
    }

    /// The next whole records from `offset` on, about `max_bytes` (at least one record).
    ///
    /// `check_crc` stops before a record whose body does not match. Damage ends the chunk; an
    /// empty chunk whose `next_offset` is `offset` says that no record starts there.
    pub fn records(
        &self,
        offset: i64,
        max_bytes: usize,
        check_crc: bool,
    ) -> Result<Chunk, StoreError> {
        let check = if check_crc {
            CheckCrc::Yes
        } else {
            CheckCrc::No
        };
        let limit = self.log.max_offset();
        let mut walk = Walk::from(offset.max(0).cast_unsigned());
        let mut chunk = Chunk {
            next_offset: offset,
            ..Chunk::default()
        };
        while chunk.bytes.len() < max_bytes.max(1) {
            let at = walk.offset().cast_signed();
            match walk.step(&self.log, limit).map_err(log_error(at))? {
                Step::Record(bytes) if is_record_at(at, bytes, check) => {
                    chunk.bytes.extend_from_slice(bytes);
                    chunk.physical_offsets.push(at);
                }
                Step::Blank => {}
                Step::Record(_) | Step::Neither | Step::End => break,
            }
            chunk.next_offset = walk.offset().cast_signed();
        }
        Ok(chunk)
    }

    /// The record that starts at a physical offset, None if none does.
    pub fn record_at(&self, physical_offset: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.log.record(physical_offset, None, CheckCrc::No);
        found.map_err(log_error(physical_offset))
    }

    /// Checks log, queues, extension, index, checkpoint and state files against each other.
    /// `progress` gets the physical offset reached and stops the check by returning false.
    pub fn verify(&self, progress: &mut dyn FnMut(i64) -> bool) -> Result<Report, StoreError> {
        verify::verify(self, progress)
    }
}

fn is_record_at(offset: i64, bytes: &[u8], check: CheckCrc) -> bool {
    RecordView::parse(bytes, check).is_ok_and(|record| record.physical_offset == offset)
}

fn log_error(offset: i64) -> impl FnOnce(std::io::Error) -> StoreError {
    let place = format!("commit log at {offset}");
    move |source| io_error(place.as_ref())(source)
}
