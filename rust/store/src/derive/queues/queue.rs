//! One consume queue: 20-byte units in files of one nominal length, sparse, written by pwrite
//! and read by pread. A queue holds neither a map nor a descriptor. Its last units may be in memory
//! only, see `pending.rs`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use super::ext::{ExtReader, Extension};
use super::sparse_files::{self, Dirty, SparseFiles};
use crate::types::{ReadMode, StoreError};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::consume_queue_ext::ExtUnit;
use mq_format::message::SCHEDULE_TOPIC;
use mq_format::multi_dispatch::is_lmq;

/// Most queue offsets that one damaged range is believed to have swallowed; a larger jump is a
/// damaged record header.
const GAP_ENTRIES_MAX: i64 = 4 << 20;
/// Holes in a row that may point to the record behind them, which RocketMQ then serves so often.
const HOLES_MAX: i64 = 32;
/// Units before the first one of the log that are looked at, whether they are of the log as well.
const LIVE_LOOK: i64 = 4;
/// Bytes read at once when units are walked.
pub(crate) const WALK_BYTES: usize = 64 << 10;

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

/// A queue of a topic. One thread appends; any thread reads below `max_offset`.
#[derive(Debug)]
pub struct ConsumeQueue {
    /// The queues of a topic share it.
    pub(crate) topic: Arc<str>,
    pub(crate) queue_id: i32,
    /// Its units do not wait.
    pub(crate) is_at_once: bool,
    /// One past the last unit that readers may see.
    pub(crate) max_offset: AtomicI64,
    pub(crate) tail: Mutex<Tail>,
    /// One past the last unit in the files; those from there on are pending.
    pub(crate) written_to: AtomicI64,
    pub(crate) min_offset: AtomicI64,
    /// Units of records that start before this place of the log are of deleted messages.
    pub(crate) deleted_to: AtomicI64,
    /// The files that entries were written to.
    pub files: SparseFiles,
    /// Held by who writes, for as long as the disk takes: what was written since the last flush.
    /// Taken before `tail`, which is held for moments only.
    pub(crate) writing: Mutex<Dirty>,
    /// None where it is neither written nor there.
    pub ext: Option<Box<Extension>>,
}

/// The growing end, owned by whoever appends.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// One past the last unit, pending ones included.
    pub next_offset: i64,
    /// End of the last record queued, bytes from the start of the log.
    pub end_physical: i64,
    /// The last units, encoded, not written yet.
    pub pending: Vec<u8>,
    pub has_files: bool,
    /// The next flush looks at this queue.
    pub is_noted: bool,
    /// First unit of the first file.
    pub first_offset: i64,
    /// Units before the pending ones, being written or to be written once more.
    pub in_flight: Option<Arc<Vec<u8>>>,
    /// Most that was pending at once since the last flush.
    pub gathered_bytes: usize,
    /// One past the last unit that the files may hold beyond the queue's end: units that start-up
    /// cut off and left there, so that those it makes again need not be written. 0 for none.
    pub stale_to: i64,
}

impl ConsumeQueue {
    /// A queue without files.
    pub(crate) fn empty(
        topic: Arc<str>,
        queue_id: i32,
        files: SparseFiles,
        ext: Option<Extension>,
    ) -> Self {
        // After a crash bitmaps cannot be made again, RocketMQ makes units of delayed messages
        // without their time, and light queues are made only where they are still enabled.
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

    /// First unit that points into the log.
    pub fn min_offset(&self) -> i64 {
        self.min_offset.load(Ordering::Acquire)
    }

    /// One past the last readable unit.
    pub fn max_offset(&self) -> i64 {
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

    pub(crate) fn units_per_file(&self) -> i64 {
        (self.files.file_bytes / ENTRY_BYTES as u64).cast_signed()
    }

    /// Adds the unit of a record whose own queue offset is `queue_offset`; readers see it after
    /// [`Self::publish`]. Queue offsets that no record has become fillers. What `ext` tells
    /// goes to the extension, if there is one.
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
            // Nearly all: the next unit, and nothing else to look at.
            Self::push(&mut tail, entry);
            tail.end_physical = entry.end_offset();
            return Appended::New;
        }
        if !tail.has_files {
            // RocketMQ starts the first file of a queue at a multiple of the file's length.
            tail.first_offset = queue_offset - queue_offset % self.units_per_file();
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
        // A delayed message would be delivered before its time for each hole that points to it.
        let is_hole = !was_empty && *self.topic != *SCHEDULE_TOPIC;
        let is_short = queue_offset - tail.next_offset <= HOLES_MAX;
        let filler = match is_hole && is_short {
            true => entry.hole_before(),
            false => QueueEntry::FILLER,
        };
        while tail.next_offset < queue_offset {
            Self::push(&mut tail, filler);
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

    /// Whether the file that holds `offset` is there.
    pub(crate) fn has_file(&self, offset: i64) -> bool {
        let position = offset.cast_unsigned() * ENTRY_BYTES as u64;
        self.files.path(self.files.start_of(position)).exists()
    }

    /// The unit at `offset`, None outside the queue or when it cannot be read; may block.
    pub(crate) fn entry(&self, offset: i64) -> Option<QueueEntry> {
        if offset < self.min_offset() || offset >= self.max_offset() {
            return None;
        }
        self.unit(offset)
    }

    /// Like [`Self::entry`], below `min_offset` too.
    pub fn unit(&self, offset: i64) -> Option<QueueEntry> {
        let mut bytes = Vec::with_capacity(ENTRY_BYTES);
        self.read(offset, ENTRY_BYTES, ReadMode::Wait, &mut bytes)
            .ok()?;
        QueueEntry::decode_all(&bytes).next()
    }

    /// Tells the tags codes of units, those in the extension too.
    pub fn tags_codes(&self, mode: ReadMode) -> ExtReader<'_> {
        ExtReader::new(self.ext.as_deref(), mode)
    }

    /// Ends the extension behind the last unit that the queue points to.
    pub(crate) fn settle_ext(&self) -> Result<(), StoreError> {
        let Some(ext) = self.ext.as_ref().filter(|ext| ext.is_written) else {
            return Ok(());
        };
        // Only a queue that was extended lately has plain units behind those that point here.
        let last = self.units_back().filter_map(|(_, unit)| unit);
        let last = { last }.find(QueueEntry::is_extension_address);
        ext.settle(last.as_ref())
    }

    /// Writes what is pending, and makes everything written so far durable.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut directories = BTreeSet::new();
        self.flush_files(&self.take_dirty()?, &mut directories)?;
        sparse_files::sync_directories(&directories)
    }

    /// Writes what is pending; gives what was written since the last call, in the queue and its
    /// extension.
    pub(crate) fn take_dirty(&self) -> Result<[Dirty; 2], StoreError> {
        let dirty = self.write_out()?;
        let ext = self.ext.as_ref().map(|ext| ext.take_dirty());
        Ok([dirty, ext.unwrap_or_default()])
    }

    /// Takes back what was not flushed after all.
    pub(crate) fn keep_dirty(&self, [dirty, ext_dirty]: [Dirty; 2]) {
        self.writing.lock().merge(dirty);
        if let Some(ext) = &self.ext {
            ext.keep_dirty(ext_dirty);
        }
    }

    /// Makes files durable, but not yet the names of new ones.
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

    /// Moves the minimum up to the first unit of a record at or behind `log_start` that is not
    /// deleted; never down.
    pub fn set_min_from(&self, log_start: i64) {
        let min = self.min_for(log_start);
        self.min_offset.fetch_max(min, Ordering::AcqRel);
    }

    /// What the minimum is where the log starts at `log_start`.
    pub(crate) fn min_for(&self, log_start: i64) -> i64 {
        let log_start = log_start.max(self.deleted_to.load(Ordering::Acquire));
        let min_offset = self.min_offset();
        let is_right = |entry: QueueEntry| !entry.is_filler() && entry.physical_offset >= log_start;
        // One unit tells for most queues: nothing of them is gone.
        if min_offset >= self.max_offset() || self.entry(min_offset).is_some_and(is_right) {
            return min_offset;
        }
        let min = self.live_from(self.first_at(log_start), log_start);
        min.max(min_offset)
    }

    /// The first unit that may lead to a record at or behind a place in the log: `found`, or one
    /// before. A damaged unit leads a search astray, and may itself be of such a record.
    fn live_from(&self, mut found: i64, log_start: i64) -> i64 {
        let (first, _) = self.written();
        let is_expired =
            |unit: &QueueEntry| unit.is_filler() || (0..log_start).contains(&unit.physical_offset);
        let is_live = |at: &i64| {
            !self
                .unit(*at)
                .filter(QueueEntry::is_used)
                .is_some_and(|unit| is_expired(&unit))
        };
        while let Some(earlier) = (first.max(found - LIVE_LOOK)..found).find(is_live) {
            found = earlier;
        }
        found
    }

    /// The first unit of a record at or behind a place in the log.
    pub(crate) fn first_at(&self, physical_offset: i64) -> i64 {
        let is_there =
            |entry: &QueueEntry| !entry.is_filler() && entry.physical_offset >= physical_offset;
        let (mut low, end) = self.written();
        let mut high = end;
        if self.end_physical() <= physical_offset {
            // As in every queue whose messages were deleted.
            return end;
        }
        if self.unit(low).is_some_and(|first| is_there(&first)) {
            // As in most queues.
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

    /// The first unit in a range that is no filler.
    fn first_record(&self, from: i64, to: i64) -> Option<(i64, QueueEntry)> {
        (from..to)
            .filter_map(|offset| Some((offset, self.unit(offset)?)))
            .find(|(_, entry)| entry.is_used() && !entry.is_filler())
    }

    /// The first unit of the first file, and one past the last unit.
    pub fn written(&self) -> (i64, i64) {
        let first = self.tail.lock().first_offset;
        (first, self.max_offset())
    }

    /// Removes the files, but the last, of which every record lies before `log_start`, and what
    /// the extension says of these; the minimum moves first. Returns the number of files.
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

    /// Removes the queue from the disk; its units are gone, the object must not be used again.
    pub(crate) fn destroy(&self) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        self.forget_pending();
        if let Some(ext) = &self.ext {
            ext.destroy()?;
        }
        self.files.destroy()
    }
}
