//! Reading a store directory without owning it: no lock, no recovery, nothing created, so that
//! a broker may run on it meanwhile.

mod log;
#[cfg(test)]
mod tests;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::log::LogDirectory;
use super::consume_queue::ConsumeQueue;
use super::consume_queues::{ConsumeQueues, adopted_file_bytes, queue_directories};
use super::files::io_error;
use super::index::{IndexFiles, index_paths};
use super::types::{ReadMode, StoreError};
use super::walk::{LogRead, Step, Walk};
use crate::format::consume_queue::ENTRY_BYTES;
use crate::format::index::IndexLayout;
use crate::format::message::{CheckCrc, RecordView};
use crate::log::Access;

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

/// A consume queue on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSummary {
    /// Topic name.
    pub topic: String,
    /// Queue of the topic.
    pub queue_id: i32,
    /// First offset whose record is in the log.
    pub min_offset: i64,
    /// One past the last offset.
    pub max_offset: i64,
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
    /// A stable word: `record`, `crc`, `physical_offset`, `queue_entry`, `queue_missing`,
    /// `index_entry`, `file`.
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
    /// Index entries looked at.
    pub index_entries: u64,
    /// Findings, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// All findings, those left out included.
    pub finding_count: u64,
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
                       commitlog, consumequeue and index"
                    .into(),
            });
        }
        let log = LogDirectory::open(root)?;
        let index = found_index_layout(root)?;
        let layout = Layout {
            commit_log_file_bytes: log.file_bytes(),
            consume_queue_file_bytes: adopted_file_bytes(&queue_directories(
                &root.join("consumequeue"),
            )?)?,
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
        let limit = self.log.max_offset();
        let Ok(offset) = u64::try_from(physical_offset) else {
            return Ok(None);
        };
        let mut walk = Walk::from(offset);
        match walk
            .step(&self.log, limit)
            .map_err(log_error(physical_offset))?
        {
            Step::Record(bytes) if is_record_at(physical_offset, bytes, CheckCrc::No) => {
                Ok(Some(bytes.to_vec()))
            }
            _ => Ok(None),
        }
    }

    /// Every consume queue, by topic and queue id.
    pub fn queues(&self) -> Result<Vec<QueueSummary>, StoreError> {
        let queues = self.load_queues()?.all();
        let mut found: Vec<_> = queues.iter().map(|queue| summary(queue)).collect();
        found.sort_by(|left, right| {
            (&left.topic, left.queue_id).cmp(&(&right.topic, right.queue_id))
        });
        Ok(found)
    }

    /// The raw 20-byte units of a queue from `offset` on, at most `max_count`.
    pub fn queue_entries(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
    ) -> Result<Vec<u8>, StoreError> {
        let mut units = Vec::new();
        let Some(queue) = self.load_queue(topic, queue_id)? else {
            return Ok(units);
        };
        let mut at = offset.max(queue.min_offset());
        let wanted = max_count.saturating_mul(ENTRY_BYTES);
        while at < queue.max_offset() && units.len() < wanted {
            let before = units.len();
            let read = queue.read(at, wanted - before, ReadMode::Wait, &mut units);
            if read != Ok(true) || units.len() == before {
                break;
            }
            at += ((units.len() - before) / ENTRY_BYTES) as i64;
        }
        Ok(units)
    }

    /// Physical offsets of the records whose index key is `topic#key`, newest first; the hash
    /// decides, so others may be among them.
    pub fn lookup(
        &self,
        topic: &str,
        key: &str,
        max_count: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> Result<Vec<i64>, StoreError> {
        let index = self.load_index()?;
        let hits = index.look_up(topic, key, max_count, begin_ms, end_ms);
        Ok(hits.physical_offsets)
    }

    /// Checks every record, queue unit and index entry. `progress` gets the physical offset
    /// reached and stops the check by returning false.
    pub fn verify(&self, progress: &mut dyn FnMut(i64) -> bool) -> Result<Report, StoreError> {
        verify::verify(self, progress)
    }

    fn load_queues(&self) -> Result<ConsumeQueues, StoreError> {
        let queues = ConsumeQueues::load(&self.root, None, Access::Read, false)?;
        for queue in queues.all() {
            queue.set_min_from(self.min_physical_offset());
        }
        Ok(queues)
    }

    fn load_queue(
        &self,
        topic: &str,
        queue_id: i32,
    ) -> Result<Option<Arc<ConsumeQueue>>, StoreError> {
        let file_bytes = self.layout.consume_queue_file_bytes;
        let queue = ConsumeQueues::load_one(&self.root, file_bytes, topic, queue_id)?;
        if let Some(queue) = &queue {
            queue.set_min_from(self.min_physical_offset());
        }
        Ok(queue)
    }

    fn index_layout(&self) -> Option<IndexLayout> {
        let (slots, entries) = (self.layout.index_slots?, self.layout.index_entries?);
        Some(IndexLayout { slots, entries })
    }

    fn load_index(&self) -> Result<IndexFiles, StoreError> {
        let Layout {
            index_slots,
            index_entries,
            ..
        } = self.layout;
        IndexFiles::load(&self.root, index_slots, index_entries, Access::Read)
    }
}

fn summary(queue: &ConsumeQueue) -> QueueSummary {
    QueueSummary {
        topic: queue.topic().to_owned(),
        queue_id: queue.queue_id(),
        min_offset: queue.min_offset(),
        max_offset: queue.max_offset(),
    }
}

fn is_record_at(offset: i64, bytes: &[u8], check: CheckCrc) -> bool {
    RecordView::parse(bytes, check).is_ok_and(|record| record.physical_offset == offset)
}

fn found_index_layout(root: &Path) -> Result<Option<IndexLayout>, StoreError> {
    let paths = index_paths(root)?;
    let Some((_, path)) = paths.first() else {
        return Ok(None);
    };
    let bytes = path.metadata().map_err(io_error(path))?.len();
    Ok(IndexLayout::of_file(bytes, None, None))
}

fn log_error(offset: i64) -> impl FnOnce(std::io::Error) -> StoreError {
    let place = format!("commit log at {offset}");
    move |source| io_error(place.as_ref())(source)
}
