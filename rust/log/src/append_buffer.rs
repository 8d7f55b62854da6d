//! Records that are appended but not yet in their file: one write takes many of them there.
//!
//! Writing one record is a system call, which also waits while blocks ahead in the same file are
//! overwritten with zeros. With SYNC_FLUSH no record is acknowledged before the flush, so the flush
//! can write all of them at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::PAGE_BYTES;
use super::fs::is_full;
use super::segment::Segment;

/// More unwritten bytes than this are written before the next flush.
const BYTES_MAX: usize = 1 << 20;
/// A larger buffer is freed instead of reused.
const SPARE_BYTES_MAX: usize = 2 * BYTES_MAX;

/// Appended bytes that the next flush writes.
#[derive(Debug)]
pub(super) struct AppendBuffer {
    runs: Mutex<Runs>,
    bytes: AtomicUsize,
    /// Held during a write, so that the file has no gap below the end of the log. True after a
    /// write failed for good, which leaves a gap.
    writing: Mutex<bool>,
}

#[derive(Debug)]
struct Runs {
    list: Vec<Run>,
    spare: Vec<u8>,
}

/// Bytes that follow each other in one file.
#[derive(Debug)]
struct Run {
    segment: Arc<Segment>,
    /// Log offset of the first byte.
    start: u64,
    /// Log offset at which the next run starts: after these bytes, or in the next file.
    end: u64,
    bytes: Vec<u8>,
}

impl Default for AppendBuffer {
    fn default() -> Self {
        let runs = Runs {
            list: Vec::new(),
            spare: Vec::new(),
        };
        Self {
            runs: Mutex::new(runs),
            bytes: AtomicUsize::new(0),
            writing: Mutex::new(false),
        }
    }
}

impl AppendBuffer {
    /// Takes bytes for the log offset `offset`, which is the end of the bytes before; the next
    /// bytes start at `end`.
    pub(super) fn push(&self, segment: &Arc<Segment>, offset: u64, slices: &[&[u8]], end: u64) {
        let Runs { list, spare } = &mut *self.runs.lock();
        let goes_on = |last: &Run| Arc::ptr_eq(&last.segment, segment);
        if !list.last().is_some_and(goes_on) {
            list.push(Run {
                segment: Arc::clone(segment),
                start: offset,
                end,
                bytes: std::mem::take(spare),
            });
        }
        if let Some(run) = list.last_mut() {
            debug_assert_eq!(run.start + run.bytes.len() as u64, offset);
            let before = run.bytes.len();
            run.end = end;
            slices
                .iter()
                .for_each(|slice| run.bytes.extend_from_slice(slice));
            let more = run.bytes.len() - before;
            self.bytes.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Whether the waiting bytes are too many to wait for the next flush.
    pub(super) fn is_long(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > BYTES_MAX
    }

    /// Writes all bytes pushed before the call, and calls `advance` with the log offset after each
    /// run. After a failure all further writes are refused, because they would follow a gap. A full
    /// disk is different: none of the bytes was acknowledged, and the next call writes them again
    /// to the same place.
    pub(super) fn drain(&self, advance: impl Fn(u64)) -> io::Result<()> {
        let mut has_failed = self.writing.lock();
        if *has_failed {
            return Err(io::Error::other("an earlier write of the log failed"));
        }
        let mut list = std::mem::take(&mut self.runs.lock().list).into_iter();
        while let Some(mut run) = list.next() {
            let count = run.bytes.len();
            if let Err(error) = run.write() {
                if is_full(&error) {
                    run.bytes.truncate(count);
                    let later = &mut self.runs.lock().list;
                    let kept = std::iter::once(run).chain(list);
                    later.splice(..0, kept);
                } else {
                    *has_failed = true;
                }
                return Err(error);
            }
            advance(run.end);
            self.bytes.fetch_sub(count, Ordering::Relaxed);
            if run.bytes.capacity() <= SPARE_BYTES_MAX {
                run.bytes.clear();
                self.runs.lock().spare = run.bytes;
            }
        }
        Ok(())
    }
}

impl Run {
    fn write(&mut self) -> io::Result<()> {
        let at = self.start - self.segment.start();
        let whole = (at + self.bytes.len() as u64).next_multiple_of(PAGE_BYTES);
        // Only whole pages are written; otherwise the kernel would have to read the rest of the
        // page from the disk.
        let count = whole.min(self.segment.length()) - at;
        self.bytes.resize(count as usize, 0);
        self.segment.disk().write_at(at, &[&self.bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Kind, TestDisk};
    use crate::{Segments, Writer};
    use mq_base::clock::SystemClock;

    const SIZE: u64 = 16 << 10;

    fn log_of(disk: &TestDisk, size: u64) -> (Arc<Segments>, Writer) {
        let log = Arc::new(Segments::open(disk.files(), size).unwrap());
        let writer = Writer::new(Arc::clone(&log), size, SystemClock::shared());
        (log, writer.writing_later())
    }

    #[test]
    fn one_write_takes_all_records_of_a_file() {
        let disk = TestDisk::new();
        let (log, mut writer) = log_of(&disk, SIZE);
        for record in 0..15 {
            writer.write(&[&[record; 500], &[record; 500]]).unwrap();
        }
        writer.roll(&[b"filler"]).unwrap();
        writer.write(&[b"next"]).unwrap();
        assert_eq!((log.max_offset(), log.appended()), (0, SIZE + 4));
        assert_eq!(log.read_at(0, &mut [0]).unwrap(), 0);
        disk.hook.take();
        log.write_out().unwrap();
        assert_eq!((log.max_offset(), log.appended()), (SIZE + 4, SIZE + 4));
        let events = disk.hook.take();
        let writes = events.iter().filter(|event| event.0 == Kind::Write);
        assert_eq!(writes.count(), 2);
        let mut out = [0; 1_006];
        log.read_at(14_000, &mut out).unwrap();
        assert_eq!(
            (&out[..1_000], &out[1_000..]),
            (&[14; 1_000][..], &b"filler"[..])
        );
        assert_eq!(log.read_at(SIZE, &mut out).unwrap(), 4);
        assert_eq!(&out[..4], b"next");
        // The rest of the page is written again together with the next record.
        writer.write(&[b" one"]).unwrap();
        log.write_out().unwrap();
        assert_eq!(log.read_at(SIZE, &mut out).unwrap(), 8);
        assert_eq!(&out[..8], b"next one");
    }

    #[test]
    fn nothing_is_written_after_a_gap() {
        const EIO: i32 = 5;
        let disk = TestDisk::new();
        let (log, mut writer) = log_of(&disk, SIZE);
        writer.write(&[b"lost"]).unwrap();
        disk.hook.fail(Kind::Write, EIO);
        assert_eq!(log.write_out().unwrap_err().raw_os_error(), Some(EIO));
        disk.hook.repair();
        writer.write(&[b"behind"]).unwrap();
        assert!(log.write_out().is_err());
        assert_eq!(log.max_offset(), 0);
    }

    #[test]
    fn a_write_without_room_is_repeated_later_in_order() {
        const ENOSPC: i32 = 28;
        let disk = TestDisk::new();
        let (log, mut writer) = log_of(&disk, SIZE);
        writer.write(&[&[b'a'; 10_000]]).unwrap();
        writer.roll(&[&[b'-'; 6_384]]).unwrap();
        writer.write(&[b"second"]).unwrap();
        disk.hook.fail(Kind::Write, ENOSPC);
        for _ in 0..2 {
            assert_eq!(log.write_out().unwrap_err().raw_os_error(), Some(ENOSPC));
            assert_eq!(log.max_offset(), 0);
        }
        writer.write(&[b", third"]).unwrap();
        disk.hook.repair();
        log.write_out().unwrap();
        assert_eq!((log.max_offset(), log.appended()), (SIZE + 13, SIZE + 13));
        let mut out = [0; 13];
        log.read_at(SIZE, &mut out).unwrap();
        assert_eq!(&out, b"second, third");
        log.read_at(9_999, &mut out).unwrap();
        assert_eq!(&out, b"a------------");
        assert!(!log.is_much_unwritten());
    }

    #[test]
    fn many_unwritten_bytes_are_reported() {
        let disk = TestDisk::new();
        let (log, mut writer) = log_of(&disk, 4 << 20);
        writer.write(&[&vec![1; BYTES_MAX]]).unwrap();
        assert!(!log.is_much_unwritten());
        writer.write(&[b"1"]).unwrap();
        assert!(log.is_much_unwritten());
        log.write_out().unwrap();
        assert!(!log.is_much_unwritten());
    }
}
