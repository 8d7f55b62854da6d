//! Reading a store directory without owning it: no lock, no recovery, nothing created, so that
//! a broker may run on it meanwhile.

use std::path::{Path, PathBuf};

use super::types::StoreError;

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
}

impl Scan {
    /// Looks at the store at `root`; [`StoreError::UnknownLayout`] when it is none.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// Sizes of the store's files.
    pub fn layout(&self) -> Layout {
        todo!()
    }

    /// Start of the log, bytes.
    pub fn min_physical_offset(&self) -> i64 {
        todo!()
    }

    /// End of the last file's length: at or beyond the end of the last record.
    pub fn max_physical_offset(&self) -> i64 {
        todo!()
    }

    /// The next whole records from `offset` on, about `max_bytes` (at least one record).
    ///
    /// `check_crc` stops before a record whose body does not match. Damage ends the chunk; an
    /// empty chunk whose `next_offset` is `offset` says that no record starts there.
    pub fn records(
        &self,
        _offset: i64,
        _max_bytes: usize,
        _check_crc: bool,
    ) -> Result<Chunk, StoreError> {
        todo!()
    }

    /// The record that starts at a physical offset, None if none does.
    pub fn record_at(&self, _physical_offset: i64) -> Result<Option<Vec<u8>>, StoreError> {
        todo!()
    }

    /// Every consume queue, by topic and queue id.
    pub fn queues(&self) -> Result<Vec<QueueSummary>, StoreError> {
        todo!()
    }

    /// The raw 20-byte units of a queue from `offset` on, at most `max_count`.
    pub fn queue_entries(
        &self,
        _topic: &str,
        _queue_id: i32,
        _offset: i64,
        _max_count: usize,
    ) -> Result<Vec<u8>, StoreError> {
        todo!()
    }

    /// Physical offsets of the records whose index key is `topic#key`, newest first; the hash
    /// decides, so others may be among them.
    pub fn lookup(
        &self,
        _topic: &str,
        _key: &str,
        _max_count: usize,
        _begin_ms: i64,
        _end_ms: i64,
    ) -> Result<Vec<i64>, StoreError> {
        todo!()
    }

    /// Checks every record, queue unit and index entry. `progress` gets the physical offset
    /// reached and stops the check by returning false.
    pub fn verify(&self, _progress: &mut dyn FnMut(i64) -> bool) -> Result<Report, StoreError> {
        let _ = &self.root;
        todo!()
    }
}
