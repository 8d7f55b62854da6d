//! The extension of a consume queue: tags code, store time and filter bitmap of its messages, in
//! files under `consumequeue_ext/`. Written together with the queue, and read through the address
//! in a queue entry.

use parking_lot::Mutex;

use super::queue_files::{Dirty, QueueFiles};
use crate::types::{ReadMode, StoreError, WouldBlock};
use mq_format::consume_queue::QueueEntry;
use mq_format::consume_queue_ext::{
    self, END_BYTES, END_MARK, ExtHead, ExtUnit, HEAD_BYTES, UNIT_BYTES_MAX,
};

/// Bytes read at once.
const CHUNK_BYTES: u64 = 4_096;
/// Capacity kept for the next batch; small, because a store has many queues.
const PENDING_BYTES_KEPT: usize = 256;

/// The extension of a queue. One thread appends; any thread reads units that queue entries point
/// to.
#[derive(Debug)]
pub struct Extension {
    pub files: QueueFiles,
    /// Whether new messages get units here.
    pub(super) is_written: bool,
    tail: Mutex<Tail>,
}

/// The end to which units are appended.
#[derive(Debug, Default)]
struct Tail {
    /// Position of the next unit, including units not written yet.
    next: u64,
    /// Units that are not written yet.
    pending: Vec<u8>,
    dirty: Dirty,
}

impl Extension {
    /// An extension without an end; [`Self::truncate_after`] finds it.
    pub(crate) fn new(files: QueueFiles, is_written: bool) -> Self {
        Self {
            files,
            is_written,
            tail: Mutex::default(),
        }
    }

    /// Removes damaged files and all later ones, after calling `before`. Returns the start of the
    /// extension, and whether a file was removed.
    pub(crate) fn sound(
        &self,
        before: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(u64, bool), StoreError> {
        let (files, is_cut) = self.files.sound(before)?;
        Ok((files.first().map_or(0, |first| first.offset), is_cut))
    }

    /// Adds a unit, which readers see after [`Self::write`]. Returns its address, or None if the
    /// queue must hold the tags code itself.
    pub(crate) fn append(&self, unit: &ExtUnit<'_>) -> Option<i64> {
        let size = unit.size() as u64;
        let room_max = self.files.file_bytes.saturating_sub(END_BYTES);
        if !self.is_written || size > room_max.min(UNIT_BYTES_MAX as u64) {
            return None;
        }
        let mut tail = self.tail.lock();
        let file_end = self.files.start_of(tail.next) + self.files.file_bytes;
        if tail.next + size + END_BYTES > file_end {
            // Fill the rest of the file with zeros in memory. Writing here could find a full disk,
            // for which this function cannot wait.
            let rest = usize::try_from(file_end - tail.next).unwrap_or(0);
            let end = tail.pending.len() + rest;
            tail.pending.extend_from_slice(&END_MARK);
            tail.pending.resize(end, 0);
            tail.next = file_end;
        }
        let address = consume_queue_ext::address(tail.next);
        unit.encode(&mut tail.pending);
        tail.next += size;
        Some(address)
    }

    /// Writes the appended units. After a failure they stay, and another try writes the same bytes.
    pub(crate) fn write(&self) -> Result<(), StoreError> {
        self.write_tail(&mut self.tail.lock())
    }

    fn write_tail(&self, tail: &mut Tail) -> Result<(), StoreError> {
        let position = tail.next - tail.pending.len() as u64;
        self.files.write(position, &tail.pending, &mut tail.dirty)?;
        tail.pending.clear();
        tail.pending.shrink_to(PENDING_BYTES_KEPT);
        Ok(())
    }

    /// Returns the files written since the last call, for a flush.
    pub(crate) fn take_dirty(&self) -> Dirty {
        std::mem::take(&mut self.tail.lock().dirty)
    }

    /// Takes back files that could not be flushed.
    pub(crate) fn keep_dirty(&self, dirty: Dirty) {
        self.tail.lock().dirty.merge(dirty);
    }

    /// Ends the extension after the unit that `last` points to; None means before its first unit.
    pub(crate) fn truncate_after(&self, last: Option<&QueueEntry>) -> Result<(), StoreError> {
        let (files, _) = self.files.sound(|| Ok(()))?;
        let mut reader = ExtReader::new(Some(self), ReadMode::Wait);
        let end = match last.and_then(|last| consume_queue_ext::position(last.tags_code)) {
            // With `ReadMode::Wait` the reader never returns `WouldBlock`.
            Some(position) => match reader.head(position) {
                Ok(ExtHead::Unit(size)) => position + size as u64,
                _ => position,
            },
            None => files.first().map_or(0, |first| first.offset),
        };
        let is_unused = !matches!(reader.head(end), Ok(ExtHead::Unit(_)));
        let is_last = files.last().is_none_or(|last| last.offset <= end);
        let mut tail = self.tail.lock();
        tail.next = end;
        if !is_unused || !is_last {
            self.files.clear_from(end, &mut tail.dirty)?;
        }
        Ok(())
    }

    /// Removes the files before the unit that `first` points to, but never the last file.
    pub(crate) fn delete_before(&self, first: &QueueEntry) -> Result<usize, StoreError> {
        match consume_queue_ext::position(first.tags_code) {
            Some(position) => Ok(self.files.delete_before(position)?.len()),
            None => Ok(0),
        }
    }

    /// Removes the extension from the disk.
    pub(crate) fn destroy(&self) -> Result<(), StoreError> {
        self.files.destroy()
    }
}

/// Reads units one by one, with a buffer.
#[derive(Debug)]
pub struct ExtReader<'a> {
    ext: Option<&'a Extension>,
    mode: ReadMode,
    chunk: Vec<u8>,
    /// Position of the chunk's first byte.
    from: u64,
}

impl<'a> ExtReader<'a> {
    pub(crate) fn new(ext: Option<&'a Extension>, mode: ReadMode) -> Self {
        Self {
            ext,
            mode,
            chunk: Vec::new(),
            from: 0,
        }
    }

    /// The tags code of a queue entry; None if the extension lacks it.
    pub(crate) fn tags_code(&mut self, entry: &QueueEntry) -> Result<Option<i64>, WouldBlock> {
        if !entry.is_extension_address() {
            return Ok(Some(entry.tags_code));
        }
        let unit = self.unit(entry)?;
        Ok(unit.map(|unit| unit.tags_code))
    }

    /// The unit of a queue entry; None if there is none.
    pub fn unit(&mut self, entry: &QueueEntry) -> Result<Option<ExtUnit<'_>>, WouldBlock> {
        let Some(position) = consume_queue_ext::position(entry.tags_code) else {
            return Ok(None);
        };
        let ExtHead::Unit(size) = self.head(position)? else {
            return Ok(None);
        };
        Ok(ExtUnit::decode(self.bytes(position, size)?))
    }

    /// Whether an entry needs no extension, or its unit exists.
    pub(crate) fn is_whole(&mut self, entry: &QueueEntry) -> bool {
        !entry.is_extension_address() || matches!(self.unit(entry), Ok(Some(_)))
    }

    /// The head at a position.
    fn head(&mut self, position: u64) -> Result<ExtHead, WouldBlock> {
        Ok(ExtHead::parse(self.bytes(position, HEAD_BYTES)?))
    }

    /// The next `count` bytes, fewer at the end of a file; none if the file does not exist.
    fn bytes(&mut self, position: u64, count: usize) -> Result<&[u8], WouldBlock> {
        let Some(ext) = self.ext else {
            return Ok(&[]);
        };
        let file_end = ext
            .files
            .start_of(position)
            .saturating_add(ext.files.file_bytes);
        let room = usize::try_from(file_end - position).unwrap_or(usize::MAX);
        let count = count.min(room);
        let skipped = position.checked_sub(self.from);
        let skipped = skipped.and_then(|skipped| usize::try_from(skipped).ok());
        if let Some(at) = skipped.filter(|at| at.saturating_add(count) <= self.chunk.len()) {
            return Ok(&self.chunk[at..at + count]);
        }
        self.chunk
            .resize(room.min(count.max(CHUNK_BYTES as usize)), 0);
        self.from = position;
        let read = match ext.files.read(position, self.mode, &mut self.chunk) {
            Ok(read) => read,
            Err(error) => {
                let path = ext.files.path(ext.files.start_of(position));
                tracing::warn!(path = %path.display(), %error, "cannot read a queue extension");
                self.chunk.clear();
                return Ok(&[]);
            }
        };
        self.chunk.truncate(read.unwrap_or(0));
        if self.chunk.len() < count {
            self.chunk.clear();
            return Err(WouldBlock);
        }
        Ok(&self.chunk[..count])
    }
}
