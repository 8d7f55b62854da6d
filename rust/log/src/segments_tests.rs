//! The file set over files in memory.

use std::sync::mpsc;

use parking_lot::Mutex;

use super::*;
use crate::{Memory, MemoryDisk, Writer};
use mq_base::clock::SystemClock;

fn log_of(files: Memory, step: u64) -> Writer<Memory> {
    let segments = Segments::open(files, 100).unwrap();
    Writer::new(Arc::new(segments), step, SystemClock::shared())
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
    let mut writer = Writer::new(Arc::new(reopened), 100, SystemClock::shared());
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
    // An empty file behind a full one stays, so that the end is the same the next time.
    segments.truncate_to(100).unwrap();
    assert_eq!(segments.starts(), [0, 100]);
    segments.truncate_to(99).unwrap();
    assert_eq!(segments.starts(), [0]);
    assert_eq!(segments.max_offset(), 99);
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
fn a_removed_file_stays_valid_for_whoever_holds_it() {
    let files = Memory::default();
    let mut writer = log_of(files.clone(), 100);
    writer.write(&[b"first"]).unwrap();
    writer.roll(&[]).unwrap();
    writer.write(&[b"second"]).unwrap();
    let segments = writer.segments();
    let (held, count) = segments.locate(0, 5).unwrap();
    let removed = segments.remove_first().unwrap().unwrap();
    assert_eq!((removed.start(), removed.is_read()), (0, true));
    assert_eq!((segments.min_offset(), segments.starts()), (100, vec![100]));
    assert_eq!(segments.read_at(0, &mut [0; 5]).unwrap(), 0);
    let mut out = [0; 5];
    assert_eq!(held.disk().read_at(0, &mut out).unwrap(), count);
    assert_eq!(&out, b"first");
    drop(held);
    assert!(!removed.is_read());
    assert!(segments.remove_first().unwrap().is_none(), "the last stays");
    assert_eq!(files.list().unwrap().len(), 1);
}

#[test]
fn a_file_that_went_half_way_is_gone_at_the_next_try() {
    let files = Memory::default();
    let mut writer = log_of(files.clone(), 100);
    writer.write(&[b"first"]).unwrap();
    writer.roll(&[]).unwrap();
    files.remove(0).unwrap();
    let segments = writer.segments();
    assert_eq!(segments.remove_first().unwrap().unwrap().start(), 0);
    assert_eq!(segments.min_offset(), 100);
    segments.retire_before(100).unwrap();
}

#[test]
fn a_file_of_another_size_is_refused() {
    let files = Memory::default();
    files.publish(0, &files.prepare(0, 64).unwrap()).unwrap();
    let error = Segments::open(files, 100).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

/// Files whose removal waits until the test lets it go on.
struct SlowToRemove {
    inner: Memory,
    begun: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Files for SlowToRemove {
    type Disk = MemoryDisk;

    fn list(&self) -> io::Result<Vec<FileInfo>> {
        self.inner.list()
    }

    fn open(&self, start: u64, access: Access) -> io::Result<MemoryDisk> {
        self.inner.open(start, access)
    }

    fn prepare(&self, start: u64, length: u64) -> io::Result<MemoryDisk> {
        self.inner.prepare(start, length)
    }

    fn publish(&self, start: u64, disk: &MemoryDisk) -> io::Result<()> {
        self.inner.publish(start, disk)
    }

    fn discard(&self, start: u64) -> io::Result<()> {
        self.inner.discard(start)
    }

    fn remove(&self, start: u64) -> io::Result<()> {
        self.begun.send(()).unwrap();
        self.go_on.lock().recv().unwrap();
        self.inner.remove(start)
    }
}

#[test]
fn a_slow_removal_holds_up_neither_readers_nor_the_writer() {
    let (begun, has_begun) = mpsc::channel();
    let (let_go, go_on) = mpsc::channel();
    let files = SlowToRemove {
        inner: Memory::default(),
        begun,
        go_on: Mutex::new(go_on),
    };
    let mut writer = Writer::new(
        Arc::new(Segments::open(files, 100).unwrap()),
        100,
        SystemClock::shared(),
    );
    writer.write(&[b"first"]).unwrap();
    writer.roll(&[]).unwrap();
    let segments = Arc::clone(writer.segments());
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| segments.remove_first());
        has_begun.recv().unwrap();
        // The removal is under way and will not end before the last line: none of this waits.
        let mut out = [0; 5];
        assert_eq!(segments.read_at(0, &mut out).unwrap(), 5);
        assert_eq!(&out, b"first");
        writer.write(&[b"second"]).unwrap();
        writer.roll(&[]).unwrap();
        writer.write(&[b"third"]).unwrap();
        segments.sync(0, 205).unwrap();
        segments.retire_before(200).unwrap();
        assert_eq!(segments.starts(), [0, 100, 200]);
        let_go.send(()).unwrap();
        assert_eq!(removal.join().unwrap().unwrap().unwrap().start(), 0);
    });
    assert_eq!(segments.starts(), [100, 200]);
}
