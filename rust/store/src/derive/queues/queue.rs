//! One consume queue: 20-byte entries in sparse files of one nominal length, written by `pwrite`
//! and read by `pread`. A queue holds neither a memory map nor a descriptor. Its last entries may
//! be in memory only; see `queue_buffer.rs`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use super::ext::{ExtReader, Extension};
use super::queue_files::{self, Dirty, QueueFiles};
use crate::types::{ReadMode, StoreError};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::consume_queue_ext::ExtUnit;
use mq_format::message::SCHEDULE_TOPIC;
use mq_format::multi_dispatch::is_lmq;

/// Most queue offsets that one damaged range can have taken. A larger jump means a damaged record
/// header.
const GAP_ENTRIES_MAX: i64 = 4 << 20;
/// Most consecutive holes that may point to the next record; RocketMQ delivers it once per hole.
const HOLES_MAX: i64 = 32;
/// Entries before the first live one that are checked, too, because a search may miss some.
const LIVE_LOOK: i64 = 4;
/// Bytes read at once in a scan of entries.
pub(crate) const SCAN_BYTES: usize = 64 << 10;

/// The result of appending an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// The entry is the new end of the queue.
    New,
    /// The queue has the entry already.
    Duplicate,
    /// The queue offset is so far off that the record must be damaged.
    Refused,
}

/// A queue of a topic. One thread appends; any thread reads before `max_offset`.
#[derive(Debug)]
pub struct ConsumeQueue {
    /// Shared by the queues of a topic.
    pub(crate) topic: Arc<str>,
    pub(crate) queue_id: i32,
    /// Entries are written at once instead of being buffered.
    pub(crate) is_at_once: bool,
    /// One past the last entry that readers see.
    pub(crate) max_offset: AtomicI64,
    pub(crate) tail: Mutex<Tail>,
    /// One past the last entry in the files; the later ones are pending.
    pub(crate) written_to: AtomicI64,
    pub(crate) min_offset: AtomicI64,
    /// Log offset before which the queue's messages are deleted.
    pub(crate) deleted_to: AtomicI64,
    /// The files with the entries.
    pub files: QueueFiles,
    /// The files written since the last flush. The writing thread holds it, also while the disk is
    /// slow. Take it before `tail`, which is held only briefly.
    pub(crate) writing: Mutex<Dirty>,
    /// None if the extension is neither written nor on disk.
    pub ext: Option<Box<Extension>>,
}

/// The end of the queue, owned by the appending thread.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// One past the last entry, including pending ones.
    pub next_offset: i64,
    /// End of the last queued record in the log.
    pub end_physical: i64,
    /// The last entries, encoded and not written yet.
    pub pending: Vec<u8>,
    pub has_files: bool,
    /// The queue is marked for the next flush.
    pub is_noted: bool,
    /// Queue offset of the first entry in the first file.
    pub first_offset: i64,
    /// Entries before the pending ones that are being written, or must be written again.
    pub in_flight: Option<Arc<Vec<u8>>>,
    /// Most bytes pending at once since the last flush.
    pub gathered_bytes: usize,
    /// One past the last stale entry in the files after the queue's end; 0 if there is none. A
    /// start cuts entries off and leaves them in the files, so that entries that are derived again
    /// unchanged need no write.
    pub stale_to: i64,
}

impl ConsumeQueue {
    /// A queue without files.
    pub(crate) fn empty(
        topic: Arc<str>,
        queue_id: i32,
        files: QueueFiles,
        ext: Option<Extension>,
    ) -> Self {
        // Recovery could not rebuild these exactly: bitmaps are lost, RocketMQ's recovery writes
        // delayed messages without their due time, and light queues are only rebuilt while they are
        // enabled.
        let is_at_once = ext.is_some() || *topic == *SCHEDULE_TOPIC || is_lmq(&topic);
        Self {
            topic,
            queue_id,
            is_at_once,
            max_offset: AtomicI64::new(0),
            tail: Mutex::default(),
            written_to: AtomicI64::new(0),
            min_offset: AtomicI64::new(0),
            deleted_to: AtomicI64::new(0),
            files,
            writing: Mutex::default(),
            ext: ext.map(Box::new),
        }
    }

    /// The queue's topic.
    #[inline]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The queue's number in its topic.
    #[inline]
    pub fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// Queue offset of the first entry that points into the log.
    pub fn min_offset(&self) -> i64 {
        self.min_offset.load(Ordering::Acquire)
    }

    /// One past the last readable entry.
    pub fn max_offset(&self) -> i64 {
        self.max_offset.load(Ordering::Acquire)
    }

    /// End of the last queued record in the log.
    pub(crate) fn end_physical(&self) -> i64 {
        self.tail.lock().end_physical
    }

    /// First queue offset of the file after the one that holds `offset`.
    pub(crate) fn next_file_offset(&self, offset: i64) -> i64 {
        let entries = self.entries_per_file();
        (offset / entries + 1) * entries
    }

    pub(crate) fn entries_per_file(&self) -> i64 {
        (self.files.file_bytes / ENTRY_BYTES as u64).cast_signed()
    }

    /// Appends the entry of a record with the given queue offset; readers see it after
    /// [`Self::publish`]. Queue offsets without a record become holes. `ext` goes to the extension,
    /// if there is one.
    pub(crate) fn append(
        &self,
        queue_offset: i64,
        mut entry: QueueEntry,
        ext: Option<&ExtUnit<'_>>,
    ) -> Appended {
        let mut tail = self.tail.lock();
        if queue_offset < 0 {
            return Appended::Refused;
        }
        let follows = tail.has_files && queue_offset == tail.next_offset;
        if follows && self.ext.is_none() && entry.end_offset() > tail.end_physical {
            // The usual case: the next entry, and nothing else to check.
            Self::push(&mut tail, entry);
            tail.end_physical = entry.end_offset();
            return Appended::New;
        }
        if !tail.has_files {
            // As in RocketMQ, the first file of a queue starts at a multiple of the file's length.
            tail.first_offset = queue_offset - queue_offset % self.entries_per_file();
            tail.next_offset = tail.first_offset;
            self.min_offset.store(tail.first_offset, Ordering::Release);
            self.max_offset.store(tail.first_offset, Ordering::Release);
            self.written_to.store(tail.first_offset, Ordering::Release);
            tail.has_files = true;
        }
        if entry.end_offset() <= tail.end_physical || queue_offset < tail.next_offset {
            return Appended::Duplicate;
        }
        if queue_offset - tail.next_offset > GAP_ENTRIES_MAX {
            return Appended::Refused;
        }
        let was_empty = self.min_offset() == tail.next_offset;
        // A hole that points to a delayed message would deliver that message too early.
        let is_hole = !was_empty && *self.topic != *SCHEDULE_TOPIC;
        let is_short = queue_offset - tail.next_offset <= HOLES_MAX;
        let hole = match is_hole && is_short {
            true => entry.hole_before(),
            false => QueueEntry::HOLE,
        };
        while tail.next_offset < queue_offset {
            Self::push(&mut tail, hole);
        }
        if was_empty {
            self.min_offset.store(queue_offset, Ordering::Release);
        }
        if let Some((files, unit)) = self.ext.as_ref().zip(ext)
            && let Some(address) = files.append(unit)
        {
            entry.tags_code = address;
        }
        Self::push(&mut tail, entry);
        tail.end_physical = entry.end_offset();
        Appended::New
    }

    /// Whether the file of `offset` exists.
    pub(crate) fn has_file(&self, offset: i64) -> bool {
        let position = offset.cast_unsigned() * ENTRY_BYTES as u64;
        self.files.path(self.files.start_of(position)).exists()
    }

    /// The entry at `offset`; None outside of the queue, or if it cannot be read. May block.
    pub(crate) fn entry(&self, offset: i64) -> Option<QueueEntry> {
        if offset < self.min_offset() || offset >= self.max_offset() {
            return None;
        }
        self.stored_entry(offset)
    }

    /// Like [`Self::entry`], also before `min_offset`.
    pub fn stored_entry(&self, offset: i64) -> Option<QueueEntry> {
        let mut bytes = Vec::with_capacity(ENTRY_BYTES);
        self.read(offset, ENTRY_BYTES, ReadMode::Wait, &mut bytes)
            .ok()?;
        QueueEntry::decode_all(&bytes).next()
    }

    /// A reader of tags codes, including those in the extension.
    pub fn tags_codes(&self, mode: ReadMode) -> ExtReader<'_> {
        ExtReader::new(self.ext.as_deref(), mode)
    }

    /// Ends the extension after the last unit that the queue points to.
    pub(crate) fn truncate_ext(&self) -> Result<(), StoreError> {
        let Some(ext) = self.ext.as_ref().filter(|ext| ext.is_written) else {
            return Ok(());
        };
        // Entries without a unit follow only if the extension was disabled recently.
        let last = self.entries_backwards().filter_map(|(_, entry)| entry);
        let last = { last }.find(QueueEntry::is_extension_address);
        ext.truncate_after(last.as_ref())
    }

    /// Writes the pending entries, and syncs everything written so far.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut directories = BTreeSet::new();
        self.flush_files(&self.take_dirty()?, &mut directories)?;
        queue_files::sync_directories(&directories)
    }

    /// Writes the pending entries. Returns the files written since the last call, in the queue and
    /// in its extension.
    pub(crate) fn take_dirty(&self) -> Result<[Dirty; 2], StoreError> {
        let dirty = self.write_out()?;
        let ext = self.ext.as_ref().map(|ext| ext.take_dirty());
        Ok([dirty, ext.unwrap_or_default()])
    }

    /// Takes back files that could not be flushed.
    pub(crate) fn keep_dirty(&self, [dirty, ext_dirty]: [Dirty; 2]) {
        self.writing.lock().merge(dirty);
        if let Some(ext) = &self.ext {
            ext.keep_dirty(ext_dirty);
        }
    }

    /// Syncs files; the names of new ones are not synced yet.
    pub(crate) fn flush_files(
        &self,
        [dirty, ext_dirty]: &[Dirty; 2],
        directories: &mut BTreeSet<PathBuf>,
    ) -> Result<(), StoreError> {
        if let Some(ext) = &self.ext {
            ext.files.flush(ext_dirty, directories)?;
        }
        self.files.flush(dirty, directories)
    }

    /// Raises the minimum to the first entry whose record is at or after `log_start` and not
    /// deleted. Never lowers it.
    pub fn set_min_from(&self, log_start: i64) {
        let min = self.min_for(log_start);
        self.min_offset.fetch_max(min, Ordering::AcqRel);
    }

    /// The minimum for a log that starts at `log_start`.
    pub(crate) fn min_for(&self, log_start: i64) -> i64 {
        let log_start = log_start.max(self.deleted_to.load(Ordering::Acquire));
        let min_offset = self.min_offset();
        let is_right = |entry: QueueEntry| !entry.is_hole() && entry.physical_offset >= log_start;
        // For most queues one entry is enough: nothing has expired.
        if min_offset >= self.max_offset() || self.entry(min_offset).is_some_and(is_right) {
            return min_offset;
        }
        let min = self.live_from(self.first_at(log_start), log_start);
        min.max(min_offset)
    }

    /// The first entry that may point to a record at or after `log_start`: `found` or an earlier
    /// one. A damaged entry misleads a binary search, and may itself belong to such a record.
    fn live_from(&self, mut found: i64, log_start: i64) -> i64 {
        let (first, _) = self.written();
        let is_expired =
            |entry: &QueueEntry| entry.is_hole() || (0..log_start).contains(&entry.physical_offset);
        let is_live = |at: &i64| {
            !self
                .stored_entry(*at)
                .filter(QueueEntry::is_used)
                .is_some_and(|entry| is_expired(&entry))
        };
        while let Some(earlier) = (first.max(found - LIVE_LOOK)..found).find(is_live) {
            found = earlier;
        }
        found
    }

    /// The first entry of a record at or after a log offset.
    pub(crate) fn first_at(&self, physical_offset: i64) -> i64 {
        let is_there =
            |entry: &QueueEntry| !entry.is_hole() && entry.physical_offset >= physical_offset;
        let (mut low, end) = self.written();
        let mut high = end;
        if self.end_physical() <= physical_offset {
            // For example, all messages of the queue were deleted.
            return end;
        }
        if self.stored_entry(low).is_some_and(|first| is_there(&first)) {
            // The usual case.
            high = low;
        }
        while low < high {
            let middle = i64::midpoint(low, high);
            match self.first_record(middle, high) {
                Some((at, entry)) if !is_there(&entry) => low = at + 1,
                _ => high = middle,
            }
        }
        self.first_record(low, end).map_or(end, |(at, _)| at)
    }

    /// The first entry in a range that is no hole.
    fn first_record(&self, from: i64, to: i64) -> Option<(i64, QueueEntry)> {
        (from..to)
            .filter_map(|offset| Some((offset, self.stored_entry(offset)?)))
            .find(|(_, entry)| entry.is_used() && !entry.is_hole())
    }

    /// Queue offset of the first entry in the files, and one past the last entry.
    pub fn written(&self) -> (i64, i64) {
        let first = self.tail.lock().first_offset;
        (first, self.max_offset())
    }

    /// Removes files whose records are all before `log_start`, and their units in the extension,
    /// but never the last file. Raises the minimum first. Returns the number of removed files.
    pub(crate) fn delete_before(&self, log_start: i64) -> Result<usize, StoreError> {
        self.set_min_from(log_start);
        let min_offset = self.min_offset();
        let position = min_offset.cast_unsigned() * ENTRY_BYTES as u64;
        let removed = self.files.delete_before(position)?;
        if let Some(last) = removed.last() {
            let first = (last + self.files.file_bytes) / ENTRY_BYTES as u64;
            self.tail.lock().first_offset = first.cast_signed();
        }
        let first_unit = self.ext.as_ref().zip(self.entry(min_offset));
        let of_ext = first_unit.map_or(Ok(0), |(ext, entry)| ext.delete_before(&entry))?;
        Ok(removed.len() + of_ext)
    }

    /// Removes the queue from the disk. The object must not be used any more.
    pub(crate) fn destroy(&self) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        self.forget_pending();
        if let Some(ext) = &self.ext {
            ext.destroy()?;
        }
        self.files.destroy()
    }
}
