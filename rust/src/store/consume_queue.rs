//! One consume queue: 20-byte units in files of one nominal length, sparse, written by pwrite
//! and read by pread. A queue holds neither a map nor a descriptor.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use super::files::{
    create_directory, create_sparse, io_error, offset_name, read_nowait, sync_directory,
};
use super::open_files::OpenFiles;
use super::types::{ReadMode, StoreError, WouldBlock};
use crate::format::consume_queue::{ENTRY_BYTES, QueueEntry};
use crate::log::Access;
use crate::log::fs::{self, File, OpenOptions};

/// Most queue offsets that one damaged range is believed to have swallowed; a larger jump is a
/// damaged record header.
const GAP_ENTRIES_MAX: i64 = 4 << 20;
/// Units kept for the next write of a batch are written early beyond this.
const PENDING_BYTES_MAX: usize = 1 << 20;
/// Bytes read at once when units are walked.
pub(super) const WALK_BYTES: usize = 64 << 10;

/// What became of a unit offered to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// It is the new end of the queue.
    New,
    /// The queue has it already.
    Duplicate,
    /// Its queue offset is so far off that the record must be damaged.
    Refused,
}

/// What all queues of a store share.
#[derive(Debug)]
pub(crate) struct QueueFiles {
    pub root: PathBuf,
    /// Nominal length of a file, a multiple of 20 bytes.
    pub file_bytes: u64,
    pub access: Access,
    pub open: OpenFiles,
}

/// A queue of a topic. One thread appends; any thread reads below `max_offset`.
#[derive(Debug)]
pub(crate) struct ConsumeQueue {
    pub(super) number: u64,
    pub(super) topic: String,
    pub(super) queue_id: i32,
    pub(super) directory: PathBuf,
    pub(super) files: Arc<QueueFiles>,
    pub(super) min_offset: AtomicI64,
    /// One past the last written unit: readers stay below.
    pub(super) max_offset: AtomicI64,
    pub(super) tail: Mutex<Tail>,
}

/// The growing end, owned by whoever appends.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// One past the last unit, pending ones included.
    pub next_offset: i64,
    /// First unit of the first file.
    pub first_offset: i64,
    pub has_files: bool,
    /// End of the last record queued, bytes from the start of the log.
    pub end_physical: i64,
    /// The last units, encoded, not written yet.
    pub pending: Vec<u8>,
    /// Starts of the files written since the last flush.
    pub dirty: BTreeSet<u64>,
    /// A file was created since the last flush.
    pub directory_dirty: bool,
}

impl ConsumeQueue {
    /// A queue without files.
    pub(super) fn empty(
        number: u64,
        topic: &str,
        queue_id: i32,
        directory: PathBuf,
        files: Arc<QueueFiles>,
    ) -> Self {
        Self {
            number,
            topic: topic.to_owned(),
            queue_id,
            directory,
            files,
            min_offset: AtomicI64::new(0),
            max_offset: AtomicI64::new(0),
            tail: Mutex::default(),
        }
    }

    /// The queue's number in this process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    pub(crate) fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// First unit that points into the log.
    pub(crate) fn min_offset(&self) -> i64 {
        self.min_offset.load(Ordering::Acquire)
    }

    /// One past the last readable unit.
    pub(crate) fn max_offset(&self) -> i64 {
        self.max_offset.load(Ordering::Acquire)
    }

    /// End of the last record queued, bytes from the start of the log.
    pub(crate) fn end_physical(&self) -> i64 {
        self.tail.lock().end_physical
    }

    /// First queue offset of the file after the one that holds `offset`.
    pub(crate) fn next_file_offset(&self, offset: i64) -> i64 {
        let units = self.units_per_file();
        (offset / units + 1) * units
    }

    pub(super) fn units_per_file(&self) -> i64 {
        (self.files.file_bytes / ENTRY_BYTES as u64).cast_signed()
    }

    /// Adds the unit of a record whose own queue offset is `queue_offset`; readers see it after
    /// [`Self::write_pending`]. Queue offsets that no record has become fillers.
    pub(crate) fn append(
        &self,
        queue_offset: i64,
        entry: QueueEntry,
    ) -> Result<Appended, StoreError> {
        let mut tail = self.tail.lock();
        if queue_offset < 0 {
            return Ok(Appended::Refused);
        }
        if !tail.has_files {
            // RocketMQ starts the first file of a queue at a multiple of the file's length.
            tail.first_offset = queue_offset - queue_offset % self.units_per_file();
            tail.next_offset = tail.first_offset;
            self.min_offset.store(tail.first_offset, Ordering::Release);
            self.max_offset.store(tail.first_offset, Ordering::Release);
            tail.has_files = true;
        }
        if entry.end_offset() <= tail.end_physical || queue_offset < tail.next_offset {
            return Ok(Appended::Duplicate);
        }
        if queue_offset - tail.next_offset > GAP_ENTRIES_MAX {
            return Ok(Appended::Refused);
        }
        let was_empty = self.min_offset() == tail.next_offset;
        while tail.next_offset < queue_offset {
            self.push(&mut tail, QueueEntry::FILLER)?;
        }
        if was_empty {
            self.min_offset.store(queue_offset, Ordering::Release);
        }
        self.push(&mut tail, entry)?;
        tail.end_physical = entry.end_offset();
        Ok(Appended::New)
    }

    fn push(&self, tail: &mut Tail, entry: QueueEntry) -> Result<(), StoreError> {
        tail.pending.extend_from_slice(&entry.encode());
        tail.next_offset += 1;
        if tail.pending.len() >= PENDING_BYTES_MAX {
            self.write(tail)?;
        }
        Ok(())
    }

    /// Writes the appended units and lets readers see them.
    pub(crate) fn write_pending(&self) -> Result<(), StoreError> {
        self.write(&mut self.tail.lock())
    }

    fn write(&self, tail: &mut Tail) -> Result<(), StoreError> {
        let pending = std::mem::take(&mut tail.pending);
        let mut rest = pending.as_slice();
        let first = tail.next_offset - (rest.len() / ENTRY_BYTES) as i64;
        let mut position = first.cast_unsigned() * ENTRY_BYTES as u64;
        while !rest.is_empty() {
            let start = position - position % self.files.file_bytes;
            let room = start + self.files.file_bytes - position;
            let count = rest.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let file = self.open_or_create(start, tail)?;
            file.write_all_at(&rest[..count], position - start)
                .map_err(io_error(&self.path(start)))?;
            tail.dirty.insert(start);
            rest = &rest[count..];
            position += count as u64;
        }
        self.max_offset.store(tail.next_offset, Ordering::Release);
        tail.pending = pending;
        tail.pending.clear();
        Ok(())
    }

    fn open_or_create(&self, start: u64, tail: &mut Tail) -> Result<Arc<File>, StoreError> {
        match self.open(start) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other.map_err(io_error(&self.path(start))),
        }
        create_directory(&self.directory)?;
        let path = self.path(start);
        let file = create_sparse(&self.files.root, &path, self.files.file_bytes)?;
        tail.directory_dirty = true;
        self.files
            .open
            .get((self.number, start), || Ok(file))
            .map_err(io_error(&path))
    }

    pub(super) fn open(&self, start: u64) -> io::Result<Arc<File>> {
        self.files.open.get((self.number, start), || {
            OpenOptions::new()
                .read(true)
                .write(self.files.access == Access::Append)
                .open(self.path(start))
        })
    }

    pub(super) fn path(&self, start: u64) -> PathBuf {
        self.directory.join(offset_name(start))
    }

    /// Appends to `out` the units from `offset` on, at most `max_bytes` and within one file;
    /// returns false when the file is gone or cannot be read.
    pub(crate) fn read(
        &self,
        offset: i64,
        max_bytes: usize,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<bool, WouldBlock> {
        let end = self.max_offset().min(self.next_file_offset(offset));
        let units = usize::try_from(end - offset).unwrap_or(0);
        let length = (units * ENTRY_BYTES).min(max_bytes);
        let position = offset.cast_unsigned() * ENTRY_BYTES as u64;
        let from = out.len();
        out.resize(from + length, 0);
        match self.read_at(position, mode, &mut out[from..]) {
            // A read that may not wait ends where memory does, perhaps within the first unit.
            Ok(Some(count)) if count >= ENTRY_BYTES || length == 0 => {
                out.truncate(from + count - count % ENTRY_BYTES);
                Ok(true)
            }
            Ok(_) => {
                out.truncate(from);
                Err(WouldBlock)
            }
            Err(error) => {
                out.truncate(from);
                tracing::warn!(topic = self.topic, queue_id = self.queue_id, offset, %error,
                    "cannot read consume queue");
                Ok(false)
            }
        }
    }

    fn read_at(&self, position: u64, mode: ReadMode, out: &mut [u8]) -> io::Result<Option<usize>> {
        let start = position - position % self.files.file_bytes;
        let file = self.open(start)?;
        match mode {
            ReadMode::NoWait => read_nowait(&file, out, position - start),
            ReadMode::Wait => {
                file.read_exact_at(out, position - start)?;
                Ok(Some(out.len()))
            }
        }
    }

    /// The unit at `offset`, None outside the queue or when it cannot be read; may block.
    pub(crate) fn entry(&self, offset: i64) -> Option<QueueEntry> {
        if offset < self.min_offset() || offset >= self.max_offset() {
            return None;
        }
        self.unit(offset)
    }

    /// Like [`Self::entry`], below `min_offset` too.
    pub(super) fn unit(&self, offset: i64) -> Option<QueueEntry> {
        let mut bytes = Vec::with_capacity(ENTRY_BYTES);
        self.read(offset, ENTRY_BYTES, ReadMode::Wait, &mut bytes)
            .ok()?;
        QueueEntry::decode_all(&bytes).next()
    }

    /// Makes everything written so far durable.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let mut tail = self.tail.lock();
        let dirty = std::mem::take(&mut tail.dirty);
        let directory_dirty = std::mem::take(&mut tail.directory_dirty);
        // The appender must not wait for the disk.
        drop(tail);
        for start in dirty {
            self.open(start)
                .and_then(|file| file.sync_data())
                .map_err(io_error(&self.path(start)))?;
        }
        if directory_dirty {
            sync_directory(&self.directory)?;
        }
        Ok(())
    }

    /// Removes the queue from the disk; its units are gone, the object must not be used again.
    pub(super) fn destroy(&self) -> Result<(), StoreError> {
        self.files.open.forget(self.number, 0);
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error(&self.directory)(error))
            }
            _ => Ok(()),
        }
    }
}
