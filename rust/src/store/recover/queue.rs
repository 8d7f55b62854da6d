//! Loading one consume queue from its files, and cutting it back to the log.

use std::sync::atomic::Ordering;

use crate::format::consume_queue::{ENTRY_BYTES, QueueEntry};
use crate::log::Access;
use crate::log::fs;
use crate::store::consume_queue::{ConsumeQueue, WALK_BYTES};
use crate::store::files::{OffsetFile, io_error, offset_files};
use crate::store::types::{ReadMode, StoreError};

/// Files walked from the end after an unclean stop, as RocketMQ does.
const WALKED_FILES: usize = 3;

impl ConsumeQueue {
    /// Finds the end of the queue in its files. `sequential` walks the last files unit by unit
    /// and clears what lies behind the first unused unit, because after an unclean stop a hole
    /// may precede units that reached the disk.
    pub(in crate::store) fn load(&self, sequential: bool) -> Result<(), StoreError> {
        let files = self.checked_files()?;
        let Some(first) = files.first() else {
            return Ok(());
        };
        let unit_of = |position: u64| (position / ENTRY_BYTES as u64).cast_signed();
        let first_offset = unit_of(first.offset);
        let last = files.last().unwrap_or(first);
        self.set_bounds(first_offset, unit_of(last.offset + last.bytes));
        let end = if sequential {
            let from = files.len().saturating_sub(WALKED_FILES);
            self.walk_used(unit_of(files[from].offset))
        } else {
            self.search_end(first_offset, unit_of(last.offset))
        };
        self.set_bounds(first_offset, end);
        if sequential {
            self.clear_from(end)?;
        }
        self.settle_end();
        Ok(())
    }

    fn set_bounds(&self, first_offset: i64, end: i64) {
        let mut tail = self.tail.lock();
        tail.has_files = true;
        tail.first_offset = first_offset;
        tail.next_offset = end;
        self.min_offset.store(first_offset, Ordering::Release);
        self.max_offset.store(end, Ordering::Release);
    }

    /// The files, of the right length and without gaps that would shift units.
    fn checked_files(&self) -> Result<Vec<OffsetFile>, StoreError> {
        let mut files = offset_files(&self.directory)?;
        if let Some(stray) = files.pop_if(|last| last.bytes == 0) {
            tracing::warn!(path = %stray.path.display(), "empty last file");
            if self.files.access == Access::Append {
                fs::remove_file(&stray.path).map_err(io_error(&stray.path))?;
            }
        }
        let file_bytes = self.files.file_bytes;
        let wrong = files
            .iter()
            .find(|file| file.bytes != file_bytes || file.offset % file_bytes != 0);
        let Some(wrong) = wrong else {
            return Ok(files);
        };
        Err(StoreError::UnknownLayout {
            root: self.files.root.display().to_string(),
            what: format!(
                "{} has {} bytes where consume-queue files have {file_bytes}; \
                 set mappedFileSizeConsumeQueue to what they have, or move the file away",
                wrong.path.display(),
                wrong.bytes,
            ),
        })
    }

    /// First unused unit at or after `from`, reading units in order.
    fn walk_used(&self, from: i64) -> i64 {
        let mut offset = from;
        let mut bytes = Vec::with_capacity(WALK_BYTES);
        loop {
            bytes.clear();
            let read = self.read(offset, WALK_BYTES, ReadMode::Wait, &mut bytes);
            let used = QueueEntry::decode_all(&bytes)
                .take_while(QueueEntry::is_used)
                .count();
            offset += used as i64;
            if read != Ok(true) || used == 0 || used * ENTRY_BYTES < bytes.len() {
                return offset;
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
    pub(in crate::store) fn last_record(&self) -> Option<(i64, QueueEntry)> {
        let (first, end) = {
            let tail = self.tail.lock();
            (tail.first_offset, tail.next_offset)
        };
        (first..end)
            .rev()
            .filter_map(|offset| Some((offset, self.unit(offset)?)))
            .find(|(_, entry)| !entry.is_filler())
    }

    /// Cuts off the units of records at or beyond `log_end`, which no longer exist.
    pub(in crate::store) fn truncate(&self, log_end: i64) -> Result<(), StoreError> {
        if self.end_physical() <= log_end {
            return Ok(());
        }
        let (first, end) = {
            let tail = self.tail.lock();
            (tail.first_offset, tail.next_offset)
        };
        let mut cut = end;
        for offset in (first..end).rev() {
            match self.unit(offset) {
                Some(entry) if entry.is_filler() => {}
                Some(entry) if entry.end_offset() <= log_end => break,
                _ => cut = offset,
            }
        }
        self.clear_from(cut)?;
        self.set_bounds(first, cut);
        self.settle_end();
        Ok(())
    }

    /// Zeroes the units from `offset` on and removes the files behind.
    fn clear_from(&self, offset: i64) -> Result<(), StoreError> {
        let position = offset.cast_unsigned() * ENTRY_BYTES as u64;
        for file in offset_files(&self.directory)? {
            if file.offset + file.bytes <= position {
                continue;
            }
            if file.offset > position {
                self.files.open.forget(self.number, file.offset);
                fs::remove_file(&file.path).map_err(io_error(&file.path))?;
                continue;
            }
            let from = position - file.offset;
            let open = self.open(file.offset).map_err(io_error(&file.path))?;
            zero(&open, from, file.bytes - from).map_err(io_error(&file.path))?;
            self.tail.lock().dirty.insert(file.offset);
        }
        Ok(())
    }

    /// Sets the minimum to the first unit whose record is still in the log.
    pub(in crate::store) fn correct_min(&self, log_start: i64) {
        let (mut low, end) = {
            let tail = self.tail.lock();
            (tail.first_offset, tail.next_offset)
        };
        let mut high = end;
        while low < high {
            let middle = i64::midpoint(low, high);
            match self.first_record(middle, high) {
                Some((at, entry)) if entry.physical_offset < log_start => low = at + 1,
                _ => high = middle,
            }
        }
        let min = self.first_record(low, end).map_or(end, |(at, _)| at);
        self.min_offset.store(min, Ordering::Release);
    }

    /// The first unit in a range that is no filler.
    fn first_record(&self, from: i64, to: i64) -> Option<(i64, QueueEntry)> {
        (from..to)
            .filter_map(|offset| Some((offset, self.unit(offset)?)))
            .find(|(_, entry)| !entry.is_filler())
    }
}

/// Makes a range read as zeros, giving its blocks back where the file system can.
fn zero(file: &fs::File, from: u64, length: u64) -> std::io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    if file.punch_hole(from, from + length)? {
        return Ok(());
    }
    let zeros = [0; WALK_BYTES];
    let mut done = 0;
    while done < length {
        let count = (length - done).min(WALK_BYTES as u64);
        file.write_all_at(
            &zeros[..usize::try_from(count).unwrap_or(WALK_BYTES)],
            from + done,
        )?;
        done += count;
    }
    Ok(())
}
