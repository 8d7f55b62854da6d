//! Entries of a consume queue that are not in its file yet.
//!
//! Each look of the dispatcher finds messages of many queues. Their entries gather in memory, where
//! readers find them at once, and many are written together: when all queues together have
//! [`ALL_BYTES_MAX`] of them, and before each flush of the queues. The queues are flushed every
//! three seconds while more than 256 of them get messages. Otherwise they are flushed every second
//! and written every 200 ms. A queue that recovery could not rebuild exactly is written at once.
//!
//! A write may wait for the disk, and holds no lock meanwhile that a reader or an append needs. The
//! entries being written stay readable, and new ones gather after them.
//!
//! Tools that read the queue files see a message up to 3 s late; 200 ms while at most 256 queues
//! are active. Entries that are lost with the process are derived again from the log. After an
//! unclean stop nothing after the checkpoint is trusted, and the checkpoint never covers unflushed
//! entries.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{ConsumeQueue, Tail};
use super::queue_files::Dirty;
use crate::types::{ReadMode, StoreError, WouldBlock};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};

/// Most capacity that a queue keeps for the entries between two flushes.
pub(crate) const KEPT_BYTES_MAX: usize = 64 << 10;
/// If more bytes are pending in all queues, all are written.
pub(crate) const ALL_BYTES_MAX: i64 = 16 << 20;
/// Capacity that a queue always keeps; small, because a store has many.
const KEPT_BYTES: usize = 256;
/// A queue keeps this multiple of the bytes that it needed between two flushes. Less would be freed
/// and allocated again for each of them.
const KEPT_TIMES: usize = 4;

impl ConsumeQueue {
    /// Makes the appended entries visible to readers. Returns their bytes, and whether the caller
    /// must mark the queue for the next flush.
    pub(crate) fn publish(&self) -> Result<(i64, bool), StoreError> {
        if let Some(ext) = &self.ext {
            // Write the extension first, so that a reader of an entry finds its unit.
            ext.write()?;
        }
        if self.is_at_once {
            self.write_pending()?;
        }
        let mut tail = self.tail.lock();
        let seen_to = self.max_offset.load(Ordering::Relaxed);
        self.max_offset.store(tail.next_offset, Ordering::Release);
        let bytes = (tail.next_offset - seen_to) * ENTRY_BYTES as i64;
        let is_news = !std::mem::replace(&mut tail.is_noted, true);
        drop(tail);
        if self.deleted_to.load(Ordering::Relaxed) > 0 && self.min_offset() >= seen_to {
            // The messages may have been deleted before they were dispatched.
            self.set_min_from(0);
        }
        Ok((bytes, is_news))
    }

    /// Marks the queue for the next flush; false if it is marked already.
    pub(crate) fn note(&self) -> bool {
        !std::mem::replace(&mut self.tail.lock().is_noted, true)
    }

    /// Appends an entry.
    #[inline]
    pub(crate) fn push(tail: &mut Tail, entry: QueueEntry) {
        tail.pending.extend_from_slice(&entry.encode());
        tail.next_offset += 1;
    }

    /// Writes the pending entries. After a failure they stay pending and readable, and another try
    /// writes the same bytes.
    pub(crate) fn write_pending(&self) -> Result<(), StoreError> {
        self.write(&mut self.writing.lock())
    }

    /// Writes the pending entries and frees memory. Returns the files written since the last call.
    pub(crate) fn write_out(&self) -> Result<Dirty, StoreError> {
        let mut dirty = self.writing.lock();
        // Clear the mark first: a publish from now on marks the queue for the next flush.
        self.tail.lock().is_noted = false;
        self.write(&mut dirty)?;
        let mut tail = self.tail.lock();
        let needed = std::mem::take(&mut tail.gathered_bytes);
        let needed = needed.clamp(KEPT_BYTES, KEPT_BYTES_MAX);
        if tail.pending.capacity() > KEPT_TIMES * needed {
            tail.pending.shrink_to(needed);
        }
        Ok(std::mem::take(&mut *dirty))
    }

    /// Whether the queue keeps capacity that it frees if it gets no message until the next flush.
    pub(crate) fn keeps_room(&self) -> bool {
        self.tail.lock().pending.capacity() > KEPT_TIMES * KEPT_BYTES
    }

    /// Writes the rest of an earlier try, and then all pending entries. `writing` guards `dirty`.
    fn write(&self, dirty: &mut Dirty) -> Result<(), StoreError> {
        let is_left = self.tail.lock().in_flight.is_some();
        if is_left {
            self.write_once(dirty)?;
        }
        self.write_once(dirty)
    }

    fn write_once(&self, dirty: &mut Dirty) -> Result<(), StoreError> {
        let mut tail = self.tail.lock();
        let Some(bytes) = tail.begin_write() else {
            return Ok(());
        };
        let from = tail.unwritten_from();
        let end = from + (bytes.len() / ENTRY_BYTES) as i64;
        let is_stale = end <= tail.stale_to;
        drop(tail);
        let position = from.cast_unsigned() * ENTRY_BYTES as u64;
        if !is_stale || !self.holds(position, &bytes) {
            self.files.write(position, &bytes, dirty)?;
        }
        let mut tail = self.tail.lock();
        self.written_to.store(end, Ordering::Release);
        self.no_longer_pending(bytes.len());
        tail.finish_write(bytes);
        Ok(())
    }

    /// Overwrites an entry in the files.
    pub(crate) fn overwrite(&self, at: i64, entry: &QueueEntry) -> Result<(), StoreError> {
        let position = at.cast_unsigned() * ENTRY_BYTES as u64;
        let mut dirty = self.writing.lock();
        self.files.write(position, &entry.encode(), &mut dirty)
    }

    /// Whether the files already hold these entries durably.
    fn holds(&self, position: u64, bytes: &[u8]) -> bool {
        let durable_to = self.files.shared.durable_to.load(Ordering::Relaxed);
        let is_durable = |entry: QueueEntry| entry.end_offset() <= durable_to;
        let (mut position, mut rest) = (position, bytes);
        if !QueueEntry::decode_all(bytes).all(is_durable) {
            return false;
        }
        let mut found = Vec::new();
        while !rest.is_empty() {
            let file_end = self.files.start_of(position) + self.files.file_bytes;
            let room = usize::try_from(file_end - position).unwrap_or(usize::MAX);
            let (part, more) = rest.split_at(room.min(rest.len()));
            found.resize(part.len(), 0);
            let read = self.files.read(position, ReadMode::Wait, &mut found);
            if read.is_err() || found != part {
                return false;
            }
            position += part.len() as u64;
            rest = more;
        }
        true
    }

    fn no_longer_pending(&self, bytes: usize) {
        let pending = &self.files.shared.pending;
        pending.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// Drops pending entries of a queue that is being removed; the caller holds `writing`.
    pub(crate) fn forget_pending(&self) {
        let mut tail = self.tail.lock();
        let in_flight = tail.in_flight.take().map_or(0, |bytes| bytes.len());
        self.no_longer_pending(in_flight + tail.pending.len());
        tail.pending.clear();
    }

    /// Appends to `out` at most `max_bytes` of entries from `offset` on, from one file; false if
    /// the file is missing or cannot be read.
    pub fn read(
        &self,
        offset: i64,
        max_bytes: usize,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<bool, WouldBlock> {
        let end = self.max_offset().min(self.next_file_offset(offset));
        let entries = usize::try_from(end - offset).unwrap_or(0);
        let length = entries.min(max_bytes / ENTRY_BYTES) * ENTRY_BYTES;
        if length == 0 {
            return Ok(true); // a damaged header may ask for an offset far after the end
        }
        let from = out.len();
        out.resize(from + length, 0);
        let in_file = length - self.copy_pending(offset, &mut out[from..]);
        if in_file == 0 {
            return Ok(true);
        }
        let position = offset.cast_unsigned() * ENTRY_BYTES as u64;
        match self
            .files
            .read(position, mode, &mut out[from..from + in_file])
        {
            Ok(Some(count)) if count == in_file => Ok(true),
            // A non-blocking read ends where the page cache does, possibly within the first entry.
            Ok(Some(count)) if count >= ENTRY_BYTES => {
                out.truncate(from + count - count % ENTRY_BYTES);
                Ok(true)
            }
            Ok(_) => {
                out.truncate(from);
                Err(WouldBlock)
            }
            Err(error) => {
                out.truncate(from);
                tracing::warn!(topic = &*self.topic, queue_id = self.queue_id, offset, %error,
                    "cannot read a consume queue");
                Ok(false)
            }
        }
    }

    /// Fills the end of `out`, which is for the entries from `offset` on, with the pending ones.
    /// Returns their bytes; the other entries are in the files.
    fn copy_pending(&self, offset: i64, out: &mut [u8]) -> usize {
        let end = offset + (out.len() / ENTRY_BYTES) as i64;
        if end <= self.written_to.load(Ordering::Acquire) {
            return 0;
        }
        let tail = self.tail.lock();
        let unwritten_from = tail.unwritten_from();
        let first = unwritten_from.max(offset);
        let Ok(count) = usize::try_from(end - first) else {
            return 0; // written meanwhile
        };
        let bytes = count * ENTRY_BYTES;
        let start = out.len() - bytes;
        let mut skipped = usize::try_from(first - unwritten_from).unwrap_or(0) * ENTRY_BYTES;
        let mut rest = &mut out[start..];
        for part in [tail.in_flight(), &tail.pending] {
            let wanted = &part[skipped.min(part.len())..];
            let (filled, more) = rest.split_at_mut(wanted.len().min(rest.len()));
            filled.copy_from_slice(&wanted[..filled.len()]);
            skipped = skipped.saturating_sub(part.len());
            rest = more;
        }
        bytes
    }
}

impl Tail {
    /// Queue offset of the first entry that is in no file.
    fn unwritten_from(&self) -> i64 {
        let bytes = self.in_flight().len() + self.pending.len();
        self.next_offset - (bytes / ENTRY_BYTES) as i64
    }

    fn in_flight(&self) -> &[u8] {
        self.in_flight.as_ref().map_or(&[], |bytes| bytes)
    }

    /// The bytes to write next: the rest of an earlier try, or else all pending entries.
    fn begin_write(&mut self) -> Option<Arc<Vec<u8>>> {
        if self.in_flight.is_none() && !self.pending.is_empty() {
            self.gathered_bytes = self.gathered_bytes.max(self.pending.len());
            self.in_flight = Some(Arc::new(std::mem::take(&mut self.pending)));
        }
        self.in_flight.clone()
    }

    /// Notes that the bytes in flight were written; reuses their capacity.
    fn finish_write(&mut self, bytes: Arc<Vec<u8>>) {
        self.in_flight = None;
        if let Ok(mut room) = Arc::try_unwrap(bytes)
            && room.capacity() > self.pending.capacity()
        {
            room.clear();
            room.extend_from_slice(&self.pending);
            self.pending = room;
        }
    }
}
