//! The log: an ordered set of files of one size, seen as one range of bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::append_buffer::AppendBuffer;
use super::directory::{Access, Directory, FileInfo};
use super::segment::Segment;
use super::view::View;

/// The files of the log. Any number of readers; one [`super::Writer`] moves the end.
#[derive(Debug)]
pub struct Segments {
    files: Directory,
    file_size: u64,
    list: RwLock<Vec<Arc<Segment>>>,
    /// Readers see only bytes below this log offset.
    max_offset: AtomicU64,
    /// Position of the writer; larger than `max_offset` while appended bytes are not yet written.
    appended: AtomicU64,
    buffer: AppendBuffer,
}

impl Segments {
    /// Opens every file. The end of the log is the end of the last file, until recovery has found
    /// the real one and calls [`Segments::truncate_to`].
    ///
    /// Fails with `InvalidData` if the length of a file is not `file_size`, or its name is not a
    /// multiple of `file_size`.
    pub fn open(files: Directory, file_size: u64) -> io::Result<Self> {
        let found = files.list()?;
        let mut list = Vec::with_capacity(found.len());
        for (index, info) in found.iter().enumerate() {
            check_file(info, file_size)?;
            let is_last = index + 1 == found.len();
            let access = if is_last {
                Access::Append
            } else {
                Access::Read
            };
            let disk = files.open_file(info.start, access)?;
            list.push(Arc::new(Segment::new(info.start, file_size, disk, is_last)));
        }
        let end = list.last().map_or(0, |last| last.end());
        Ok(Self {
            files,
            file_size,
            list: RwLock::new(list),
            max_offset: AtomicU64::new(end),
            appended: AtomicU64::new(end),
            buffer: AppendBuffer::default(),
        })
    }

    /// Bytes of each file.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Offset of the first byte; of an empty log, the offset at which it will begin.
    pub fn min_offset(&self) -> u64 {
        let list = self.list.read();
        list.first().map_or(self.appended(), |first| first.start())
    }

    /// Offset after the last byte written.
    pub fn max_offset(&self) -> u64 {
        self.max_offset.load(Ordering::Acquire)
    }

    /// Offset after the last byte appended, which may not be written yet.
    pub fn appended(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// Writes everything appended before the call. After a failure there may be a gap, and every
    /// later call fails.
    pub fn write_out(&self) -> io::Result<()> {
        self.buffer
            .drain(|end| self.max_offset.store(end, Ordering::Release))
    }

    /// Whether the unwritten bytes are too many to wait for the next flush.
    pub fn is_much_unwritten(&self) -> bool {
        self.buffer.is_long()
    }

    /// Offsets of the files' first bytes, ascending.
    pub fn starts(&self) -> Vec<u64> {
        self.list
            .read()
            .iter()
            .map(|segment| segment.start())
            .collect()
    }

    /// Offset at which the file after the one that holds `offset` starts.
    pub fn next_file_start(&self, offset: u64) -> u64 {
        offset - offset % self.file_size + self.file_size
    }

    /// Reads from `offset` on, as many bytes as fit into `out` and lie in one file below the end of
    /// the log. 0 bytes mean that `offset` is outside the log. Waits for the disk.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let Some((segment, count)) = self.locate(offset, out.len()) else {
            return Ok(0);
        };
        segment
            .disk()
            .read_at(offset - segment.start(), &mut out[..count])
    }

    /// As [`Segments::read_at`], but None if the read would wait for the disk.
    pub fn read_at_nowait(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<usize>> {
        let Some((segment, count)) = self.locate(offset, out.len()) else {
            return Ok(Some(0));
        };
        let mut filled = 0;
        while filled < count {
            let at = offset - segment.start() + filled as u64;
            match segment.disk().read_at_nowait(at, &mut out[filled..count])? {
                None => return Ok(None),
                Some(0) => break,
                Some(more) => filled += more,
            }
        }
        Ok(Some(filled))
    }

    /// Appends the pieces (offset, bytes) to `out`; the pieces ascend and lie in one file. False,
    /// with `out` unchanged, if the read would wait for the disk or the log ends before the pieces
    /// do.
    pub fn copy_from_memory(&self, pieces: &[(u64, usize)], out: &mut Vec<u8>) -> io::Result<bool> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Ok(true);
        };
        let bytes = (last.0 - first.0) as usize + last.1;
        match self.locate(first.0, bytes) {
            Some((segment, readable)) if readable == bytes => {
                let start = segment.start();
                let in_file: Vec<_> = pieces.iter().map(|(at, n)| (at - start, *n)).collect();
                segment.disk().copy_from_memory(&in_file, out)
            }
            _ => Ok(false),
        }
    }

    /// Returns the bytes from `offset` on that lie in one file below the end of the log, at most
    /// `bytes`, if they are in memory. If None, call [`Segments::read_at`].
    pub fn view(&self, offset: u64, bytes: usize) -> Option<View> {
        let (segment, count) = self.locate(offset, bytes)?;
        let from = offset - segment.start();
        let to = from + count as u64;
        let bytes = segment.disk().resident(from, to)?;
        // SAFETY: the map lives as long as its segment. `locate` returns only ranges below the end
        // of the log, and the writer does not write there. Recovery does, but before a store has
        // readers.
        Some(unsafe { View::new(bytes, segment) })
    }

    /// Makes `[from, to)` durable.
    pub fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        let list = self.list.read().clone();
        let mut parts = list.iter().filter_map(|segment| segment.part(from, to));
        parts.try_for_each(|(disk, from, to)| disk.sync(from, to))
    }

    /// See [`FileDisk::begin_sync`](super::FileDisk::begin_sync).
    pub fn begin_sync(&self, from: u64, to: u64) {
        let list = self.list.read().clone();
        let parts = list.iter().filter_map(|segment| segment.part(from, to));
        parts.for_each(|(disk, from, to)| disk.begin_sync(from, to));
    }

    /// Ends the log at `offset`: the rest of its file becomes zeros, durably, and later files are
    /// removed.
    pub fn truncate_to(&self, offset: u64) -> io::Result<()> {
        let mut list = self.list.write();
        while list.len() > 1 && list.last().is_some_and(|last| last.start() > offset) {
            let Some(last) = list.pop() else { break };
            self.files.remove(last.start())?;
        }
        if let Some(last) = list.last_mut() {
            if !last.is_writable() {
                *last = self.reopen(last, Access::Append)?;
            }
            if offset < last.end() {
                let (from, to) = (offset - last.start(), self.file_size);
                last.disk().zero(from, to)?;
                last.disk().sync(from, to)?;
            }
            last.assume_written_to(offset);
        }
        self.advance_to(offset);
        Ok(())
    }

    /// Overwrites `[offset, offset + bytes.len())` durably. The range lies in one file. For
    /// recovery, before the first append.
    pub fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = offset - offset % self.file_size;
        let disk = self.files.open_file(start, Access::Repair)?;
        disk.write_at(offset - start, &[bytes])?;
        disk.sync(offset - start, offset - start + bytes.len() as u64)
    }

    /// Returns the first offset, at or after `offset`, whose byte may not be zero; the start of the
    /// next file if the rest of this one is zero.
    pub fn next_data(&self, offset: u64) -> io::Result<u64> {
        let next_file = self.next_file_start(offset);
        let Some((segment, _)) = self.locate(offset, 1) else {
            return Ok(next_file);
        };
        let found = segment.disk().next_data(offset - segment.start())?;
        Ok(found.map_or(next_file, |at| next_file.min(segment.start() + at)))
    }

    /// Announces a read of a range that lies in one file.
    pub fn will_read(&self, from: u64, to: u64) {
        if let Some((segment, _)) = self.locate(from, 1) {
            let start = segment.start();
            segment.disk().will_read(from - start, to - start);
        }
    }

    /// Gives up the memory of a range that lies in one file and was read.
    pub fn will_not_read(&self, from: u64, to: u64) {
        if let Some((segment, _)) = self.locate(from, 1) {
            let start = segment.start();
            segment.disk().will_not_read(from - start, to - start);
        }
    }

    /// Reads a range that lies in one file into memory, and waits for it.
    pub fn bring(&self, from: u64, to: u64) {
        if let Some((segment, _)) = self.locate(from, 1) {
            let start = segment.start();
            segment.disk().bring(from - start, to - start);
        }
    }

    /// Returns the starts of files that are missing between others, at most `count_max`.
    pub fn missing(&self, count_max: usize) -> Vec<u64> {
        let starts = self.starts();
        let pairs = starts.iter().zip(starts.iter().skip(1));
        let gaps = pairs.flat_map(|(before, after)| {
            (before + self.file_size..*after).step_by(self.file_size as usize)
        });
        gaps.take(count_max).collect()
    }

    /// Creates a file that is missing between others: `content`, then zeros; durable on return.
    pub fn fill_in(&self, start: u64, content: &[u8]) -> io::Result<()> {
        let disk = self.files.prepare(start, self.file_size)?;
        disk.allocate(0, content.len() as u64)?;
        disk.write_at(0, &[content])?;
        self.files.publish(start)?;
        disk.sync(0, content.len() as u64)?;
        drop(disk);
        let disk = self.files.open_file(start, Access::Read)?;
        let segment = Arc::new(Segment::new(start, self.file_size, disk, false));
        let mut list = self.list.write();
        let place = list.partition_point(|segment| segment.start() < start);
        list.insert(place, segment);
        Ok(())
    }

    /// Reopens files that are full and durable up to `offset` for reading, which frees their maps.
    pub fn retire_before(&self, offset: u64) -> io::Result<()> {
        let is_done = |segment: &Segment| segment.is_writable() && segment.end() <= offset;
        let done: Vec<_> = self
            .list
            .read()
            .iter()
            .filter(|segment| is_done(segment))
            .cloned()
            .collect();
        for segment in done {
            let read_only = match self.reopen(&segment, Access::Read) {
                // The file was deleted in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                reopened => reopened?,
            };
            let mut list = self.list.write();
            let place = list
                .iter_mut()
                .find(|found| found.start() == segment.start());
            if let Some(place) = place {
                *place = read_only;
            }
        }
        Ok(())
    }

    /// Deletes the first file, unless it is the only one. Current readers can continue: the bytes
    /// exist until the last reader and the [`Removed`] are dropped. Only one thread may call this
    /// at a time.
    pub fn remove_first(&self) -> io::Result<Option<Removed>> {
        let first = match self.list.read().as_slice() {
            [first, _, ..] => Arc::clone(first),
            _ => return Ok(None),
        };
        // Outside the lock, so that neither readers nor the writer wait for the directory.
        match self.files.remove(first.start()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // The file is removed now, or an earlier attempt removed it and failed afterwards.
            _ => {}
        }
        self.list
            .write()
            .retain(|segment| segment.start() != first.start());
        Ok(Some(Removed { segment: first }))
    }

    /// The last file.
    pub(super) fn last(&self) -> Option<Arc<Segment>> {
        self.list.read().last().cloned()
    }

    /// The directory in which files are created and opened.
    pub(super) fn files(&self) -> &Directory {
        &self.files
    }

    /// Adds a published file after the last one.
    pub(super) fn push(&self, segment: Arc<Segment>) {
        self.list.write().push(segment);
    }

    /// Moves the place of an empty log.
    pub(super) fn begin_at(&self, start: u64) {
        // `appended` first, because it is never below `max_offset`.
        self.appended.store(start, Ordering::Release);
        self.max_offset.store(start, Ordering::Release);
    }

    /// Moves the end of the log; readers can read everything below it from now on.
    pub(super) fn advance_to(&self, offset: u64) {
        self.max_offset.store(offset, Ordering::Release);
        self.appended.store(offset, Ordering::Release);
    }

    /// Appends at the end of the log and moves it to `end`. [`Segments::write_out`] writes the
    /// bytes.
    pub(super) fn push_to_buffer(
        &self,
        segment: &Arc<Segment>,
        offset: u64,
        slices: &[&[u8]],
        end: u64,
    ) {
        self.buffer.push(segment, offset, slices, end);
        self.appended.store(end, Ordering::Release);
    }

    fn reopen(&self, segment: &Segment, access: Access) -> io::Result<Arc<Segment>> {
        let disk = self.files.open_file(segment.start(), access)?;
        let is_writable = access == Access::Append;
        Ok(Arc::new(Segment::new(
            segment.start(),
            self.file_size,
            disk,
            is_writable,
        )))
    }

    /// Returns the file that holds `offset`, and how many of the `wanted` bytes are readable in it.
    fn locate(&self, offset: u64, wanted: usize) -> Option<(Arc<Segment>, usize)> {
        let max_offset = self.max_offset();
        let list = self.list.read();
        let first = list.first()?.start();
        // Files are contiguous, except for gaps that recovery is about to fill.
        let guess = usize::try_from(offset.checked_sub(first)? / self.file_size).ok()?;
        let holds = |segment: &&Arc<Segment>| (segment.start()..segment.end()).contains(&offset);
        let found = list.get(guess).filter(holds);
        let segment = found.or_else(|| list.iter().take(guess).find(holds))?;
        let readable = max_offset.min(segment.end()).checked_sub(offset)?;
        let count = usize::try_from(readable).unwrap_or(usize::MAX).min(wanted);
        Some((Arc::clone(segment), count))
    }
}

/// A deleted file. The thread that drops this gives the blocks back to the file system.
#[derive(Debug)]
pub struct Removed {
    segment: Arc<Segment>,
}

impl Removed {
    /// Offset of its first byte.
    pub fn start(&self) -> u64 {
        self.segment.start()
    }

    /// Whether a reader still uses the file.
    pub fn is_read(&self) -> bool {
        Arc::strong_count(&self.segment) > 1
    }
}

fn check_file(info: &FileInfo, file_size: u64) -> io::Result<()> {
    if info.length != file_size || !info.start.is_multiple_of(file_size) {
        let what = format!(
            "file {:020} has {} bytes, expected files of {file_size}",
            info.start, info.length
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(())
}

#[cfg(test)]
#[path = "segments_tests.rs"]
mod tests;
