//! The file set over real files.

use super::*;
use crate::Writer;
use crate::testing::{Kind, TestDisk};
use mq_base::clock::SystemClock;

fn log_of(disk: &TestDisk, step: u64) -> Writer {
    let segments = Segments::open(disk.files(), 100).unwrap();
    Writer::new(Arc::new(segments), step, SystemClock::shared())
}

#[test]
fn bytes_read_back_across_files_and_stop_at_the_end() {
    let disk = TestDisk::new();
    let mut writer = log_of(&disk, 64);
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
    assert_eq!(segments.read_at(100, &mut out).unwrap(), 5);
    assert_eq!(&out[..5], b"world");
    let mut copied = Vec::new();
    assert!(
        segments
            .copy_from_memory(&[(100, 3), (104, 1)], &mut copied)
            .unwrap()
    );
    assert_eq!(copied, b"word");
    assert!(!segments.copy_from_memory(&[(100, 6)], &mut copied).unwrap());
    assert_eq!(segments.read_at(105, &mut out).unwrap(), 0);
    assert_eq!(segments.read_at(1_000, &mut out).unwrap(), 0);
    assert_eq!(segments.next_file_start(5), 100);
}

#[test]
fn a_crash_keeps_synced_bytes_and_truncation_zeroes_the_rest() {
    let disk = TestDisk::new();
    let mut writer = log_of(&disk, 100);
    writer.write(&[b"durable"]).unwrap();
    writer.segments().sync(0, 7).unwrap();
    writer.write(&[b"lost"]).unwrap();
    let crashed = disk.after_crash();
    let reopened = Segments::open(crashed.files(), 100).unwrap();
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
    let disk = TestDisk::new();
    let mut writer = log_of(&disk, 100);
    for _ in 0..3 {
        writer.write(&[&[7; 60]]).unwrap();
        writer.roll(&[]).unwrap();
    }
    let segments = writer.segments();
    assert_eq!(segments.starts(), [0, 100, 200, 300]);
    segments.truncate_to(150).unwrap();
    assert_eq!(segments.starts(), [0, 100]);
    // An empty file after a full one stays, so that the end of the log is the same after a restart.
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
    let disk = TestDisk::new();
    for start in [100, 200, 500] {
        disk.put_file(start, &[start as u8; 100]);
    }
    let segments = Segments::open(disk.files(), 100).unwrap();
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
    assert_eq!(disk.files().list().unwrap().len(), 5);
}

#[test]
fn a_removed_file_stays_readable_for_its_readers() {
    let disk = TestDisk::new();
    let mut writer = log_of(&disk, 100);
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
    assert_eq!(disk.files().list().unwrap().len(), 1);
}

#[test]
fn a_half_removed_file_is_gone_after_the_next_attempt() {
    let disk = TestDisk::new();
    let mut writer = log_of(&disk, 100);
    writer.write(&[b"first"]).unwrap();
    writer.roll(&[]).unwrap();
    disk.files().remove(0).unwrap();
    let segments = writer.segments();
    assert_eq!(segments.remove_first().unwrap().unwrap().start(), 0);
    assert_eq!(segments.min_offset(), 100);
    segments.retire_before(100).unwrap();
}

#[test]
fn a_file_of_another_size_is_refused() {
    let disk = TestDisk::new();
    disk.put_file(0, &[0; 64]);
    let error = Segments::open(disk.files(), 100).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_slow_removal_holds_up_neither_readers_nor_the_writer() {
    let disk = TestDisk::new();
    let removals = disk.hook.gate(Kind::Remove);
    let mut writer = log_of(&disk, 100);
    writer.write(&[b"first"]).unwrap();
    writer.roll(&[]).unwrap();
    let segments = Arc::clone(writer.segments());
    removals.close();
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| segments.remove_first());
        while removals.waiting() == 0 {
            std::thread::yield_now();
        }
        // The removal has started and ends only when the gate opens, so none of these calls may
        // wait for it.
        let mut out = [0; 5];
        assert_eq!(segments.read_at(0, &mut out).unwrap(), 5);
        assert_eq!(&out, b"first");
        writer.write(&[b"second"]).unwrap();
        writer.roll(&[]).unwrap();
        writer.write(&[b"third"]).unwrap();
        segments.sync(0, 205).unwrap();
        segments.retire_before(200).unwrap();
        assert_eq!(segments.starts(), [0, 100, 200]);
        removals.open();
        assert_eq!(removal.join().unwrap().unwrap().unwrap().start(), 0);
    });
    assert_eq!(segments.starts(), [100, 200]);
}

#[test]
fn an_empty_log_may_begin_later_and_end_a_file_with_a_copy() {
    const ENOSPC: i32 = 28;
    let disk = TestDisk::new();
    let mut writer = log_of(&disk, 100);
    writer.begin_at(300);
    let segments = Arc::clone(writer.segments());
    let range = || (segments.min_offset(), segments.max_offset());
    assert_eq!((range(), segments.appended()), ((300, 300), 300));
    disk.hook.fail(Kind::Room, ENOSPC);
    writer.write_copy(b"x").unwrap_err();
    assert_eq!((range(), segments.appended()), ((300, 300), 300));
    disk.hook.repair();
    writer.write_copy(&[b'a'; 60]).unwrap();
    writer.write_copy(&[b'b'; 40]).unwrap();
    assert_eq!((writer.remaining(), range()), (100, (300, 400)));
    writer.write_copy(b"next").unwrap();
    assert_eq!((range(), segments.starts()), ((300, 404), vec![300, 400]));
    let mut out = [0; 4];
    segments.read_at(400, &mut out).unwrap();
    assert_eq!(&out, b"next");
}
