//! The log: an ordered set of files of one size, seen as one range of bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::disk::{Access, Disk, FileInfo, Files};
use super::segment::Segment;

/// The file set. Any number of readers; one [`super::Writer`] moves the end.
#[derive(Debug)]
pub struct Segments<F: Files> {
    files: F,
    file_size: u64,
    list: RwLock<Vec<Arc<Segment<F::Disk>>>>,
    /// Readers see only what lies below.
    max_offset: AtomicU64,
}

impl<F: Files> Segments<F> {
    /// Opens every file. The end of the log is the end of the last file, until recovery has found
    /// the real one and calls [`Segments::truncate_to`].
    ///
    /// Fails with `InvalidData` if a file has another length than `file_size`, or a name that is
    /// no multiple of it.
    pub fn open(files: F, file_size: u64) -> io::Result<Self> {
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
            let disk = files.open(info.start, access)?;
            list.push(Arc::new(Segment::new(info.start, file_size, disk, is_last)));
        }
        let max_offset = AtomicU64::new(list.last().map_or(0, |last| last.end()));
        Ok(Self {
            files,
            file_size,
            list: RwLock::new(list),
            max_offset,
        })
    }

    /// Bytes of each file.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Offset of the first byte, 0 for an empty log.
    pub fn min_offset(&self) -> u64 {
        self.list.read().first().map_or(0, |first| first.start())
    }

    /// Offset behind the last byte written.
    pub fn max_offset(&self) -> u64 {
        self.max_offset.load(Ordering::Acquire)
    }

    /// Offsets of the files' first bytes, ascending.
    pub fn starts(&self) -> Vec<u64> {
        self.list
            .read()
            .iter()
            .map(|segment| segment.start())
            .collect()
    }

    /// Where the file after the one that holds `offset` starts.
    pub fn next_file_start(&self, offset: u64) -> u64 {
        offset - offset % self.file_size + self.file_size
    }

    /// Reads from `offset` on: as much as fits `out` and lies in one file below the end of the
    /// log. 0 bytes mean that `offset` is outside the log. Waits for the disk.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let Some((segment, count)) = self.locate(offset, out.len()) else {
            return Ok(0);
        };
        segment
            .disk()
            .read_at(offset - segment.start(), &mut out[..count])
    }

    /// As [`Segments::read_at`], but None where it would wait for the disk.
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

    /// Makes `[from, to)` durable.
    pub fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        let list = self.list.read().clone();
        for segment in list
            .iter()
            .filter(|segment| segment.end() > from && segment.start() < to)
        {
            let start = segment.start();
            segment
                .disk()
                .sync(from.max(start) - start, to.min(segment.end()) - start)?;
        }
        Ok(())
    }

    /// Ends the log at `offset`: the rest of its file becomes zeros, durably, and later files go.
    pub fn truncate_to(&self, offset: u64) -> io::Result<()> {
        let mut list = self.list.write();
        while list.len() > 1 && list.last().is_some_and(|last| last.start() >= offset) {
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
        self.max_offset.store(offset, Ordering::Release);
        Ok(())
    }

    /// Overwrites `[offset, offset + bytes.len())`, which lies in one file, durably: for recovery,
    /// before the first append.
    pub fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = offset - offset % self.file_size;
        let disk = self.files.open(start, Access::Mend)?;
        disk.write_at(offset - start, &[bytes])?;
        disk.sync(offset - start, offset - start + bytes.len() as u64)
    }

    /// Where from `offset` on the first byte lies that is not known to be zero; the start of the
    /// next file if the rest of this one is.
    pub fn next_data(&self, offset: u64) -> io::Result<u64> {
        let next_file = self.next_file_start(offset);
        let Some((segment, _)) = self.locate(offset, 1) else {
            return Ok(next_file);
        };
        let found = segment.disk().next_data(offset - segment.start())?;
        Ok(found.map_or(next_file, |at| next_file.min(segment.start() + at)))
    }

    /// Says that a range, which lies in one file, is about to be read.
    pub fn will_read(&self, from: u64, to: u64) {
        if let Some((segment, _)) = self.locate(from, 1) {
            let start = segment.start();
            segment.disk().will_read(from - start, to - start);
        }
    }

    /// Starts of files that are missing between others, as many as the caller can bear.
    pub fn missing(&self, count_max: usize) -> Vec<u64> {
        let starts = self.starts();
        let pairs = starts.iter().zip(starts.iter().skip(1));
        let gaps = pairs.flat_map(|(before, after)| {
            (before + self.file_size..*after).step_by(self.file_size as usize)
        });
        gaps.take(count_max).collect()
    }

    /// Puts a file where one is missing between others: zeros behind `content`, durably.
    pub fn fill_in(&self, start: u64, content: &[u8]) -> io::Result<()> {
        let disk = self.files.prepare(start, self.file_size)?;
        disk.allocate(0, content.len() as u64)?;
        disk.write_at(0, &[content])?;
        self.files.publish(start, &disk)?;
        disk.sync(0, content.len() as u64)?;
        drop(disk);
        let disk = self.files.open(start, Access::Read)?;
        let segment = Arc::new(Segment::new(start, self.file_size, disk, false));
        let mut list = self.list.write();
        let place = list.partition_point(|segment| segment.start() < start);
        list.insert(place, segment);
        Ok(())
    }

    /// Gives back the maps of files that are full and durable up to `offset`.
    pub fn retire_before(&self, offset: u64) -> io::Result<()> {
        let is_done = |segment: &Segment<F::Disk>| segment.is_writable() && segment.end() <= offset;
        let done: Vec<_> = self
            .list
            .read()
            .iter()
            .filter(|segment| is_done(segment))
            .cloned()
            .collect();
        for segment in done {
            let read_only = self.reopen(&segment, Access::Read)?;
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

    /// The last file.
    pub(super) fn last(&self) -> Option<Arc<Segment<F::Disk>>> {
        self.list.read().last().cloned()
    }

    /// Where files come from.
    pub(super) fn files(&self) -> &F {
        &self.files
    }

    /// Adds a published file behind the last one.
    pub(super) fn push(&self, segment: Arc<Segment<F::Disk>>) {
        self.list.write().push(segment);
    }

    /// Moves the end of the log; everything below is readable from now on.
    pub(super) fn advance_to(&self, offset: u64) {
        debug_assert!(offset >= self.max_offset());
        self.max_offset.store(offset, Ordering::Release);
    }

    fn reopen(
        &self,
        segment: &Segment<F::Disk>,
        access: Access,
    ) -> io::Result<Arc<Segment<F::Disk>>> {
        let disk = self.files.open(segment.start(), access)?;
        let is_writable = access == Access::Append;
        Ok(Arc::new(Segment::new(
            segment.start(),
            self.file_size,
            disk,
            is_writable,
        )))
    }

    /// The file that holds `offset`, and how many of `wanted` bytes are readable in it.
    fn locate(&self, offset: u64, wanted: usize) -> Option<(Arc<Segment<F::Disk>>, usize)> {
        let max_offset = self.max_offset();
        let list = self.list.read();
        let first = list.first()?.start();
        // Files are contiguous but for what recovery is about to fill in.
        let guess = usize::try_from(offset.checked_sub(first)? / self.file_size).ok()?;
        let holds =
            |segment: &&Arc<Segment<F::Disk>>| (segment.start()..segment.end()).contains(&offset);
        let found = list.get(guess).filter(holds);
        let segment = found.or_else(|| list.iter().take(guess).find(holds))?;
        let readable = max_offset.min(segment.end()).checked_sub(offset)?;
        let count = usize::try_from(readable).unwrap_or(usize::MAX).min(wanted);
        Some((Arc::clone(segment), count))
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
mod tests {
    use super::*;
    use crate::log::{Memory, Writer};

    fn log_of(files: Memory, step: u64) -> Writer<Memory> {
        let segments = Segments::open(files, 100).unwrap();
        Writer::new(Arc::new(segments), step)
    }

    #[test]
    fn bytes_read_back_across_files_and_stop_at_the_end() {
        let mut writer = log_of(Memory::default(), 64);
        writer.write(&[b"hello"]).unwrap();
        assert_eq!(writer.remaining(), 95);
        writer.roll(&[b"blank"]).unwrap();
        writer.write(&[b"wor", b"ld"]).unwrap();
        let segments = writer.segments();
        assert_eq!((segments.min_offset(), segments.max_offset()), (0, 105));
        let mut out = [0; 20];
        assert_eq!(segments.read_at(0, &mut out).unwrap(), 20);
        assert_eq!(&out[..10], b"helloblank");
        assert_eq!(segments.read_at(90, &mut out).unwrap(), 10);
        assert_eq!(segments.read_at_nowait(100, &mut out).unwrap(), Some(5));
        assert_eq!(&out[..5], b"world");
        assert_eq!(segments.read_at(105, &mut out).unwrap(), 0);
        assert_eq!(segments.read_at(1_000, &mut out).unwrap(), 0);
        assert_eq!(segments.next_file_start(5), 100);
    }

    #[test]
    fn only_synced_bytes_survive_a_crash_and_truncation_zeroes_the_rest() {
        let files = Memory::default();
        let mut writer = log_of(files.clone(), 100);
        writer.write(&[b"durable"]).unwrap();
        writer.segments().sync(0, 7).unwrap();
        writer.write(&[b"lost"]).unwrap();
        let reopened = Segments::open(files.after_crash(), 100).unwrap();
        assert_eq!(reopened.max_offset(), 100);
        let mut out = [1; 12];
        reopened.read_at(0, &mut out).unwrap();
        assert_eq!(&out, b"durable\0\0\0\0\0");

        reopened.truncate_to(3).unwrap();
        assert_eq!(reopened.max_offset(), 3);
        let mut writer = Writer::new(Arc::new(reopened), 100);
        writer.write(&[b"."]).unwrap();
        writer.write(&[&[0; 4]]).unwrap();
        let mut out = [1; 8];
        writer.segments().read_at(0, &mut out).unwrap();
        assert_eq!(&out, b"dur.\0\0\0\0");
    }

    #[test]
    fn truncation_removes_later_files_and_keeps_the_first() {
        let files = Memory::default();
        let mut writer = log_of(files.clone(), 100);
        for _ in 0..3 {
            writer.write(&[&[7; 60]]).unwrap();
            writer.roll(&[]).unwrap();
        }
        let segments = writer.segments();
        assert_eq!(segments.starts(), [0, 100, 200, 300]);
        segments.truncate_to(150).unwrap();
        assert_eq!(segments.starts(), [0, 100]);
        segments.truncate_to(100).unwrap();
        assert_eq!(segments.starts(), [0]);
        assert_eq!(segments.max_offset(), 100);
        segments.truncate_to(0).unwrap();
        assert_eq!(segments.starts(), [0]);
    }

    #[test]
    fn a_missing_file_reads_as_nothing_until_it_is_filled_in() {
        let files = Memory::default();
        for start in [100, 200, 500] {
            let disk = files.prepare(start, 100).unwrap();
            disk.write_at(0, &[&[start as u8; 100]]).unwrap();
            files.publish(start, &disk).unwrap();
        }
        let segments = Segments::open(files.clone(), 100).unwrap();
        assert_eq!(segments.missing(10), [300, 400]);
        assert_eq!(segments.missing(1), [300]);
        let mut out = [0; 4];
        assert_eq!(segments.read_at(399, &mut out).unwrap(), 0);
        assert_eq!(segments.read_at(501, &mut out).unwrap(), 4);
        assert_eq!(out, [500_u32 as u8; 4]);
        segments.fill_in(400, b"blank").unwrap();
        segments.fill_in(300, b"blank").unwrap();
        assert_eq!(segments.starts(), [100, 200, 300, 400, 500]);
        assert_eq!(segments.read_at(301, &mut out).unwrap(), 4);
        assert_eq!(&out, b"lank");
        assert_eq!(files.list().unwrap().len(), 5);
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let files = Memory::default();
        files.publish(0, &files.prepare(0, 64).unwrap()).unwrap();
        let error = Segments::open(files, 100).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
