//! Loads a consume queue from its files, and truncates it to the log.

use std::sync::atomic::Ordering;

use crate::derive::queues::look::{LOOK_BYTES, Look, Rest};
use crate::derive::queues::queue::{ConsumeQueue, SCAN_BYTES};
use crate::files::{OffsetFile, offset_files};
use crate::scan::repair::Change;
use crate::types::{ReadMode, StoreError};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::consume_queue_ext;
use mq_format::message::SCHEDULE_TOPIC;
use mq_log::Access;
use mq_log::fs::{OpenOptions, open_own};

/// Files scanned from the end after an unclean stop, as in RocketMQ.
const SCANNED_FILES: usize = 3;
/// Most bytes read of a damaged file to find its last entry.
const USED_BYTES_MAX: usize = 64 << 20;

/// The result of loading a queue.
pub(crate) struct Loaded {
    /// False if entries that the checkpoint calls durable were lost, because their file or their
    /// unit in the extension is damaged.
    pub is_whole: bool,
    /// End of a damaged queue: one past its last entry, and the end of that entry's record in the
    /// log.
    pub before: Option<(i64, i64)>,
}

impl Loaded {
    fn of(is_whole: bool, before: Option<(i64, i64)>) -> Self {
        Self { is_whole, before }
    }
}

impl ConsumeQueue {
    /// Finds the end of the queue in its files. `sequential` scans the last files entry by entry,
    /// because after an unclean stop there may be a hole before entries that reached the disk.
    /// Bytes after the end stay in the files until [`Self::clear_stale`].
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
        let first_offset = queue_offset_at(first.offset);
        let end_of_files = queue_offset_at(last.offset + last.bytes);
        self.set_bounds(first_offset, end_of_files);
        // A file that another one follows is full.
        let is_full = |file: &OffsetFile| {
            let entry = self.stored_entry(queue_offset_at(file.offset + file.bytes) - 1);
            entry.is_some_and(|entry| entry.is_used())
        };
        let mut earlier = files[..files.len() - 1].iter().filter(|_| is_owner);
        let torn = earlier.position(|file| !is_full(file));
        if torn.is_some() && !is_cut && !is_ext_cut {
            look()?;
        }
        let last = torn.map_or(last, |torn| &files[torn]);
        let seen = self.look_at(last).filter(|_| torn.is_none());
        let mut is_whole = true;
        let walks = sequential || is_ext_cut || torn.is_some();
        if !walks {
            let end = self.search_end(first_offset, queue_offset_at(last.offset));
            self.set_bounds(first_offset, end);
            is_whole = !is_owner || self.has_whole_end();
        }
        if walks || !is_whole {
            self.set_bounds(first_offset, queue_offset_at(last.offset + last.bytes));
            let count = torn.map_or(files.len(), |torn| torn + 1);
            let walked = if is_ext_cut { count } else { SCANNED_FILES };
            let from = count.saturating_sub(walked);
            let (mut end, is_used) = self.scan_used(queue_offset_at(files[from].offset), ext_from);
            // The zeros may have begun within an entry.
            end -= i64::from(torn.is_some() && end > first_offset);
            let rest = self.rest_from(end, last, seen.as_ref())?;
            is_whole = !is_used && torn.is_none() && !rest.has_bytes;
            self.set_bounds(first_offset, end);
            if rest.has_bytes || rest.has_files {
                self.tail.lock().stale_to = end_of_files;
            }
        }
        self.keep_end(last, seen);
        self.reset_tail();
        if is_owner {
            self.truncate_ext()?;
        }
        Ok(Loaded::of(is_whole && !is_cut, before))
    }

    /// Reads the start of a file and keeps it in memory; None if it cannot be read.
    fn look_at(&self, file: &OffsetFile) -> Option<Look> {
        if self.files.shared.access != Access::Append {
            return None; // another process may be writing
        }
        let look = self.files.look(file.offset).ok()?;
        self.files.keep(file.offset, &look.bytes);
        Some(look)
    }

    /// Contents of the files after the end of the queue. `seen` is the known part of the last file.
    fn rest_from(
        &self,
        end: i64,
        last: &OffsetFile,
        seen: Option<&Look>,
    ) -> Result<Rest, StoreError> {
        let position = end.cast_unsigned() * ENTRY_BYTES as u64;
        let in_last = position.checked_sub(last.offset);
        let in_last = in_last.and_then(|at| usize::try_from(at).ok());
        let unused = seen
            .zip(in_last)
            .and_then(|(look, at)| look.bytes.get(at..));
        if seen.is_some_and(|look| look.is_rest_zero)
            && unused.is_some_and(|unused| unused.iter().all(|byte| *byte == 0))
        {
            return Ok(Rest::default());
        }
        self.files.rest(position)
    }

    /// Keeps the last entries in memory until the start is over, without unused ones.
    fn keep_end(&self, last: &OffsetFile, seen: Option<Look>) {
        let (first, end) = self.written();
        let first = first.max(queue_offset_at(last.offset));
        let from = first.max(end - (LOOK_BYTES / ENTRY_BYTES) as i64);
        let used = usize::try_from(end - first).unwrap_or(0) * ENTRY_BYTES;
        match seen.as_ref().and_then(|look| look.bytes.get(..used)) {
            Some(used) => self.files.keep(last.offset, used),
            None if seen.is_some() => {
                let mut bytes = Vec::new();
                let read = self.read(from, LOOK_BYTES, ReadMode::Wait, &mut bytes);
                let position = from.cast_unsigned() * ENTRY_BYTES as u64;
                if read == Ok(true) {
                    self.files.keep(position, &bytes);
                }
            }
            None => {}
        }
    }

    /// One past the last used entry in files of any length, and the end of the last record that an
    /// entry points to; None without an entry.
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
            let entries: Vec<_> = QueueEntry::decode_all(&bytes[..whole]).collect();
            for (at, entry) in entries
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, entry)| entry.is_used())
            {
                let end = *end.get_or_insert(first + at as i64 + 1);
                if !entry.is_hole() {
                    return Ok(Some((end, entry.end_offset())));
                }
            }
        }
        Ok(end.map(|end| (end, 0)))
    }

    /// Whether the last entry finds its unit in the extension.
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

    /// The first entry from `from` on that is unused, or whose unit in the extension is missing;
    /// true in the second case. Units before `ext_from` have expired.
    fn scan_used(&self, from: i64, ext_from: u64) -> (i64, bool) {
        let mut offset = from;
        let mut bytes = Vec::new();
        let mut ext = self.tags_codes(ReadMode::Wait);
        let mut wanted = LOOK_BYTES;
        loop {
            bytes.clear();
            let read = self.read(offset, wanted, ReadMode::Wait, &mut bytes);
            wanted = SCAN_BYTES;
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

    /// The first unused entry of a queue that was closed cleanly. Such a queue has no unused
    /// entries before its end, and its last file may be completely unused.
    fn search_end(&self, first_offset: i64, last_file: i64) -> i64 {
        let is_used = |offset| {
            self.stored_entry(offset)
                .is_some_and(|entry| entry.is_used())
        };
        let mut low = last_file;
        while low > first_offset && !is_used(low) {
            low -= self.entries_per_file();
        }
        let mut high = low + self.entries_per_file();
        // In a store with many queues most are short, so one read is enough.
        let mut head = Vec::new();
        let _ = self.read(low, LOOK_BYTES, ReadMode::Wait, &mut head);
        let used = QueueEntry::decode_all(&head).take_while(QueueEntry::is_used);
        low += used.count() as i64;
        if low - (high - self.entries_per_file()) < (head.len() / ENTRY_BYTES) as i64 {
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

    /// Takes the end in the log from the last entry that is no hole.
    fn reset_tail(&self) {
        let last = self.last_record();
        self.tail.lock().end_physical = last.map_or(0, |(_, entry)| entry.end_offset());
    }

    /// Whether the queue never had an entry, or has none left.
    pub(super) fn is_without_entries(&self) -> bool {
        self.max_offset() == 0
    }

    /// The last entry that is no hole, and its queue offset.
    pub(crate) fn last_record(&self) -> Option<(i64, QueueEntry)> {
        let mut entries = self.entries_backwards();
        entries.find_map(|(offset, entry)| Some((offset, entry.filter(|entry| !entry.is_hole())?)))
    }

    /// Ends the queue before `end`. The later entries stay in the files until
    /// [`Self::clear_stale`], so that entries that are derived again unchanged need no write.
    pub(super) fn cut_to(&self, end: i64) -> Result<(), StoreError> {
        self.write_pending()?;
        let (first, before) = self.written();
        self.set_bounds(first, end);
        {
            let mut tail = self.tail.lock();
            tail.stale_to = tail.stale_to.max(before);
        }
        self.reset_tail();
        self.truncate_ext()
    }

    /// Zeroes entries that were cut off and not derived again; true if there were any.
    pub fn clear_stale(&self) -> Result<bool, StoreError> {
        let (end, stale_to) = {
            let mut tail = self.tail.lock();
            (tail.next_offset, std::mem::take(&mut tail.stale_to))
        };
        let is_left = end < stale_to;
        if is_left {
            self.clear_from(end)?;
        }
        Ok(is_left)
    }

    /// Cuts off the entries of records at or after `log_end`, which no longer exist.
    pub fn truncate(&self, log_end: i64) -> Result<(), StoreError> {
        if self.end_physical() <= log_end {
            return Ok(());
        }
        let mut cut = self.max_offset();
        for (offset, entry) in self.entries_backwards() {
            match entry {
                Some(entry) if entry.is_hole() => {}
                Some(entry) if entry.is_used() && entry.end_offset() <= log_end => break,
                _ => cut = offset,
            }
        }
        self.cut_to(cut)
    }

    /// Replaces the entries that point to records that a repair removed by holes, and updates the
    /// length of a record that it extended. Returns the first and the last queue offset with such a
    /// hole.
    pub(super) fn repair(&self, change: &Change) -> Result<Option<(i64, i64)>, StoreError> {
        self.write_pending()?;
        let (_, end) = self.written();
        let grown = change.grown.map_or(change.from, |(start, _)| start);
        let mut at = self.first_at(grown.min(change.from).cast_signed());
        let mut gone = Vec::new();
        while let Some(entry) = self.stored_entry(at).filter(|_| at < end) {
            let start = entry.physical_offset.cast_unsigned();
            if !entry.is_hole() && start >= change.to {
                break;
            }
            match change.grown {
                _ if entry.is_hole() => {}
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
        let Some((&first, &last)) = gone.first().zip(gone.last()) else {
            return Ok(None);
        };
        let hole = self.hole_at(first, last);
        gone.iter().try_for_each(|at| self.overwrite(*at, &hole))?;
        Ok(Some((first, last)))
    }

    /// The entry for queue offsets without a record. It points to the next record, or to the
    /// previous one if there is none (see [`QueueEntry::hole_before`]). For delayed messages it
    /// must not point to any, because RocketMQ would deliver that message.
    fn hole_at(&self, first: i64, last: i64) -> QueueEntry {
        let (_, end) = self.written();
        let is_record = |entry: &QueueEntry| entry.is_used() && !entry.is_hole();
        let behind = (last + 1..end).find_map(|at| self.stored_entry(at).filter(is_record));
        let before = || {
            let entries = self.entries_backwards().filter(|(at, _)| *at < first);
            { entries }.find_map(|(_, entry)| entry.filter(is_record))
        };
        let neighbour = behind.or_else(before);
        let neighbour = neighbour.filter(|_| self.topic() != SCHEDULE_TOPIC);
        neighbour.map_or(QueueEntry::HOLE, |entry| entry.hole_before())
    }

    /// Adds holes up to a queue offset, so that no earlier offset is used again.
    pub fn pad_to(&self, end: i64) -> Result<(), StoreError> {
        self.write_pending()?;
        if !self.tail.lock().has_files {
            let first = (end - 1) - (end - 1) % self.entries_per_file();
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

    /// Zeroes the entries from `offset` on, and removes later files.
    fn clear_from(&self, offset: i64) -> Result<(), StoreError> {
        let position = offset.cast_unsigned() * ENTRY_BYTES as u64;
        self.files.clear_from(position, &mut self.writing.lock())
    }
}

/// The queue offset of the entry at a position in the files.
fn queue_offset_at(position: u64) -> i64 {
    (position / ENTRY_BYTES as u64).cast_signed()
}
