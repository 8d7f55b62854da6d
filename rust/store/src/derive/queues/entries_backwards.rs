//! Reads the entries of a consume queue from the last to the first.

use super::queue::{ConsumeQueue, SCAN_BYTES};
use crate::types::ReadMode;
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};

/// Growth factor of each read; mostly the caller needs only the last entry.
const GROWTH: usize = 16;

/// Iterates backwards over the entries; None for an entry that cannot be read.
pub(crate) struct EntriesBackwards<'a> {
    queue: &'a ConsumeQueue,
    first: i64,
    /// One past the next unit.
    end: i64,
    /// Entries before `end` that were read already.
    read: Vec<QueueEntry>,
    next_bytes: usize,
}

impl ConsumeQueue {
    /// All entries with their queue offsets, from the last to the first.
    pub(crate) fn entries_backwards(&self) -> EntriesBackwards<'_> {
        let (first, end) = self.written();
        EntriesBackwards {
            queue: self,
            first,
            end,
            read: Vec::new(),
            next_bytes: ENTRY_BYTES,
        }
    }
}

impl Iterator for EntriesBackwards<'_> {
    type Item = (i64, Option<QueueEntry>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.end <= self.first {
            return None;
        }
        if self.read.is_empty() {
            self.read_more();
        }
        self.end -= 1;
        Some((self.end, self.read.pop()))
    }
}

impl EntriesBackwards<'_> {
    /// Reads the entries before `end` that are in one file; reads none if that fails.
    fn read_more(&mut self) {
        let last = self.end - 1;
        let file_start = last - last % self.queue.entries_per_file();
        let wanted = (self.next_bytes / ENTRY_BYTES) as i64;
        let from = (self.end - wanted).max(file_start).max(self.first);
        let count = usize::try_from(self.end - from).unwrap_or(0);
        let mut bytes = Vec::with_capacity(count * ENTRY_BYTES);
        let mode = ReadMode::Wait;
        let read = self.queue.read(from, count * ENTRY_BYTES, mode, &mut bytes);
        if read == Ok(true) && bytes.len() == count * ENTRY_BYTES {
            self.read.extend(QueueEntry::decode_all(&bytes));
        }
        self.next_bytes = (self.next_bytes * GROWTH).min(SCAN_BYTES);
    }
}
