//! A store directory, read without changing it: sizes of its files, and the records of its log.

use std::path::{Path, PathBuf};

use super::log::LogDirectory;
use mq_format::consume_queue::ENTRY_BYTES;
use mq_format::message::{CheckCrc, RecordView};
use mq_store::StoreError;
use mq_store::inspect::scan::{LogRead, LogScanner, Step};
use mq_store::inspect::{Geometry, SetSizes};
use mq_store::inspect::{adopted_file_bytes, geometry, index_paths, io_error, queue_directories};

/// Sizes of a store's files on disk; None if it has no such file.
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

/// Consecutive whole records of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// The records' bytes, one after the other.
    pub bytes: Vec<u8>,
    /// Physical offset of each record.
    pub physical_offsets: Vec<i64>,
    /// Start of the next chunk; at the end of the log, the `offset` of the call.
    pub next_offset: i64,
}

/// A store directory, opened for reading only.
#[derive(Debug)]
pub struct Scan {
    pub(super) root: PathBuf,
    pub(super) log: LogDirectory,
    pub(super) layout: Layout,
}

impl Scan {
    /// Opens the store at `root`; [`StoreError::UnknownLayout`] if it holds no store.
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

    /// End of the last log file, at or after the end of the last record.
    pub fn max_physical_offset(&self) -> i64 {
        self.log.max_offset().cast_signed()
    }

    /// The next whole records from `offset` on, about `max_bytes` (at least one record).
    ///
    /// `check_crc` ends the chunk before a record whose body does not match its checksum. Damage
    /// ends the chunk, too. If the chunk is empty and `next_offset` equals `offset`, no record
    /// starts there.
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
        let mut scanner = LogScanner::from(offset.max(0).cast_unsigned());
        let mut chunk = Chunk {
            next_offset: offset,
            ..Chunk::default()
        };
        while chunk.bytes.len() < max_bytes.max(1) {
            let at = scanner.offset().cast_signed();
            match scanner.step(&self.log, limit).map_err(log_error(at))? {
                Step::Record(bytes) if is_record_at(at, bytes, check) => {
                    chunk.bytes.extend_from_slice(bytes);
                    chunk.physical_offsets.push(at);
                }
                Step::Blank => {}
                Step::Record(_) | Step::Invalid | Step::End => break,
            }
            chunk.next_offset = scanner.offset().cast_signed();
        }
        Ok(chunk)
    }

    /// The record that starts at a physical offset; None if there is none.
    pub fn record_at(&self, physical_offset: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.log.record(physical_offset, None, CheckCrc::No);
        found.map_err(log_error(physical_offset))
    }
}

fn is_record_at(offset: i64, bytes: &[u8], check: CheckCrc) -> bool {
    RecordView::parse(bytes, check).is_ok_and(|record| record.physical_offset == offset)
}

pub(super) fn log_error(offset: i64) -> impl FnOnce(std::io::Error) -> StoreError {
    let place = format!("commit log at {offset}");
    move |source| io_error(place.as_ref())(source)
}
