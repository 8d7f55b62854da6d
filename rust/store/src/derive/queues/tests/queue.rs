//! Consume queues and their extensions on disk, without a log.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::derive::queues::queue::{Appended, ConsumeQueue};
use crate::derive::queues::table::ConsumeQueues;
use crate::settings::{QueueExt, Settings};
use crate::types::ReadMode;
use mq_format::consume_queue::QueueEntry;
use mq_format::consume_queue_ext::ExtUnit;
use mq_format::message::SCHEDULE_TOPIC;

/// Entries of a queue file, and bytes of a record.
const ENTRIES: i64 = 5;
const RECORD_BYTES: i64 = 100;

fn settings(has_ext: bool) -> Settings {
    Settings {
        consume_queue_file_bytes: Some(ENTRIES.unsigned_abs() * 20),
        queue_ext: QueueExt {
            enabled: has_ext,
            file_bytes: Some(100),
            ..QueueExt::default()
        },
        ..Settings::default()
    }
}

fn open(root: &Path, has_ext: bool, was_clean: bool) -> ConsumeQueues {
    ConsumeQueues::open(root, &settings(has_ext), !was_clean).unwrap()
}

/// The entry of record number `offset` in a log of equal records.
fn entry(offset: i64) -> QueueEntry {
    QueueEntry {
        physical_offset: offset * RECORD_BYTES,
        size_bytes: i32::try_from(RECORD_BYTES).unwrap(),
        tags_code: 1_000 + offset,
    }
}

fn append(queue: &ConsumeQueue, offset: i64) -> Appended {
    let bitmap = vec![7; usize::try_from(offset % 3).unwrap()];
    let unit = ExtUnit {
        tags_code: entry(offset).tags_code,
        store_timestamp_ms: 50 + offset,
        bitmap: &bitmap,
    };
    queue.append(offset, entry(offset), Some(&unit))
}

fn filled(queues: &ConsumeQueues, count: i64) -> Arc<ConsumeQueue> {
    let queue = queues.for_record("T", 0).unwrap();
    for offset in 0..count {
        assert_eq!(append(&queue, offset), Appended::New);
    }
    queues.publish(&[Arc::clone(&queue)]).unwrap();
    queues.flush().unwrap();
    queue
}

fn files(root: &Path, of: &str) -> Vec<u64> {
    let names = fs::read_dir(root.join(of).join("T/0")).unwrap();
    let mut starts: Vec<u64> = names
        .map(|name| name.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    starts.sort_unstable();
    starts
}

/// Checks tags code, store time and bitmap of every entry.
fn check_entries(queue: &ConsumeQueue, has_ext: bool) {
    let mut reader = queue.tags_codes(ReadMode::Wait);
    for offset in queue.min_offset()..queue.max_offset() {
        let unit = queue.entry(offset).unwrap();
        assert_eq!(unit.physical_offset, offset * RECORD_BYTES);
        assert_eq!(unit.is_extension_address(), has_ext, "{offset}");
        assert_eq!(reader.tags_code(&unit), Ok(Some(1_000 + offset)));
        if has_ext {
            let unit = reader.unit(&unit).unwrap().unwrap();
            assert_eq!(unit.store_timestamp_ms, 50 + offset);
            assert_eq!(unit.bitmap.len() as i64, offset % 3);
        }
    }
}

#[test]
fn expired_files_are_removed_and_the_minimum_rises() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), true, true);
    let queue = filled(&queues, 12);
    assert_eq!(files(root.path(), "consumequeue"), [0, 100, 200]);
    // A file of the extension takes four units of 20 to 22 bytes.
    assert_eq!(files(root.path(), "consumequeue_ext"), [0, 100, 200]);
    let old = queue.files.open(0).unwrap();

    assert_eq!(
        queue.delete_before(450).unwrap(),
        2,
        "one of the queue, one of the extension"
    );
    assert_eq!(queue.min_offset(), 5);
    assert_eq!(files(root.path(), "consumequeue"), [100, 200]);
    assert_eq!(queue.delete_before(450).unwrap(), 0);
    assert_eq!(queue.delete_before(i64::MAX).unwrap(), 1);
    assert_eq!(files(root.path(), "consumequeue"), [200], "never the last");
    assert_eq!((queue.min_offset(), queue.max_offset()), (12, 12));
    queue.set_min_from(0);
    assert_eq!(queue.min_offset(), 12, "never down");

    // A reader that opened the file before can still read it, and appending continues.
    old.read_exact_at(&mut [0; 20], 80).unwrap();
    assert_eq!(append(&queue, 12), Appended::New);
    queue.publish().unwrap();
    queue.flush().unwrap();
    check_entries(&queue, true);
    drop((queue, queues));
    let queue = open(root.path(), true, false).get("T", 0).unwrap();
    assert_eq!(queue.max_offset(), 13);
}

#[test]
fn a_flush_after_the_file_expired_does_no_harm() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), false, true);
    let queue = queues.for_record("T", 0).unwrap();
    for offset in 0..11 {
        append(&queue, offset);
    }
    queue.publish().unwrap();
    queue.write_pending().unwrap();
    assert_eq!(queue.delete_before(1_000).unwrap(), 2);
    queue.flush().unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (10, 11));
}

#[test]
fn the_extension_continues_at_its_end() {
    for was_clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        drop(filled(&open(root.path(), true, true), 6));
        let queues = open(root.path(), true, was_clean);
        let queue = queues.get("T", 0).unwrap();
        check_entries(&queue, true);
        for offset in 6..12 {
            assert_eq!(append(&queue, offset), Appended::New);
        }
        queue.publish().unwrap();
        check_entries(&queue, true);
        assert_eq!(queue.max_offset(), 12);
        queue.truncate(4 * RECORD_BYTES).unwrap();
        check_entries(&queue, true);
        assert_eq!(queue.max_offset(), 4);
        assert_eq!(files(root.path(), "consumequeue_ext"), [0]);
        let bytes = fs::read(
            root.path()
                .join("consumequeue_ext/T/0/00000000000000000000"),
        );
        assert_eq!(
            bytes.unwrap()[83..],
            [0; 17],
            "nothing is behind the last unit"
        );
    }
}

#[test]
fn entries_without_their_extension_are_rebuilt() {
    for was_clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        drop(filled(&open(root.path(), true, true), 10));
        let lost = root
            .path()
            .join("consumequeue_ext/T/0/00000000000000000100");
        fs::write(&lost, [0; 100]).unwrap();
        // After a clean stop only the end is checked.
        fs::write(lost.with_file_name("00000000000000000200"), [0; 100]).unwrap();
        let queues = open(root.path(), true, was_clean);
        let queue = queues.get("T", 0).unwrap();
        assert_eq!(queue.max_offset(), 4);
        assert_eq!(queues.lost_from(), Some(400));
        for offset in 4..10 {
            assert_eq!(append(&queue, offset), Appended::New);
        }
        queue.publish().unwrap();
        check_entries(&queue, true);
    }
}

#[test]
fn the_extension_can_be_enabled_and_disabled() {
    let root = tempfile::tempdir().unwrap();
    drop(filled(&open(root.path(), false, true), 3));
    let queues = open(root.path(), true, true);
    let queue = queues.get("T", 0).unwrap();
    assert!(append(&queue, 3) == Appended::New && append(&queue, 4) == Appended::New);
    queue.publish().unwrap();
    let is_in_ext = |offset| queue.entry(offset).unwrap().is_extension_address();
    assert!(!is_in_ext(2) && is_in_ext(3) && is_in_ext(4));
    queue.flush().unwrap();
    let queues = open(root.path(), false, false);
    let queue = queues.get("T", 0).unwrap();
    append(&queue, 5);
    queue.publish().unwrap();
    let unit = queue.entry(4).unwrap();
    assert_eq!(
        queue.tags_codes(ReadMode::Wait).tags_code(&unit),
        Ok(Some(1_004))
    );
    assert_eq!(queue.entry(5).unwrap(), entry(5));
}

/// The blank entries of a queue, by offset.
fn holes(queue: &ConsumeQueue) -> Vec<i64> {
    let (first, end) = queue.written();
    let is_hole = |offset: &i64| queue.stored_entry(*offset).unwrap().is_hole();
    (first..end).filter(is_hole).collect()
}

#[test]
fn a_late_first_entry_follows_blank_entries_of_its_file() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), false, true);
    let queue = queues.for_record("T", 0).unwrap();
    assert_eq!(append(&queue, 8), Appended::New);
    queue.publish().unwrap();
    queue.flush().unwrap();
    assert_eq!(files(root.path(), "consumequeue"), [100]);
    assert_eq!((queue.min_offset(), queue.max_offset()), (8, 9));
    assert_eq!(holes(&queue), [5, 6, 7]);
    let hole = queue.stored_entry(5).unwrap();
    assert_eq!(
        (hole.physical_offset, hole.size_bytes, hole.tags_code),
        (0, i32::MAX, 0)
    );
    for was_clean in [true, false] {
        let queues = open(root.path(), false, was_clean);
        let queue = queues.get("T", 0).unwrap();
        assert_eq!((queue.max_offset(), queue.end_physical()), (9, 900));
        queue.set_min_from(0);
        assert_eq!(queue.min_offset(), 8);
    }
}

#[test]
fn offsets_without_a_record_become_holes() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), false, true);
    let queue = filled(&queues, 3);
    assert_eq!(append(&queue, 7), Appended::New);
    queue.publish().unwrap();
    assert_eq!(holes(&queue), [3, 4, 5, 6]);
    assert_eq!(queue.entry(7), Some(entry(7)));
    // Blank entries at the end of a file, which are all that is left after the log start has moved.
    assert_eq!(append(&queue, 20), Appended::New);
    queue.publish().unwrap();
    queue.write_pending().unwrap();
    assert_eq!(queue.delete_before(701).unwrap(), 4);
    assert_eq!((queue.min_offset(), queue.max_offset()), (20, 21));
}

#[test]
fn a_hole_points_to_the_next_record_if_few_and_not_delayed() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), false, true);
    for (topic, behind, expected) in [
        ("T", 3, entry(3).hole_before()),
        ("T", 36, entry(36).hole_before()),
        ("T", 70, QueueEntry::HOLE),
        (SCHEDULE_TOPIC, 3, QueueEntry::HOLE),
    ] {
        let queue = queues.for_record(topic, 0).unwrap();
        append(&queue, 0);
        append(&queue, behind);
        queue.publish().unwrap();
        assert_eq!(
            queue.stored_entry(behind - 1),
            Some(expected),
            "{topic} {behind}"
        );
    }
}

#[test]
fn existing_entries_are_not_appended_again() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), false, true);
    let queue = filled(&queues, 6);
    for offset in [5, 0, 3] {
        assert_eq!(append(&queue, offset), Appended::Duplicate, "{offset}");
    }
    // A new record with a lower offset, and an old one with a higher: RocketMQ drops both.
    let late = QueueEntry {
        physical_offset: 900,
        ..entry(2)
    };
    assert_eq!(queue.append(2, late, None), Appended::Duplicate);
    assert_eq!(queue.append(9, entry(4), None), Appended::Duplicate);
    assert_eq!(append(&queue, 6), Appended::New);
    queue.publish().unwrap();
    assert_eq!(queue.max_offset(), 7);
    assert!(holes(&queue).is_empty());
}

#[test]
fn a_much_too_large_offset_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), false, true);
    let queue = filled(&queues, 1);
    for offset in [-1, i64::MIN, i64::MAX, 5_000_000] {
        assert_eq!(queue.append(offset, entry(1), None), Appended::Refused);
    }
    assert_eq!(append(&queue, 1), Appended::New);
    assert!(queues.for_record("../T", 0).is_none());
    assert!(queues.for_record("T", -1).is_none());
}

#[test]
fn too_long_extension_units_are_not_stored() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), true, true);
    let queue = queues.for_record("T", 0).unwrap();
    // A file of 100 bytes uses 4 for its end mark.
    for (offset, bytes) in [76, 77, 40_000].into_iter().enumerate() {
        let bitmap = vec![1; bytes];
        let offset = offset as i64;
        let ext = ExtUnit {
            tags_code: 7,
            store_timestamp_ms: 1,
            bitmap: &bitmap,
        };
        queue.append(offset, entry(offset), Some(&ext));
    }
    queue.publish().unwrap();
    let is_in_ext = |offset| queue.entry(offset).unwrap().is_extension_address();
    assert!(is_in_ext(0) && !is_in_ext(1) && !is_in_ext(2));
    assert_eq!(append(&queue, 3), Appended::New);
    queue.publish().unwrap();
    assert_eq!(files(root.path(), "consumequeue_ext"), [0, 100]);
    let first = root
        .path()
        .join("consumequeue_ext/T/0/00000000000000000000");
    assert_eq!(fs::read(first).unwrap()[96..], [0xFF, 0xFF, 0, 0]);
}

#[test]
fn files_of_another_length_are_refused_by_name_and_key() {
    let root = tempfile::tempdir().unwrap();
    drop(filled(&open(root.path(), true, true), 3));
    // One file of another length may be damaged. Two mean that the setting is wrong.
    let ext = root.path().join("consumequeue_ext/T");
    fs::create_dir(ext.join("1")).unwrap();
    let file = ext.join("0/00000000000000000000");
    fs::copy(&file, ext.join("1/00000000000000000000")).unwrap();
    let mut settings = settings(true);
    settings.queue_ext.file_bytes = Some(200);
    let refused = ConsumeQueues::open(root.path(), &settings, false).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("consumequeue_ext/T/0/00000000000000000000 has 100 bytes"),
        "{text}"
    );
    assert!(text.contains("mappedFileSizeConsumeQueueExt"), "{text}");
    settings.queue_ext.file_bytes = None;
    let queue = ConsumeQueues::open(root.path(), &settings, false).unwrap();
    check_entries(&queue.get("T", 0).unwrap(), true);
}

#[test]
fn an_empty_last_file_is_accepted() {
    let root = tempfile::tempdir().unwrap();
    drop(filled(&open(root.path(), true, true), 4));
    for of in ["consumequeue", "consumequeue_ext"] {
        let next = root.path().join(of).join("T/0/00000000000000000100");
        fs::write(next, b"").unwrap();
    }
    let queue = open(root.path(), true, false).get("T", 0).unwrap();
    assert_eq!(queue.max_offset(), 4);
    assert_eq!(files(root.path(), "consumequeue"), [0]);
    assert_eq!(files(root.path(), "consumequeue_ext"), [0]);
    check_entries(&queue, true);
}
