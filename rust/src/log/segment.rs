//! One file of the log and how far its blocks are allocated.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::disk::Disk;

/// A file that holds the bytes `[start, start + length)` of the log. Methods take log offsets.
#[derive(Debug)]
pub struct Segment<D> {
    start: u64,
    length: u64,
    disk: D,
    is_writable: bool,
    /// Log offset up to which writing cannot fail for lack of space.
    allocated: AtomicU64,
    growing: Mutex<()>,
}

impl<D: Disk> Segment<D> {
    /// A segment over an opened file, of which nothing is known to be allocated.
    pub fn new(start: u64, length: u64, disk: D, is_writable: bool) -> Self {
        let allocated = AtomicU64::new(start);
        Self {
            start,
            length,
            disk,
            is_writable,
            allocated,
            growing: Mutex::new(()),
        }
    }

    /// Log offset of the first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Log offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.length
    }

    /// The file.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Whether the file was opened for appending.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Log offset up to which blocks are allocated.
    pub fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Acquire)
    }

    /// Allocates blocks up to a log offset within the file.
    pub fn allocate_to(&self, to: u64) -> io::Result<()> {
        let _one_at_a_time = self.growing.lock();
        let from = self.allocated();
        if from < to {
            self.disk.allocate(from - self.start, to - self.start)?;
            self.allocated.store(to, Ordering::Release);
        }
        Ok(())
    }

    /// Says that nothing below `offset` needs allocating: it is written already.
    pub fn assume_allocated_to(&self, offset: u64) {
        self.allocated.store(offset, Ordering::Release);
    }
}
