//! A real file, written through a map or by pwrite, always read by pread.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use libc::O_DIRECT;
use memmap2::{Advice, MmapOptions, MmapRaw};

use super::PAGE_BYTES;
use super::fs::{File, OpenOptions, open_own};
use super::lost_pages::Guarded;
use super::resident::{self, copy_from_map, is_resident, prefetch_append};
use super::tape::Operation;
use super::warm::{self, WarmPace, ZEROS, write_zeros};

/// A longer append goes to the kernel as it is.
const ONE_CALL_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// An append and the zeros behind it.
    static APPEND: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How bytes get into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Copied into a map: the cheapest append, made durable in the background.
    Map,
    /// `pwrite` and `fdatasync`: the cheapest small flush. A map marks a whole folio (up to
    /// 1 MiB) dirty for one byte; pwrite only the blocks it touches. Blocks are overwritten with
    /// zeros ahead, past the page cache: an fdatasync over blocks that were only reserved also
    /// writes the inode, whose extents become written ones (measured on ext4: 60 % more flushes
    /// a second with zeros, at the price of writing each byte twice).
    Write,
}

/// A file of the log.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    map: Option<Guarded<MmapRaw>>,
    /// For what is read while it is in memory; None inside if the file cannot be mapped.
    read_map: OnceLock<Option<Guarded<MmapRaw>>>,
    /// The file again, past the page cache: to write zeros ahead of [`WriteMode::Write`].
    direct: Option<File>,
    /// Length of the file, bytes, if it is appended to.
    appended_length: Option<u64>,
    /// The directory, synced with the first sync of a file that is new in it.
    directory: Arc<File>,
    name_is_durable: AtomicBool,
}

impl FileDisk {
    /// A file to read, or to mend if it was opened for writing.
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

    /// The file at `path`, to append to; `is_new` if its name is not yet durable in `directory`.
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
                // See `warm::warm_map`; a system that refuses is only slower.
                let _ = map.advise(Advice::Random);
                disk.map = Some(map.into());
            }
            WriteMode::Write => {
                let mut options = OpenOptions::new();
                options.write(true).custom_flags(O_DIRECT);
                // A file system that knows no direct writes does without the zeros.
                disk.direct = open_own(path, &mut options).ok();
            }
        }
        Ok(disk)
    }

    /// Writes the slices, and zeros up to the end of the page if they are the first to enter it:
    /// a write to a part of a page that is not in memory would wait for the disk to read it. With
    /// one call where it is not much: a call costs more than the copy.
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
    fn copy_into_map(map: &Guarded<MmapRaw>, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
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
            // SAFETY: the range was checked against the map's length above. The map is raw, so no
            // reference to it exists. The blocks are allocated, so the store cannot fault for lack
            // of space; the check below notices a page that was lost.
            unsafe {
                let target = map.as_mut_ptr().add(at);
                std::ptr::copy_nonoverlapping(slice.as_ptr(), target, slice.len());
            }
            at += slice.len();
        }
        prefetch_append(map, at, total);
        map.check()
    }

    /// The map to read by, made with the first read: a file nobody reads has none. None once a
    /// page of it was lost; what the file still has is read without it.
    fn readable_map(&self) -> Option<&Guarded<MmapRaw>> {
        let open = || {
            let map = MmapOptions::new().map_raw_read_only(&self.file);
            map.ok().map(Guarded::from)
        };
        let of_readers = || self.read_map.get_or_init(open).as_ref();
        let map = self.map.as_ref().or_else(of_readers);
        map.filter(|map| map.is_whole())
    }

    /// An error if a file that is appended to is shorter than it was: a part of it is gone,
    /// whether a map noticed or a write made the rest of it again.
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

    /// Reads into `out`, as many bytes as there are; waits for the disk.
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

    /// Reads what is in memory; None if the disk would have to be waited for. May read less than
    /// asked for.
    pub fn read_at_nowait(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<usize>> {
        self.file.read_at_nowait(out, offset)
    }

    /// Appends the pieces (offset, bytes), which ascend, to `out`; false, with `out` as it was, if
    /// the disk would have to be waited for, or ends before they do.
    ///
    /// By a map, a third of the price of a read. It is touched only where the pages are in memory
    /// at that moment, so that nobody waits for the disk. A page that goes in between reads as
    /// zeros; then the file is asked, which answers with an error or with what it still has.
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

    /// [`FileDisk::copy_from_memory`] with a read for each piece.
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

    /// Where a range of the file is in memory now; None where it may not be, or where copying
    /// costs less: each page of a file that is appended to by `pwrite` would be a fault.
    ///
    /// The pointer is valid while this file is open. It is no reference, because
    /// [`FileDisk::write_at`] may change the bytes: only a caller that knows that nobody writes
    /// there may read them.
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

    /// Whether the bytes that [`FileDisk::resident`] pointed to are the file's, as far as they were
    /// read.
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

    /// Reserves blocks, so that writing there cannot fail for lack of space. Repeating is harmless.
    pub fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        if self.file.allocate(from, to)? {
            return Ok(());
        }
        // File systems without fallocate get their blocks by being written.
        write_zeros(&self.file, from, to)
    }

    /// Makes the first write to an allocated range fast. Nobody has written there, nor does before
    /// this returns: it may write zeros.
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

    /// How it is best warmed.
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

    /// Makes what was written to a range durable.
    pub fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        match &self.map {
            // Only the range: pages populated ahead of the writer need not reach the disk.
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

    /// Has the disk begin with a range that is written and not written again, so that a later
    /// [`FileDisk::sync`] waits less; only a hint. The sync returns what failed of it.
    pub fn begin_sync(&self, from: u64, to: u64) {
        if let Some(map) = &self.map {
            resident::unmap(map, from, to);
            self.file.begin_sync(from, to);
        }
    }

    /// First offset from `from` on that is not known to read as zeros; None for zeros to the end.
    pub fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        self.file.next_data(from)
    }

    /// Says that a range is about to be read; only a hint.
    pub fn will_read(&self, from: u64, to: u64) {
        self.file.will_read(from, to);
    }

    /// Brings a range into memory and waits for it. A failure is not an error here: the read that
    /// follows has it.
    ///
    /// By the map: the kernel then reads in its largest pieces, at a fifth of what an advice to
    /// read costs, and the pages are mapped when they are looked at. A disk that fails ends it with
    /// an error, not with the signal of a touched map.
    pub fn bring(&self, from: u64, to: u64) {
        let populate = |map: &MmapRaw| {
            let start = (from - from % PAGE_BYTES) as usize;
            let to = to.min(map.len() as u64);
            let length = (to as usize).saturating_sub(start);
            let advise = || {
                if self.map.is_some() {
                    // All that is written may be read ahead, see `warm`; one border, not many.
                    map.advise_range(Advice::Normal, 0, start + length)?;
                }
                map.advise_range(Advice::PopulateRead, start, length)
            };
            self.file.doing(&Operation::Read(from, to), advise)
        };
        if self.readable_map().is_none_or(|map| populate(map).is_err()) {
            self.will_read(from, to); // kernels before 5.14, too
        }
    }
}

/// An existing file, to append to.
#[cfg(test)]
pub(super) fn appending(path: &Path, mode: WriteMode) -> FileDisk {
    let file = open_own(path, OpenOptions::new().read(true).write(true));
    let directory = Arc::new(File::open_directory(path.parent().unwrap()).unwrap());
    FileDisk::for_appending(file.unwrap(), path, directory, mode, false).unwrap()
}

#[cfg(test)]
mod tests;
