//! Units of a consume queue that are not in its file yet.
//!
//! Each look of the dispatcher finds messages of many queues. Their units gather in memory, where
//! readers find them at once, and are written many at a time: when all queues together have
//! [`ALL_BYTES_MAX`] of them, and before each flush of the queues. That is every three seconds
//! while more than 256 queues get messages; else every second, and they are written every 200 ms.
//! A queue that could not be made again as it was is written at once.
//!
//! A write may wait for the disk, and holds nothing meanwhile that a reader or an append needs: the
//! units in flight stay readable, and the next ones gather behind them.
//!
//! So much later does whoever reads the files from outside see a message. What is lost with
//! the process comes again from the log: after an unclean stop nothing behind the checkpoint is
//! believed, and the checkpoint never covers what is not flushed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{ConsumeQueue, Tail};
use super::sparse_files::Dirty;
use crate::types::{ReadMode, StoreError, WouldBlock};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};

/// Most room that a queue keeps for what gathers between two flushes.
pub(crate) const KEPT_BYTES_MAX: usize = 64 << 10;
/// All pending units of a store are written beyond this.
pub(crate) const ALL_BYTES_MAX: i64 = 16 << 20;
/// Room that a queue keeps in any case; a store has many.
const KEPT_BYTES: usize = 256;
/// And how many times as much as it needed between two flushes: given back, it would be taken anew
/// before each of them.
const KEPT_TIMES: usize = 4;

impl ConsumeQueue {
    /// Lets readers see the units appended so far; gives their bytes, and whether the next flush
    /// has to be told of this queue.
    pub(crate) fn publish(&self) -> Result<(i64, bool), StoreError> {
        if let Some(ext) = &self.ext {
            // A reader who sees a unit finds what it points to.
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

    /// Says that the next flush looks at this queue; false if it does anyhow.
    pub(crate) fn note(&self) -> bool {
        !std::mem::replace(&mut self.tail.lock().is_noted, true)
    }

    /// Adds a unit at the end.
    #[inline]
    pub(crate) fn push(tail: &mut Tail, entry: QueueEntry) {
        tail.pending.extend_from_slice(&entry.encode());
        tail.next_offset += 1;
    }

    /// Writes the pending units. On failure they stay pending, and readable; another try writes the
    /// same bytes.
    pub(crate) fn write_pending(&self) -> Result<(), StoreError> {
        self.write(&mut self.writing.lock())
    }

    /// Writes the pending units, and gives back memory and what was written since the last call.
    pub(crate) fn write_out(&self) -> Result<Dirty, StoreError> {
        let mut dirty = self.writing.lock();
        // First: whoever publishes from now on has the next flush look again.
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

    /// Whether it keeps room that it gives back if nothing comes until the next flush.
    pub(crate) fn keeps_room(&self) -> bool {
        self.tail.lock().pending.capacity() > KEPT_TIMES * KEPT_BYTES
    }

    /// What an earlier try left, and then the rest. `dirty` is what `writing` guards.
    fn write(&self, dirty: &mut Dirty) -> Result<(), StoreError> {
        let is_left = self.tail.lock().in_flight.is_some();
        if is_left {
            self.write_once(dirty)?;
        }
        self.write_once(dirty)
    }

    fn write_once(&self, dirty: &mut Dirty) -> Result<(), StoreError> {
        let mut tail = self.tail.lock();
        let Some(bytes) = tail.take_off() else {
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
        tail.land(bytes);
        Ok(())
    }

    /// Writes a unit again that the files hold otherwise.
    pub(crate) fn overwrite(&self, at: i64, entry: &QueueEntry) -> Result<(), StoreError> {
        let position = at.cast_unsigned() * ENTRY_BYTES as u64;
        let mut dirty = self.writing.lock();
        self.files.write(position, &entry.encode(), &mut dirty)
    }

    /// Whether the files hold these units already, durably.
    fn holds(&self, position: u64, bytes: &[u8]) -> bool {
        let durable_to = self.files.shared.durable_to.load(Ordering::Relaxed);
        let is_durable = |unit: QueueEntry| unit.end_offset() <= durable_to;
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

    /// For a queue that is to be removed, by who holds `writing`.
    pub(crate) fn forget_pending(&self) {
        let mut tail = self.tail.lock();
        let in_flight = tail.in_flight.take().map_or(0, |bytes| bytes.len());
        self.no_longer_pending(in_flight + tail.pending.len());
        tail.pending.clear();
    }

    /// Appends to `out` the units from `offset` on, at most `max_bytes` and within one file;
    /// returns false when the file is gone or cannot be read.
    pub fn read(
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
    /// The first unit that is in no file.
    fn unwritten_from(&self) -> i64 {
        let bytes = self.in_flight().len() + self.pending.len();
        self.next_offset - (bytes / ENTRY_BYTES) as i64
    }

    fn in_flight(&self) -> &[u8] {
        self.in_flight.as_ref().map_or(&[], |bytes| bytes)
    }

    /// What is to be written next: what an earlier try left, else all that is pending.
    fn take_off(&mut self) -> Option<Arc<Vec<u8>>> {
        if self.in_flight.is_none() && !self.pending.is_empty() {
            self.gathered_bytes = self.gathered_bytes.max(self.pending.len());
            self.in_flight = Some(Arc::new(std::mem::take(&mut self.pending)));
        }
        self.in_flight.clone()
    }

    /// What was in flight is written; its room is used again.
    fn land(&mut self, bytes: Arc<Vec<u8>>) {
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
