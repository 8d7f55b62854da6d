//! One file of the log, and how far it is prepared for writing.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::PAGE_BYTES;
use super::file_disk::FileDisk;

/// Bytes that the writer grants itself at a time when it overtakes the allocation thread.
const GRANT_BYTES: u64 = 64 << 10;

/// A file that holds the bytes `[start, start + length)` of the log. Methods take log offsets.
#[derive(Debug)]
pub struct Segment {
    start: u64,
    length: u64,
    disk: FileDisk,
    is_writable: bool,
    /// Log offset up to which the writer may write: blocks are reserved, and no other thread writes
    /// there.
    ready: AtomicU64,
    /// Held while `ready` moves, so that the writer does not write where the thread warms pages.
    /// Not held while blocks are reserved ahead: the writer does not write there, and a slow disk
    /// may need long.
    moving: Mutex<()>,
    /// Log offset up to which blocks are reserved.
    reserved: AtomicU64,
    /// Held while `reserved` moves: reserving may write zeros.
    reserving: Mutex<()>,
}

impl Segment {
    /// A segment over an opened file. Nothing of it is ready yet.
    pub fn new(start: u64, length: u64, disk: FileDisk, is_writable: bool) -> Self {
        Self {
            start,
            length,
            disk,
            is_writable,
            ready: AtomicU64::new(start),
            moving: Mutex::new(()),
            reserved: AtomicU64::new(start),
            reserving: Mutex::new(()),
        }
    }

    /// Log offset of the first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Log offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.length
    }

    /// The file, and the range in it that lies within `[from, to)`; None if no byte does.
    pub fn part(&self, from: u64, to: u64) -> Option<(&FileDisk, u64, u64)> {
        let (from, to) = (from.max(self.start), to.min(self.end()));
        (from < to).then(|| (&self.disk, from - self.start, to - self.start))
    }

    /// Length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The file.
    pub fn disk(&self) -> &FileDisk {
        &self.disk
    }

    /// Whether the file was opened for appending.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Log offset up to which the writer may write.
    pub fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// Log offset up to which blocks are reserved.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Reserves blocks up to a log offset within the file.
    pub fn reserve_to(&self, to: u64) -> io::Result<()> {
        let to = self.whole_pages(to);
        let _reserving = self.reserving.lock();
        let reserved = self.reserved();
        if reserved < to {
            self.disk.allocate(reserved - self.start, to - self.start)?;
            self.reserved.store(to, Ordering::Release);
        }
        Ok(())
    }

    /// Allows the writer to write up to `to` at once, on blocks that are not warm. False while
    /// another thread waits for the disk to warm pages or reserve blocks.
    pub fn try_grant_to(&self, to: u64) -> io::Result<bool> {
        let Some(_moving) = self.moving.try_lock() else {
            return Ok(false);
        };
        if to > self.ready() {
            let granted = self.whole_pages(to + GRANT_BYTES);
            if granted > self.reserved() {
                if self.reserving.is_locked() {
                    return Ok(false);
                }
                self.reserve_to(granted)?;
            }
            self.ready.store(granted, Ordering::Release);
        }
        Ok(true)
    }

    /// Keeps `ready` unchanged, as the allocation thread does while it warms pages.
    #[cfg(test)]
    pub(super) fn hold_still(&self) -> parking_lot::MutexGuard<'_, ()> {
        self.moving.lock()
    }

    /// Warms at most `bytes` after the ready part, as far as blocks are reserved, and allows the
    /// writer to write there; false if there is nothing to do.
    pub fn warm(&self, bytes: u64) -> io::Result<bool> {
        // Excludes the writer: warming may overwrite bytes.
        let _moving = self.moving.lock();
        let from = self.ready();
        let to = self.whole_pages(from + bytes).min(self.reserved());
        if from >= to {
            return Ok(false);
        }
        self.disk.warm(from - self.start, to - self.start)?;
        self.ready.store(to, Ordering::Release);
        Ok(true)
    }

    /// Records that everything below `offset` is written already.
    pub fn assume_written_to(&self, offset: u64) {
        self.reserved.store(offset, Ordering::Release);
        self.ready.store(offset, Ordering::Release);
    }

    /// Rounds `offset` up to a whole page of the file: an append may fill its last page with zeros,
    /// so a page is always ready as a whole.
    fn whole_pages(&self, offset: u64) -> u64 {
        let in_file = (offset - self.start).next_multiple_of(PAGE_BYTES);
        self.start + in_file.min(self.length)
    }
}
