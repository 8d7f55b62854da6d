//! The checkpoint file: store times up to which the log, the queues and the index are flushed.
//!
//! ```text
//! 0                8                16               24        4096
//! ┌────────────────┬────────────────┬────────────────┬──────────┐
//! │ log time i64   │ queue time i64 │ index time i64 │ zeros    │  milliseconds, big-endian
//! └────────────────┴────────────────┴────────────────┴──────────┘
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::files::io_error;
use crate::types::StoreError;
use mq_format::bytes::Cursor;
use mq_log::fs::{File, OpenOptions, open_own};

/// Length of the file.
pub const CHECKPOINT_BYTES: u64 = 4096;
/// RocketMQ starts recovery this long before the checkpoint, because clocks may step back a little.
pub const MARGIN_MS: i64 = 3_000;

/// The three times in memory; [`Checkpoint::flush`] writes them to disk.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    file: File,
    log_timestamp_ms: AtomicI64,
    queue_timestamp_ms: AtomicI64,
    index_timestamp_ms: AtomicI64,
}

impl Checkpoint {
    /// Opens `{root}/checkpoint`; creates it with zeros if it is missing.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let path = root.join("checkpoint");
        let (file, times) = Self::open_file(&path).map_err(io_error(&path))?;
        Ok(Self {
            path,
            file,
            log_timestamp_ms: AtomicI64::new(times[0]),
            queue_timestamp_ms: AtomicI64::new(times[1]),
            index_timestamp_ms: AtomicI64::new(times[2]),
        })
    }

    fn open_file(path: &Path) -> io::Result<(File, [i64; 3])> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = open_own(path, &mut options)?;
        if file.metadata()?.len() < CHECKPOINT_BYTES {
            file.set_len(CHECKPOINT_BYTES)?;
        }
        let mut bytes = [0; 24];
        file.read_exact_at(&mut bytes, 0)?;
        let mut cursor = Cursor::new(&bytes);
        let mut times = [0; 3];
        for time in &mut times {
            *time = cursor.i64().map_err(io::Error::other)?;
        }
        Ok((file, times))
    }

    /// Store time up to which the log is flushed.
    pub(crate) fn log_timestamp_ms(&self) -> i64 {
        self.log_timestamp_ms.load(Ordering::Relaxed)
    }

    /// Notes that the log is flushed up to this store time.
    pub fn set_log_timestamp(&self, timestamp_ms: i64) {
        self.log_timestamp_ms.store(timestamp_ms, Ordering::Relaxed);
    }

    /// Notes that the consume queues are flushed up to this store time.
    pub fn set_queue_timestamp(&self, timestamp_ms: i64) {
        self.queue_timestamp_ms
            .store(timestamp_ms, Ordering::Relaxed);
    }

    /// Notes that the index files are flushed up to this store time.
    pub fn set_index_timestamp(&self, timestamp_ms: i64) {
        self.index_timestamp_ms
            .store(timestamp_ms, Ordering::Relaxed);
    }

    /// Store time up to which index files are flushed, milliseconds since the epoch.
    pub fn index_timestamp_ms(&self) -> i64 {
        self.index_timestamp_ms.load(Ordering::Relaxed)
    }

    /// Store time up to which both log and queues are flushed, less RocketMQ's margin.
    pub fn safe_timestamp_ms(&self) -> i64 {
        let log = self.log_timestamp_ms.load(Ordering::Relaxed);
        let queues = self.queue_timestamp_ms.load(Ordering::Relaxed);
        (log.min(queues) - MARGIN_MS).max(0)
    }

    /// Checksum of the times on disk; shows whether another program has written them since.
    pub fn crc(&self) -> Result<u32, StoreError> {
        let mut bytes = [0; 24];
        let read = self.file.read_exact_at(&mut bytes, 0);
        read.map_err(io_error(&self.path))?;
        Ok(crc32fast::hash(&bytes))
    }

    /// Lowers the times to `newest_ms`, the store time of the log's last record, and syncs them.
    /// Needed after the log lost records.
    pub(crate) fn lower_to(&self, newest_ms: i64) -> Result<(), StoreError> {
        let times = [&self.log_timestamp_ms, &self.queue_timestamp_ms];
        let lower = |time: &&AtomicI64| time.fetch_min(newest_ms, Ordering::Relaxed) > newest_ms;
        match times.into_iter().filter(lower).count() {
            0 => Ok(()),
            _ => self.flush(),
        }
    }

    /// Writes the times to disk and syncs them.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut bytes = [0; 24];
        for (at, time) in [
            &self.log_timestamp_ms,
            &self.queue_timestamp_ms,
            &self.index_timestamp_ms,
        ]
        .into_iter()
        .enumerate()
        {
            let time = time.load(Ordering::Relaxed).to_be_bytes();
            bytes[at * 8..at * 8 + 8].copy_from_slice(&time);
        }
        self.file
            .write_all_at(&bytes, 0)
            .and_then(|()| self.file.sync_data())
            .map_err(io_error(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_a_reopen_in_a_file_of_4096_bytes() {
        let root = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::open(root.path()).unwrap();
        assert_eq!(checkpoint.safe_timestamp_ms(), 0);
        checkpoint.set_log_timestamp(10_000);
        checkpoint.set_queue_timestamp(9_000);
        checkpoint.set_index_timestamp(8_000);
        checkpoint.flush().unwrap();
        drop(checkpoint);
        let checkpoint = Checkpoint::open(root.path()).unwrap();
        assert_eq!(checkpoint.safe_timestamp_ms(), 6_000);
        assert_eq!(checkpoint.index_timestamp_ms(), 8_000);
        let bytes = std::fs::read(root.path().join("checkpoint")).unwrap();
        assert_eq!(bytes.len() as u64, CHECKPOINT_BYTES);
        assert_eq!(bytes[..8], 10_000i64.to_be_bytes());
    }
}
