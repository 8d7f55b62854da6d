//! A file on disk. Appends use a map or `pwrite`; reads use `pread` or a map whose pages are
//! resident.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use libc::O_DIRECT;
use memmap2::{Advice, MmapOptions, MmapRaw};

use super::PAGE_BYTES;
use super::fs::{File, OpenOptions, open_own};
use super::io_hooks::Operation;
use super::resident::{self, copy_from_map, is_resident, prefetch_append};
use super::sigbus_guard::GuardedMmap;
use super::warm::{self, WarmPace, ZEROS, write_zeros};

/// A longer append is not copied into one buffer; each slice is its own `pwrite`.
const ONE_CALL_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// Buffer for one append and the zeros that fill its last page.
    static APPEND: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How bytes are written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Copy into a map: the cheapest append; a flush thread makes it durable.
    Map,
    /// `pwrite` and `fdatasync`: the cheapest small flush. A store through a map makes a whole
    /// folio (up to 1 MiB) dirty for one byte; `pwrite` only the blocks that it touches. Blocks
    /// ahead of the writer are overwritten with zeros by direct writes. Without them, an fdatasync
    /// over blocks that were only reserved also writes the inode, because their extents change to
    /// written ones (measured on ext4: 60 % more flushes a second with zeros, for writing each byte
    /// twice).
    Write,
}

/// A file of the log.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    map: Option<GuardedMmap<MmapRaw>>,
    /// Map for reading bytes that are in memory; None inside if the file cannot be mapped.
    read_map: OnceLock<Option<GuardedMmap<MmapRaw>>>,
    /// The same file opened with O_DIRECT, to write zeros ahead of the writer in
    /// [`WriteMode::Write`].
    direct: Option<File>,
    /// Length of the file in bytes when it was opened for appending.
    appended_length: Option<u64>,
    /// Directory of the file. The first sync of a new file also syncs its directory.
    directory: Arc<File>,
    name_is_durable: AtomicBool,
}

impl FileDisk {
    /// Wraps a file for reading, or for overwriting if it was opened for writing.
    pub(super) fn plain(file: File, directory: Arc<File>) -> Self {
        Self {
            file,
            map: None,
            read_map: OnceLock::new(),
            direct: None,
            appended_length: None,
            directory,
            name_is_durable: AtomicBool::new(true),
        }
    }

    /// Wraps the file at `path` for appending; `is_new` if its name is not yet durable in
    /// `directory`.
    pub(super) fn for_appending(
        file: File,
        path: &Path,
        directory: Arc<File>,
        mode: WriteMode,
        is_new: bool,
    ) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut disk = Self::plain(file, directory);
        disk.name_is_durable = AtomicBool::new(!is_new);
        disk.appended_length = Some(length);
        match mode {
            WriteMode::Map => {
                let length = usize::try_from(length).map_err(io::Error::other)?;
                let map = MmapOptions::new().len(length).map_raw(&disk.file)?;
                // See `warm::warm_map`. If the system refuses the advice, accesses are only slower.
                let _ = map.advise(Advice::Random);
                disk.map = Some(map.into());
            }
            WriteMode::Write => {
                let mut options = OpenOptions::new();
                options.write(true).custom_flags(O_DIRECT);
                // A file system without direct writes works without the zeros.
                disk.direct = open_own(path, &mut options).ok();
            }
        }
        Ok(disk)
    }

    /// Writes the slices. If they are the first bytes in their last page, the rest of that page is
    /// filled with zeros: a write to a part of a page that is not in memory would wait until the
    /// disk has read the page. A short append is one `pwrite`, because a system call costs more
    /// than the copy.
    fn append(&self, start: u64, slices: &[&[u8]], length: u64) -> io::Result<()> {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let end = start + total as u64;
        let page = end - end % PAGE_BYTES;
        let is_first = page >= start && page < end;
        if is_first && total <= ONE_CALL_BYTES_MAX {
            let zeros = PAGE_BYTES.min(length - page) - (end - page);
            return APPEND.with_borrow_mut(|bytes| {
                bytes.clear();
                slices
                    .iter()
                    .for_each(|slice| bytes.extend_from_slice(slice));
                bytes.extend_from_slice(&ZEROS.0[..zeros as usize]);
                self.file.write_all_at(bytes, start)
            });
        }
        if is_first {
            let count = PAGE_BYTES.min(length - page);
            self.file.write_all_at(&ZEROS.0[..count as usize], page)?;
        }
        self.write_slices(start, slices)
    }

    fn write_slices(&self, start: u64, slices: &[&[u8]]) -> io::Result<()> {
        let mut at = start;
        for slice in slices {
            self.file.write_all_at(slice, at)?;
            at += slice.len() as u64;
        }
        Ok(())
    }

    /// Copies into the map. Concurrent calls must not overlap: the log has one writer.
    fn copy_into_map(map: &GuardedMmap<MmapRaw>, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        if start.checked_add(total).is_none_or(|end| end > map.len()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "write beyond the file's end",
            ));
        }
        let mut at = start;
        for slice in slices {
            // SAFETY: the range was checked against the map's length above, and the map is raw, so
            // no reference to it exists. A page that cannot be had, because the file was truncated,
            // the disk fails or has no room (blocks are allocated, but some file systems copy on
            // write), raises SIGBUS: the guard puts a page of zeros there, and the check below
            // reports it.
            unsafe {
                let target = map.as_mut_ptr().add(at);
                std::ptr::copy_nonoverlapping(slice.as_ptr(), target, slice.len());
            }
            at += slice.len();
        }
        prefetch_append(map, at, total);
        map.check()
    }

    /// The map for reading. It is made by the first read, so a file that is never read has none.
    /// None after a page of it was lost: the rest of the file is then read without the map.
    fn readable_map(&self) -> Option<&GuardedMmap<MmapRaw>> {
        let open = || {
            let map = MmapOptions::new().map_raw_read_only(&self.file);
            map.ok().map(GuardedMmap::from)
        };
        let of_readers = || self.read_map.get_or_init(open).as_ref();
        let map = self.map.as_ref().or_else(of_readers);
        map.filter(|map| map.is_whole())
    }

    /// Returns an error if a file that is appended to is shorter than when it was opened. This also
    /// finds a truncation that a later write hid by making the file longer again.
    fn check_length(&self) -> io::Result<()> {
        let Some(expected) = self.appended_length else {
            return Ok(());
        };
        match self.file.length()? {
            length if length >= expected => Ok(()),
            length => {
                let what = format!("the file was truncated from {expected} to {length} bytes");
                Err(io::Error::other(what))
            }
        }
    }

    /// Reads into `out` until it is full or the file ends; waits for the disk.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            match self
                .file
                .read_at(&mut out[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Reads bytes that are in memory; None if the read would wait for the disk. May read fewer
    /// bytes than `out` holds.
    pub fn read_at_nowait(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<usize>> {
        self.file.read_at_nowait(out, offset)
    }

    /// Appends the pieces (offset, bytes) to `out`; the pieces ascend. False, with `out` unchanged,
    /// if the read would wait for the disk or the file ends before the pieces do.
    ///
    /// A copy from the map costs a third of a read. It is done only if all pages are in memory just
    /// before. If the system evicts one of them in between, the copy reads that page again from the
    /// disk and waits for it. A page that is lost (a truncated file, a failing disk) reads as
    /// zeros; then the file is read instead, which returns an error or the bytes that are still
    /// there.
    pub fn copy_from_memory(&self, pieces: &[(u64, usize)], out: &mut Vec<u8>) -> io::Result<bool> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Ok(true);
        };
        let Some(map) = self.readable_map() else {
            return self.copy_by_reading(pieces, out);
        };
        let (from, to) = (first.0, last.0 + last.1 as u64);
        self.file.doing(&Operation::Read(from, to), || {
            if !is_resident(map, from, to) {
                return Ok(false);
            }
            let start = out.len();
            out.reserve(pieces.iter().map(|(_, bytes)| bytes).sum());
            for &(at, bytes) in pieces {
                copy_from_map(map, at as usize, bytes, out);
            }
            if map.is_whole() {
                return Ok(true);
            }
            out.truncate(start);
            self.copy_by_reading(pieces, out)
        })
    }

    /// Does the work of [`FileDisk::copy_from_memory`] with one read for each piece.
    fn copy_by_reading(&self, pieces: &[(u64, usize)], out: &mut Vec<u8>) -> io::Result<bool> {
        let start = out.len();
        for &(offset, bytes) in pieces {
            let mut filled = out.len();
            let end = filled + bytes;
            out.resize(end, 0);
            while filled < end {
                let at = offset + (bytes - (end - filled)) as u64;
                match self.read_at_nowait(at, &mut out[filled..]) {
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

    /// Returns the address of a range that is in memory now. None if the range may not be in
    /// memory, and for a file that is appended to by `pwrite`: there each page would be a fault, so
    /// a copy is cheaper.
    ///
    /// The pointer is valid while this file is open. It is not a reference, because
    /// [`FileDisk::write_at`] may change the bytes: a caller may read them only if it knows that no
    /// thread writes there.
    ///
    /// ```compile_fail,E0308
    /// fn bytes(disk: &mq_log::FileDisk) -> Option<&[u8]> {
    ///     disk.resident(0, 1)
    /// }
    /// ```
    pub fn resident(&self, from: u64, to: u64) -> Option<*const [u8]> {
        let is_appended_by_writing = self.appended_length.is_some() && self.map.is_none();
        let map = match is_appended_by_writing {
            true => None,
            false => self.readable_map(),
        }?;
        let operation = Operation::Read(from, to);
        let is_there = self
            .file
            .doing(&operation, || Ok(is_resident(map, from, to)));
        (is_there.ok()? && from <= to).then(|| resident::of_map(map, from, to))
    }

    /// Whether the bytes that were read through [`FileDisk::resident`] so far came from the file.
    pub fn is_whole(&self) -> bool {
        let of_readers = || self.read_map.get().and_then(Option::as_ref);
        let map = self.map.as_ref().or_else(of_readers);
        map.is_none_or(|map| map.is_whole())
    }

    /// Writes the slices one after the other. Readers see the bytes at once; they are durable
    /// after [`FileDisk::sync`]. The caller has allocated the range.
    pub fn write_at(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        if let Some(map) = &self.map {
            let operation = Operation::Write(offset, slices);
            let copy = || Self::copy_into_map(map, offset, slices);
            return self.file.doing(&operation, copy);
        }
        match self.appended_length {
            Some(length) => self.append(offset, slices, length),
            None => self.write_slices(offset, slices),
        }
    }

    /// Reserves blocks, so that a write there cannot fail for lack of space. Can be repeated.
    pub fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        if self.file.allocate(from, to)? {
            return Ok(());
        }
        // A file system without fallocate reserves blocks when they are written.
        write_zeros(&self.file, from, to)
    }

    /// Makes the first write to an allocated range fast. May write zeros, so no other thread may
    /// have written there or write before this returns.
    pub fn warm(&self, from: u64, to: u64) -> io::Result<()> {
        match (&self.map, &self.direct) {
            (Some(map), _) => {
                let advise = |advice, start, count| map.advise_range(advice, start, count);
                warm::warm_map(&self.file, advise, from, to)
            }
            (None, Some(direct)) => warm::direct(direct, from, to),
            (None, None) => Ok(()),
        }
    }

    /// Size of the pieces in which this file is warmed.
    pub fn warm_pace(&self) -> WarmPace {
        match self.map {
            Some(_) => warm::MAP,
            None => warm::DIRECT,
        }
    }

    /// Makes a range read as zeros; its blocks may be given back.
    pub fn zero(&self, from: u64, to: u64) -> io::Result<()> {
        if self.file.punch_hole(from, to)? {
            return Ok(());
        }
        write_zeros(&self.file, from, to)
    }

    /// Makes the bytes written to a range durable.
    pub fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        match &self.map {
            // Only the range is synced: pages that were populated ahead of the writer can stay in
            // memory.
            Some(map) if to > from => {
                let start = usize::try_from(from).map_err(io::Error::other)?;
                let length = usize::try_from(to - from).map_err(io::Error::other)?;
                let flush = || {
                    resident::unmap(map, from, to);
                    map.flush_range(start, length)?;
                    map.check()
                };
                self.file.doing(&Operation::Sync(from, to), flush)?;
            }
            Some(_) => {}
            None => self.file.sync_data()?,
        }
        self.check_length()?;
        if !self.name_is_durable.load(Ordering::Acquire) {
            self.directory.sync_all()?;
            self.name_is_durable.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Starts writing a range to the disk, so that a later [`FileDisk::sync`] waits less; only a
    /// hint. The range must be complete. An error shows up in that sync.
    pub fn begin_sync(&self, from: u64, to: u64) {
        if let Some(map) = &self.map {
            resident::unmap(map, from, to);
            self.file.begin_sync(from, to);
        }
    }

    /// Returns the first offset, at or after `from`, that may hold anything but zeros; None if only
    /// zeros follow.
    pub fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        self.file.next_data(from)
    }

    /// Announces a read of a range; only a hint.
    pub fn will_read(&self, from: u64, to: u64) {
        self.file.will_read(from, to);
    }

    /// Gives up the memory of a range that was read; only a hint.
    pub fn will_not_read(&self, from: u64, to: u64) {
        self.file.will_not_read(from, to);
    }

    /// Reads a range into memory and waits for it. A failure is not reported here: the read that
    /// follows gets the error.
    ///
    /// The map is used because the kernel then reads in its largest pieces, at a fifth of the cost
    /// of a read-ahead advice, and the pages are mapped when they are needed. If the disk fails,
    /// `madvise` returns an error; a touch of the map would raise a signal.
    pub fn bring(&self, from: u64, to: u64) {
        let populate = |map: &MmapRaw| {
            let start = (from - from % PAGE_BYTES) as usize;
            let to = to.min(map.len() as u64);
            let length = (to as usize).saturating_sub(start);
            let advise = || {
                if self.map.is_some() {
                    // Every written page may be read ahead, see `warm`. One range from 0 on keeps
                    // the map in two parts.
                    map.advise_range(Advice::Normal, 0, start + length)?;
                }
                map.advise_range(Advice::PopulateRead, start, length)
            };
            self.file.doing(&Operation::Read(from, to), advise)
        };
        if self.readable_map().is_none_or(|map| populate(map).is_err()) {
            self.will_read(from, to); // also on kernels before 5.14
        }
    }
}

/// Opens an existing file for appending.
#[cfg(test)]
pub(super) fn appending(path: &Path, mode: WriteMode) -> FileDisk {
    let file = open_own(path, OpenOptions::new().read(true).write(true));
    let directory = Arc::new(File::open_directory(path.parent().unwrap()).unwrap());
    FileDisk::for_appending(file.unwrap(), path, directory, mode, false).unwrap()
}

#[cfg(test)]
mod tests;
