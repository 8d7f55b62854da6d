//! The disk seam: every byte of the log passes one of these methods.
//!
//! Static dispatch: [`crate::FileDisk`] is the real one; memory, recording and faulting
//! disks are for tests.

use std::io;

use super::warm::{self, WarmPace};

/// One file of fixed length. Offsets are bytes from its start.
pub trait Disk: Send + Sync + 'static {
    /// Reads into `out`, as many bytes as there are; waits for the disk.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;

    /// Reads what is in memory; None if the disk would have to be waited for. May read less than
    /// asked for.
    fn read_at_nowait(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<usize>>;

    /// Appends the pieces (offset, bytes), which ascend, to `out`; false, with `out` as it was, if
    /// the disk would have to be waited for, or ends before they do.
    fn copy_from_memory(&self, pieces: &[(u64, usize)], out: &mut Vec<u8>) -> io::Result<bool> {
        copy_by_reading(self, pieces, out)
    }

    /// Where a range of the file is in memory now; None where it may not be, or where copying
    /// costs less.
    ///
    /// The pointer is valid while this disk lives. It is no reference, because [`Disk::write_at`]
    /// may change the bytes: only a caller that knows that nobody writes there may read them.
    ///
    /// ```compile_fail,E0308
    /// use mq_log::{Disk, FileDisk};
    /// fn bytes(disk: &FileDisk) -> Option<&[u8]> {
    ///     disk.resident(0, 1)
    /// }
    /// ```
    fn resident(&self, _from: u64, _to: u64) -> Option<*const [u8]> {
        None
    }

    /// Whether the bytes that [`Disk::resident`] pointed to are the file's, as far as they were
    /// read.
    fn is_whole(&self) -> bool {
        true
    }

    /// Writes the slices one behind the other. Readers see the bytes at once; they are durable
    /// after [`Disk::sync`]. The caller has allocated the range.
    fn write_at(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()>;

    /// Reserves blocks, so that writing there cannot fail for lack of space. Repeating is harmless.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()>;

    /// Makes the first write to an allocated range fast. Nobody has written there, nor does before
    /// this returns: it may write zeros.
    fn warm(&self, from: u64, to: u64) -> io::Result<()>;

    /// How it is best warmed.
    fn warm_pace(&self) -> WarmPace {
        warm::DIRECT
    }

    /// Makes a range read as zeros; its blocks may be given back.
    fn zero(&self, from: u64, to: u64) -> io::Result<()>;

    /// Makes what was written to a range durable.
    fn sync(&self, from: u64, to: u64) -> io::Result<()>;

    /// Has the disk begin with a range that is written and not written again, so that a later
    /// [`Disk::sync`] waits less; only a hint. What fails of it, that sync tells.
    fn begin_sync(&self, _from: u64, _to: u64) {}

    /// First offset from `from` on that is not known to read as zeros; None for zeros to the end.
    fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        Ok(Some(from))
    }

    /// Says that a range is about to be read; only a hint.
    fn will_read(&self, _from: u64, _to: u64) {}

    /// Brings a range into memory and waits for it. What fails is told to who reads.
    fn bring(&self, from: u64, to: u64) {
        self.will_read(from, to);
    }

    /// Length of the file, allocated or not.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Whether a write failed for lack of space, which may be made.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// [`Disk::copy_from_memory`] with a read for each piece.
pub(super) fn copy_by_reading<D: Disk + ?Sized>(
    disk: &D,
    pieces: &[(u64, usize)],
    out: &mut Vec<u8>,
) -> io::Result<bool> {
    let start = out.len();
    for &(offset, bytes) in pieces {
        let mut filled = out.len();
        let end = filled + bytes;
        out.resize(end, 0);
        while filled < end {
            let at = offset + (bytes - (end - filled)) as u64;
            match disk.read_at_nowait(at, &mut out[filled..]) {
                Ok(Some(count)) if count > 0 => filled += count,
                other => {
                    out.truncate(start);
                    return other.map(|_| false);
                }
            }
        }
    }
    Ok(true)
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only; such a file costs no map.
    Read,
    /// Appending at the end of the log: what lies behind a write is free to be overwritten.
    Append,
    /// Overwriting bytes in place, their neighbours stay.
    Mend,
}

/// A file of a set: the offset its name states, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Offset of the file's first byte, bytes from the start of the log.
    pub start: u64,
    /// Length, bytes.
    pub length: u64,
}

/// Opens, creates and removes the files of a set, each named by the offset of its first byte.
pub trait Files: Send + Sync + 'static {
    /// What a file is.
    type Disk: Disk;

    /// Every file, lowest offset first.
    fn list(&self) -> io::Result<Vec<FileInfo>>;

    /// Opens an existing file.
    fn open(&self, start: u64, access: Access) -> io::Result<Self::Disk>;

    /// Makes a file of `length` zeros, not allocated, that is not yet seen under its name.
    fn prepare(&self, start: u64, length: u64) -> io::Result<Self::Disk>;

    /// Puts a prepared file under its name.
    fn publish(&self, start: u64, disk: &Self::Disk) -> io::Result<()>;

    /// Throws a prepared file away.
    fn discard(&self, start: u64) -> io::Result<()>;

    /// Removes a file; durable on return.
    fn remove(&self, start: u64) -> io::Result<()>;
}
