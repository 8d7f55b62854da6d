//! Units of a consume queue that are not in its file yet.
//!
//! Each look of the dispatcher finds messages of many queues. Their units gather in memory, where
//! readers find them at once, and are written many at a time: when a queue has
//! [`QUEUE_BYTES_MAX`] of them or all queues together have [`ALL_BYTES_MAX`], and before each flush
//! of the queues. That is every three seconds while more than 256 queues get messages; else every
//! second, and they are written every 200 ms. A queue that could not be made again as it was is
//! written at once.
//!
//! So much later does whoever reads the files from outside see a message. What is lost with
//! the process comes again from the log: after an unclean stop nothing behind the checkpoint is
//! believed, and the checkpoint never covers what is not flushed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::consume_queue::{ConsumeQueue, Tail};
use super::sparse_files::Dirty;
use super::types::{ReadMode, StoreError, WouldBlock};
use crate::format::consume_queue::{ENTRY_BYTES, QueueEntry};
use crate::log::prefetch;

/// Units of one queue are written beyond this.
pub(super) const QUEUE_BYTES_MAX: usize = 64 << 10;
/// All pending units of a store are written beyond this.
pub(super) const ALL_BYTES_MAX: i64 = 16 << 20;
/// The counters in front of what an [`Arc`] holds.
const HANDLE_BYTES: usize = 2 * size_of::<usize>();
/// Room that a queue keeps in any case; a store has many.
const KEPT_BYTES: usize = 256;
/// And how many times as much as it needed between two flushes: given back, it would be taken anew
/// before each of them.
const KEPT_TIMES: usize = 4;

impl ConsumeQueue {
    /// Lets readers see the units appended so far; gives their bytes, and whether the next flush
    /// has to be told of this queue.
    pub(super) fn publish(&self) -> Result<(i64, bool), StoreError> {
        let mut tail = self.tail.lock();
        if let Some(ext) = &self.ext {
            // A reader who sees a unit finds what it points to.
            ext.write()?;
        }
        if self.is_at_once {
            self.write(&mut tail)?;
        }
        let seen_to = self.max_offset.load(Ordering::Relaxed);
        self.max_offset.store(tail.next_offset, Ordering::Release);
        let bytes = (tail.next_offset - seen_to) * ENTRY_BYTES as i64;
        let is_news = !std::mem::replace(&mut tail.is_noted, true);
        Ok((bytes, is_news))
    }

    /// Says that the next flush looks at this queue; false if it does anyhow.
    pub(super) fn note(&self) -> bool {
        !std::mem::replace(&mut self.tail.lock().is_noted, true)
    }

    /// Adds a unit at the end. On a full disk it waits with the others: who publishes or flushes
    /// is told of that, and can try again.
    #[inline]
    pub(super) fn push(&self, tail: &mut Tail, entry: QueueEntry) -> Result<(), StoreError> {
        tail.pending.extend_from_slice(&entry.encode());
        tail.next_offset += 1;
        if tail.pending.len() >= QUEUE_BYTES_MAX {
            return self.write_or_wait(tail);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn write_or_wait(&self, tail: &mut Tail) -> Result<(), StoreError> {
        if tail.pending.len() % QUEUE_BYTES_MAX >= ENTRY_BYTES {
            return Ok(()); // tried once for so many bytes, however many wait for room
        }
        match self.write(tail) {
            Err(StoreError::Full { .. }) => Ok(()),
            written => written,
        }
    }

    /// Has the processor fetch the counters of the handle, and what an append touches.
    pub(super) fn fetch(self: &Arc<Self>) {
        let start = Arc::as_ptr(self).cast::<u8>();
        for line in [0, 64, 128] {
            prefetch(start.wrapping_sub(HANDLE_BYTES), line);
        }
    }

    /// Has it fetch the place of the next unit, which may be in two lines, and the name.
    pub(super) fn fetch_end(&self) {
        prefetch(self.topic.as_ptr(), 0);
        let tail = self.tail.lock();
        let end = tail.pending.len();
        prefetch(tail.pending.as_ptr(), end);
        prefetch(tail.pending.as_ptr(), end + ENTRY_BYTES - 1);
    }

    /// Writes the pending units.
    pub(crate) fn write_pending(&self) -> Result<(), StoreError> {
        self.write(&mut self.tail.lock())
    }

    /// Writes the pending units, and gives back memory and what was written since the last call.
    pub(super) fn write_out(&self) -> Result<Dirty, StoreError> {
        let mut tail = self.tail.lock();
        self.write(&mut tail)?;
        let needed = std::mem::take(&mut tail.gathered_bytes);
        let needed = needed.clamp(KEPT_BYTES, QUEUE_BYTES_MAX);
        if tail.pending.capacity() > KEPT_TIMES * needed {
            tail.pending.shrink_to(needed);
        }
        tail.is_noted = false;
        Ok(std::mem::take(&mut tail.dirty))
    }

    /// Whether it keeps room that it gives back if nothing comes until the next flush.
    pub(super) fn keeps_room(&self) -> bool {
        self.tail.lock().pending.capacity() > KEPT_TIMES * KEPT_BYTES
    }

    /// On failure they stay pending, and readable; another try writes the same bytes.
    fn write(&self, tail: &mut Tail) -> Result<(), StoreError> {
        let bytes = tail.pending.len();
        if bytes == 0 {
            return Ok(());
        }
        tail.gathered_bytes = tail.gathered_bytes.max(bytes);
        let position = tail.pending_from().cast_unsigned() * ENTRY_BYTES as u64;
        self.files.write(position, &tail.pending, &mut tail.dirty)?;
        self.written_to.store(tail.next_offset, Ordering::Release);
        self.forget(tail);
        Ok(())
    }

    fn forget(&self, tail: &mut Tail) {
        let bytes = tail.pending.len() as i64;
        self.files
            .shared
            .pending
            .fetch_sub(bytes, Ordering::Relaxed);
        tail.pending.clear();
    }

    /// For a queue that is to be removed.
    pub(super) fn forget_pending(&self) {
        self.forget(&mut self.tail.lock());
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
        let length = units.min(max_bytes / ENTRY_BYTES) * ENTRY_BYTES;
        if length == 0 {
            return Ok(true); // a damaged header may ask for what is far behind the end
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
            // A read that may not wait ends where memory does, perhaps within the first unit.
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
                    "cannot read consume queue");
                Ok(false)
            }
        }
    }

    /// Fills the end of `out`, units from `offset` on, with those that are pending; tells how many
    /// bytes. The others are in the files.
    fn copy_pending(&self, offset: i64, out: &mut [u8]) -> usize {
        let end = offset + (out.len() / ENTRY_BYTES) as i64;
        if end <= self.written_to.load(Ordering::Acquire) {
            return 0;
        }
        let tail = self.tail.lock();
        let first = tail.pending_from().max(offset);
        let Ok(count) = usize::try_from(end - first) else {
            return 0; // written meanwhile
        };
        let bytes = count * ENTRY_BYTES;
        let skipped = usize::try_from(first - tail.pending_from()).unwrap_or(0) * ENTRY_BYTES;
        let start = out.len() - bytes;
        out[start..].copy_from_slice(&tail.pending[skipped..skipped + bytes]);
        bytes
    }
}

impl Tail {
    /// The first unit that is pending.
    fn pending_from(&self) -> i64 {
        self.next_offset - (self.pending.len() / ENTRY_BYTES) as i64
    }
}
