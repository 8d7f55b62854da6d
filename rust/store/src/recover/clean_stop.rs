//! The record that a clean stop leaves for the next open: the end of the log, and facts about the
//! derived files.
//!
//! It counts only together with the checkpoint that was written with it; if RocketMQ ran since, it
//! wrote another one. Missing or wrong bytes before the recorded end are damage, not a torn tail.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::derive::index::files::IndexFiles;
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::files::io_error;
use crate::scan::log_scanner::LogRead;
use crate::types::StoreError;
use mq_format::message::BLANK_BYTES;
use mq_log::fs;
use mq_statefile::own_json;

/// Bytes before the end of the log whose checksum is recorded.
const TAIL_BYTES: u64 = 64 << 10;

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEnd {
    /// End of the log, bytes.
    pub log_end: u64,
    /// Store time of the last record, milliseconds since the epoch.
    pub last_store_timestamp_ms: i64,
    /// Checksum of the last bytes, because headers and properties of records have none.
    pub tail_crc: u32,
}

impl LogEnd {
    /// The facts of a log that ends at `log_end`.
    pub fn of(log: &impl LogRead, log_end: u64, last_store_timestamp_ms: i64) -> io::Result<Self> {
        // A read ends at the end of its file.
        let last_file = log.next_file_start(log_end.saturating_sub(1));
        let file_bytes = log.next_file_start(0);
        let from = log_end
            .saturating_sub(TAIL_BYTES)
            .max(last_file.saturating_sub(file_bytes));
        let mut bytes = vec![0; usize::try_from(log_end.saturating_sub(from)).unwrap_or(0)];
        let read = log.read_at(from, &mut bytes)?;
        Ok(Self {
            log_end,
            last_store_timestamp_ms,
            tail_crc: crc32fast::hash(&bytes[..read]),
        })
    }
}

/// Facts about a closed store, in `{root}/mqstack/closed.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanStop {
    /// The end of the log.
    pub end: LogEnd,
    /// Checksum of the checkpoint's times.
    pub checkpoint_crc: u32,
    /// Number of consume queues.
    pub queues: usize,
    /// The sum of their maximum offsets.
    pub queue_offsets: i64,
    /// The sum of the first offsets in their files.
    pub queue_starts: i64,
    /// Name and number of entries of the newest index file; None without an index.
    pub index: Option<(String, i32)>,
}

impl CleanStop {
    /// The facts of a store that is about to be closed.
    pub fn of(
        end: LogEnd,
        checkpoint_crc: u32,
        queues: &ConsumeQueues,
        index: Option<&IndexFiles>,
    ) -> Self {
        let all = queues.all();
        Self {
            end,
            checkpoint_crc,
            queues: all.len(),
            queue_offsets: all.iter().map(|queue| queue.max_offset()).sum(),
            queue_starts: all.iter().map(|queue| queue.written().0).sum(),
            index: index.and_then(IndexFiles::newest),
        }
    }

    /// Writes and syncs the record.
    pub fn save(&self, root: &Path) -> Result<(), StoreError> {
        Ok(own_json::write(&path_of(root), self)?)
    }

    /// Removes the record, because it does not describe an open store.
    pub fn remove(root: &Path) -> Result<(), StoreError> {
        let path = path_of(root);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Reads the record; None if it is missing or damaged.
    pub fn read(root: &Path) -> Result<Option<Self>, StoreError> {
        Ok(own_json::read(&path_of(root))?)
    }

    /// Whether queues, index and the end of the log match the record.
    pub(super) fn fits(
        &self,
        log: &impl LogRead,
        queues: &ConsumeQueues,
        index: Option<&IndexFiles>,
    ) -> io::Result<bool> {
        let log_end = self.end.log_end;
        let now = Self::of(self.end.clone(), self.checkpoint_crc, queues, index);
        if now != *self || log_end < log.min_offset() || log_end > log.max_offset() {
            return Ok(false);
        }
        let beyond = |queue: &ConsumeQueue| queue.end_physical() > log_end.cast_signed();
        if queues.all().iter().any(|queue| beyond(queue)) {
            return Ok(false);
        }
        Ok(self.has_sound_tail(log)? && !self.is_exceeded(log)?)
    }

    /// Whether the last bytes of the log are unchanged.
    pub fn has_sound_tail(&self, log: &impl LogRead) -> io::Result<bool> {
        let end = &self.end;
        Ok(LogEnd::of(log, end.log_end, end.last_store_timestamp_ms)? == *end)
    }

    /// Whether another program has appended since: there are bytes after the recorded end.
    pub(super) fn is_exceeded(&self, log: &impl LogRead) -> io::Result<bool> {
        let mut next = [0; BLANK_BYTES];
        let read = log.read_at(self.end.log_end, &mut next)?;
        Ok(next[..read].iter().any(|byte| *byte != 0))
    }

    /// Whether queues, or entries of queues, are missing.
    pub(super) fn lacks_entries(&self, queues: &ConsumeQueues) -> bool {
        let all = queues.all();
        let offsets: i64 = all.iter().map(|queue| queue.max_offset()).sum();
        let starts: i64 = all.iter().map(|queue| queue.written().0).sum();
        all.len() < self.queues || offsets < self.queue_offsets || starts > self.queue_starts
    }
}

fn path_of(root: &Path) -> PathBuf {
    root.join("mqstack").join("closed.json")
}
