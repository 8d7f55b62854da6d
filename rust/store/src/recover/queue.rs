//! Loading one consume queue from its files, and cutting it back to the log.

use std::sync::atomic::Ordering;

use super::heal::Change;
use crate::derive::queues::queue::{ConsumeQueue, WALK_BYTES};
use crate::files::{OffsetFile, offset_files};
use crate::types::{ReadMode, StoreError};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::consume_queue_ext;
use mq_format::message::SCHEDULE_TOPIC;
use mq_log::Access;
use mq_log::fs::{OpenOptions, open_own};

/// Read first where a queue may end.
const FIRST_LOOK_BYTES: usize = 4_000;
/// Files walked from the end after an unclean stop, as RocketMQ does.
const WALKED_FILES: usize = 3;
/// Bytes read of a damaged file for its last unit.
const USED_BYTES_MAX: usize = 64 << 20;

/// What loading a queue found.
pub(crate) struct Loaded {
    /// False if units had to go that the checkpoint takes for durable, because their file or their
    /// part in the extension is damaged.
    pub is_whole: bool,
    /// Where a damaged queue ended: one past its last unit, and the end of that one's record.
    pub before: Option<(i64, i64)>,
}

impl Loaded {
    fn of(is_whole: bool, before: Option<(i64, i64)>) -> Self {
        Self { is_whole, before }
    }
}

impl ConsumeQueue {
    /// Finds the end of the queue in its files. `sequential` walks the last files unit by unit
    /// and clears what lies behind the first unused unit, because after an unclean stop a hole
    /// may precede units that reached the disk.
    pub(crate) fn load(&self, sequential: bool) -> Result<Loaded, StoreError> {
        let is_owner = self.files.shared.access == Access::Append;
        let mut before = None;
        let mut look = || self.last_used().map(|found| before = found);
        let (files, is_cut) = self.files.sound(&mut look)?;
        let (ext_from, is_ext_cut) = match self.ext.as_ref().filter(|_| is_owner) {
            Some(ext) => ext.sound(|| if is_cut { Ok(()) } else { look() })?,
            None => (0, false),
        };
        let (Some(first), Some(last)) = (files.first(), files.last()) else {
            return Ok(Loaded::of(!is_cut, before));
        };
        let unit_of = |position: u64| (position / ENTRY_BYTES as u64).cast_signed();
        let first_offset = unit_of(first.offset);
        self.set_bounds(first_offset, unit_of(last.offset + last.bytes));
        // Where a file follows, the one before is full.
        let is_full = |file: &OffsetFile| {
            let unit = self.unit(unit_of(file.offset + file.bytes) - 1);
            unit.is_some_and(|unit| unit.is_used())
        };
        let mut earlier = files[..files.len() - 1].iter().filter(|_| is_owner);
        let torn = earlier.position(|file| !is_full(file));
        if torn.is_some() && !is_cut && !is_ext_cut {
            look()?;
        }
        let last = torn.map_or(last, |torn| &files[torn]);
        let end_of_last = unit_of(last.offset + last.bytes);
        let mut is_whole = true;
        let walks = sequential || is_ext_cut || torn.is_some();
        if !walks {
            let end = self.search_end(first_offset, unit_of(last.offset));
            self.set_bounds(first_offset, end);
            is_whole = !is_owner || self.has_whole_end();
        }
        if walks || !is_whole {
            self.set_bounds(first_offset, end_of_last);
            let count = torn.map_or(files.len(), |torn| torn + 1);
            let walked = if is_ext_cut { count } else { WALKED_FILES };
            let from = count.saturating_sub(walked);
            let (mut end, is_used) = self.walk_used(unit_of(files[from].offset), ext_from);
            is_whole = !is_used && torn.is_none();
            // What zeroed the rest may have begun within a unit.
            end -= i64::from(torn.is_some() && end > first_offset);
            self.set_bounds(first_offset, end);
            self.clear_from(end)?;
        }
        self.settle_end();
        if is_owner {
            self.settle_ext()?;
        }
        Ok(Loaded::of(is_whole && !is_cut, before))
    }

    /// One past the last used unit in files of any length, and where in the log the last record
    /// ends that one points to; None without a unit.
    fn last_used(&self) -> Result<Option<(i64, i64)>, StoreError> {
        let (mut end, mut bytes) = (None, Vec::new());
        for file in offset_files(&self.files.directory)?.iter().rev() {
            bytes.resize(
                usize::try_from(file.bytes).unwrap_or(0).min(USED_BYTES_MAX),
                0,
            );
            let whole = bytes.len() - bytes.len() % ENTRY_BYTES;
            let read = open_own(&file.path, OpenOptions::new().read(true))
                .and_then(|open| open.read_exact_at(&mut bytes[..whole], 0));
            if read.is_err() {
                continue;
            }
            let first = (file.offset / ENTRY_BYTES as u64).cast_signed();
            let units: Vec<_> = QueueEntry::decode_all(&bytes[..whole]).collect();
            for (at, unit) in units
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, unit)| unit.is_used())
            {
                let end = *end.get_or_insert(first + at as i64 + 1);
                if !unit.is_filler() {
                    return Ok(Some((end, unit.end_offset())));
                }
            }
        }
        Ok(end.map(|end| (end, 0)))
    }

    /// Whether the last unit finds its part in the extension.
    fn has_whole_end(&self) -> bool {
        let last = self.last_record();
        last.is_none_or(|(_, entry)| self.tags_codes(ReadMode::Wait).is_whole(&entry))
    }

    fn set_bounds(&self, first_offset: i64, end: i64) {
        let mut tail = self.tail.lock();
        tail.has_files = true;
        tail.first_offset = first_offset;
        tail.next_offset = end;
        self.min_offset.store(first_offset, Ordering::Release);
        self.max_offset.store(end, Ordering::Release);
        self.written_to.store(end, Ordering::Release);
    }

    /// First unit at or after `from` that is unused, or whose part in the extension is missing;
    /// true for the latter. What was before `ext_from` in the extension has expired.
    fn walk_used(&self, from: i64, ext_from: u64) -> (i64, bool) {
        let mut offset = from;
        let mut bytes = Vec::with_capacity(WALK_BYTES);
        let mut ext = self.tags_codes(ReadMode::Wait);
        loop {
            bytes.clear();
            let read = self.read(offset, WALK_BYTES, ReadMode::Wait, &mut bytes);
            for entry in QueueEntry::decode_all(&bytes) {
                let is_used = entry.is_used();
                let has_expired = consume_queue_ext::position(entry.tags_code)
                    .is_some_and(|position| position < ext_from);
                if !is_used || !(has_expired || ext.is_whole(&entry)) {
                    return (offset, is_used);
                }
                offset += 1;
            }
            if read != Ok(true) || bytes.is_empty() {
                return (offset, false);
            }
        }
    }

    /// First unused unit of a queue that was closed cleanly: used units have no holes, and the
    /// last file may be unused altogether.
    fn search_end(&self, first_offset: i64, last_file: i64) -> i64 {
        let is_used = |offset| self.unit(offset).is_some_and(|entry| entry.is_used());
        let mut low = last_file;
        while low > first_offset && !is_used(low) {
            low -= self.units_per_file();
        }
        let mut high = low + self.units_per_file();
        // Most queues of a store with many are short: one read tells.
        let mut head = Vec::new();
        let _ = self.read(low, FIRST_LOOK_BYTES, ReadMode::Wait, &mut head);
        let used = QueueEntry::decode_all(&head).take_while(QueueEntry::is_used);
        low += used.count() as i64;
        if low - (high - self.units_per_file()) < (head.len() / ENTRY_BYTES) as i64 {
            return low;
        }
        while low < high {
            let middle = i64::midpoint(low, high);
            if is_used(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Derives the end in the log from the last unit that is no filler.
    fn settle_end(&self) {
        let last = self.last_record();
        self.tail.lock().end_physical = last.map_or(0, |(_, entry)| entry.end_offset());
    }

    /// The last unit that is no filler, and its queue offset.
    pub(crate) fn last_record(&self) -> Option<(i64, QueueEntry)> {
        let (first, end) = self.written();
        (first..end)
            .rev()
            .filter_map(|offset| Some((offset, self.unit(offset)?)))
            .find(|(_, entry)| !entry.is_filler())
    }

    /// Cuts the last record's unit off, and what follows it.
    pub(super) fn cut_last(&self) -> Result<(), StoreError> {
        let Some((last, _)) = self.last_record() else {
            return Ok(());
        };
        self.clear_from(last)?;
        self.set_bounds(self.written().0, last);
        self.settle_end();
        self.settle_ext()
    }

    /// Cuts off the units of records at or beyond `log_end`, which no longer exist.
    pub fn truncate(&self, log_end: i64) -> Result<(), StoreError> {
        if self.end_physical() <= log_end {
            return Ok(());
        }
        self.write_pending()?;
        let (first, end) = self.written();
        let mut cut = end;
        for offset in (first..end).rev() {
            match self.unit(offset) {
                Some(entry) if entry.is_filler() => {}
                Some(entry) if entry.is_used() && entry.end_offset() <= log_end => break,
                _ => cut = offset,
            }
        }
        self.clear_from(cut)?;
        self.set_bounds(first, cut);
        self.settle_end();
        self.settle_ext()
    }

    /// Makes holes of units whose records healing took away, and gives a record that it made
    /// longer its length.
    pub(super) fn mend(&self, change: &Change) -> Result<(), StoreError> {
        self.write_pending()?;
        let (_, end) = self.written();
        let grown = change.grown.map_or(change.from, |(start, _)| start);
        let mut at = self.first_at(grown.min(change.from).cast_signed());
        let mut gone = Vec::new();
        while let Some(entry) = self.unit(at).filter(|_| at < end) {
            let start = entry.physical_offset.cast_unsigned();
            if !entry.is_filler() && start >= change.to {
                break;
            }
            match change.grown {
                _ if entry.is_filler() => {}
                Some((grown, size)) if grown == start => {
                    let size_bytes = i32::try_from(size).unwrap_or(entry.size_bytes);
                    self.overwrite(
                        at,
                        &QueueEntry {
                            size_bytes,
                            ..entry
                        },
                    )?;
                }
                _ if start >= change.from => gone.push(at),
                _ => {}
            }
            at += 1;
        }
        let Some((first, last)) = gone.first().zip(gone.last()) else {
            return Ok(());
        };
        let hole = self.hole_at(*first, *last);
        gone.iter().try_for_each(|at| self.overwrite(*at, &hole))
    }

    /// What stands for units without a record: it points to the record behind them, or before
    /// them if they are the last (see [`QueueEntry::hole_before`]). For a delayed message it must
    /// not point to any, since RocketMQ would deliver that.
    fn hole_at(&self, first: i64, last: i64) -> QueueEntry {
        let (start, end) = self.written();
        let is_record = |entry: &QueueEntry| entry.is_used() && !entry.is_filler();
        let behind = (last + 1..end).find_map(|at| self.unit(at).filter(is_record));
        let before = || {
            (start..first)
                .rev()
                .find_map(|at| self.unit(at).filter(is_record))
        };
        let neighbour = behind.or_else(before);
        let neighbour = neighbour.filter(|_| self.topic() != SCHEDULE_TOPIC);
        neighbour.map_or(QueueEntry::FILLER, |entry| entry.hole_before())
    }

    /// Adds holes up to a queue offset, so that none before it is used again.
    pub fn pad_to(&self, end: i64) -> Result<(), StoreError> {
        self.write_pending()?;
        if !self.tail.lock().has_files {
            let first = (end - 1) - (end - 1) % self.units_per_file();
            self.set_bounds(first, first);
        }
        let (first, from) = self.written();
        let hole = self.hole_at(from, from);
        for at in from..end {
            self.overwrite(at, &hole)?;
        }
        if from < end {
            self.set_bounds(first, end);
        }
        Ok(())
    }

    fn overwrite(&self, at: i64, entry: &QueueEntry) -> Result<(), StoreError> {
        let position = at.cast_unsigned() * ENTRY_BYTES as u64;
        let mut dirty = self.writing.lock();
        self.files.write(position, &entry.encode(), &mut dirty)
    }

    /// Zeroes the units from `offset` on and removes the files behind.
    fn clear_from(&self, offset: i64) -> Result<(), StoreError> {
        let position = offset.cast_unsigned() * ENTRY_BYTES as u64;
        self.files.clear_from(position, &mut self.writing.lock())
    }
}
