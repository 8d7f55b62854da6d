//! Results of reads over real stores.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, fadvise};

use crate::files::offset_name;
use crate::filter::MessageFilter;
use crate::settings::Settings;
use crate::store::Store;
use crate::tests::store_rig::{HOUR_MS, LOG_FILE, Rig, rig, rig_with, settings};
use crate::tests::test_rig::request;
use crate::types::{GetRequest, GetResult, GetStatus, PutRequest, ReadMode, WouldBlock};
use mq_base::clock::ManualClock;
use mq_format::message::java_hash;
use mq_log::{IoHook, Operation, Target, watch};
use mq_testing::stores::unpack;

/// Entries of a consume queue file of the rig.
const FILE_ENTRIES: i64 = 10;

fn asked<'a>(filter: &'a MessageFilter, offset: i64, max_count: i32) -> GetRequest<'a> {
    GetRequest {
        topic: "T",
        queue_id: 1,
        offset,
        max_count,
        filter,
        mode: ReadMode::Wait,
    }
}

fn get(rig: &Rig, offset: i64, max_count: i32) -> GetResult {
    let all = MessageFilter::All;
    rig.store
        .get(&asked(&all, offset, max_count), &mut Vec::new())
        .unwrap()
}

fn status(rig: &Rig, offset: i64) -> (GetStatus, i64) {
    let result = get(rig, offset, 32);
    (result.status, result.next_begin_offset)
}

/// Puts small messages with these tags into an empty store.
fn put_tags(rig: &Rig, tags: &[&str]) {
    for tag in tags {
        let properties = format!("TAGS\x01{tag}");
        let put = rig.store.put(&PutRequest {
            properties: properties.as_bytes(),
            ..request("T", b"small")
        });
        rig.store.wait(put);
    }
    rig.wait_until_flushed();
}

fn tags(wanted: &[&str]) -> MessageFilter {
    MessageFilter::Codes(wanted.iter().map(|tag| java_hash(tag)).collect())
}

#[test]
fn found_and_not_matched() {
    let rig = rig();
    put_tags(&rig, &["A", "B", "B", "A"]);
    let found = get(&rig, 1, 2);
    assert_eq!(found.status, GetStatus::Found);
    assert_eq!((found.message_count, found.next_begin_offset), (2, 3));
    assert_eq!((found.min_offset, found.max_offset), (0, 4));
    let (only_a, none) = (tags(&["A"]), tags(&["C"]));
    let mut records = Vec::new();
    let filtered = rig.store.get(&asked(&only_a, 0, 32), &mut records).unwrap();
    assert_eq!((filtered.message_count, filtered.next_begin_offset), (2, 4));
    let unmatched = rig.store.get(&asked(&none, 0, 32), &mut records).unwrap();
    assert_eq!(unmatched.status, GetStatus::NoMatchedMessage);
    assert_eq!(
        unmatched.next_begin_offset, 4,
        "what was looked at is passed"
    );
}

#[test]
fn offsets_at_and_outside_the_bounds() {
    let rig = rig();
    assert_eq!(status(&rig, 0), (GetStatus::NoMessageInQueue, 0));
    assert_eq!(status(&rig, 7), (GetStatus::NoMessageInQueue, 0));
    rig.put("T", 12);
    assert_eq!(status(&rig, 12), (GetStatus::OffsetOverflowOne, 12));
    assert_eq!(status(&rig, 13), (GetStatus::OffsetOverflowBadly, 12));
    assert_eq!(status(&rig, -1), (GetStatus::OffsetTooSmall, 0));
    rig.clock.advance(80 * HOUR_MS);
    rig.store.clean();
    assert_eq!(status(&rig, 0), (GetStatus::OffsetTooSmall, 10));
    assert_eq!(status(&rig, 9), (GetStatus::OffsetTooSmall, 10));
    assert_eq!(status(&rig, 10), (GetStatus::Found, 12));
}

#[test]
fn impossible_queues_are_not_found() {
    let rig = rig();
    for (topic, queue_id) in [("T", -1), ("", 0), ("a/b", 0), ("..", 0)] {
        let all = MessageFilter::All;
        let request = GetRequest {
            topic,
            queue_id,
            ..asked(&all, 3, 32)
        };
        let result = rig.store.get(&request, &mut Vec::new()).unwrap();
        assert_eq!(result.status, GetStatus::NoMatchedLogicQueue, "{topic}");
        assert_eq!(result.next_begin_offset, 0);
    }
}

#[test]
fn messages_in_a_deleted_file_are_passed() {
    let rig = rig();
    rig.put("T", 12);
    // The log is shorter already, but the queue's minimum has not been raised.
    for _ in 0..3 {
        rig.store.log.remove_first().unwrap();
    }
    assert_eq!(
        get(&rig, 0, 1).status,
        GetStatus::Found,
        "continues after them"
    );
    for _ in 3..10 {
        rig.store.log.remove_first().unwrap();
    }
    assert_eq!(
        status(&rig, 0),
        (GetStatus::MessageWasRemoving, FILE_ENTRIES)
    );
    assert_eq!(status(&rig, 10), (GetStatus::Found, 12));
}

#[test]
fn a_missing_queue_file_is_passed_an_unreadable_one_is_not() {
    let rig = rig();
    rig.put("T", 25);
    let queue = rig.store.reader.queues.get("T", 1).unwrap();
    let close = || queue.files.shared.open.forget_all(queue.files.number);
    let files = rig.files("consumequeue/T/1");
    close();
    fs::remove_file(&files[1]).unwrap();
    assert_eq!(
        status(&rig, 13),
        (GetStatus::OffsetFoundNull, 2 * FILE_ENTRIES)
    );
    // A directory in place of the file acts like a bad disk: it opens, but cannot be read.
    fs::create_dir(&files[1]).unwrap();
    assert_eq!(status(&rig, 13), (GetStatus::OffsetFoundNull, 13));
    assert_eq!(status(&rig, 24), (GetStatus::Found, 25));
}

/// Fails the reads of one log file while enabled.
#[derive(Debug)]
struct BadDisk {
    name: String,
    is_bad: AtomicBool,
}

impl IoHook for BadDisk {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let is_read = matches!(operation, Operation::Read(..)) && target.path.ends_with(&self.name);
        match is_read && self.is_bad.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(0),
        }
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

#[test]
fn an_unreadable_message_is_not_passed() {
    let rig = rig();
    rig.put("T", 3);
    let disk = Arc::new(BadDisk {
        name: offset_name(LOG_FILE),
        is_bad: AtomicBool::new(false),
    });
    let _watch = watch(rig.root.path(), Arc::clone(&disk) as Arc<dyn IoHook>);
    let rig = rig.reopen(false);
    disk.is_bad.store(true, Ordering::SeqCst);
    let before = get(&rig, 0, 32);
    assert_eq!(before.status, GetStatus::Found);
    assert_eq!((before.message_count, before.next_begin_offset), (1, 1));
    assert_eq!(status(&rig, 1), (GetStatus::OffsetFoundNull, 1));
    assert_eq!(status(&rig, 2), (GetStatus::Found, 3));
    disk.is_bad.store(false, Ordering::SeqCst);
    assert_eq!(get(&rig, 1, 32).message_count, 2);
}

#[test]
fn a_reset_group_gets_its_new_offset_once() {
    let rig = rig();
    rig.put("T", 3);
    let store = &rig.store;
    store.commit("g", "T", 1, 3, usize::MAX);
    assert_eq!(store.take_reset("g", "T", 1), None);
    store.reset_offset("g", "T", 1, 1);
    assert_eq!(store.committed("g", "T", 1), Some(1));
    let moved = store.take_reset("g", "T", 1).unwrap();
    assert_eq!(
        (moved.status, moved.next_begin_offset),
        (GetStatus::OffsetReset, 1)
    );
    assert_eq!((moved.min_offset, moved.max_offset), (0, 3));
    assert_eq!(store.take_reset("g", "T", 1), None, "reported once");
    assert_eq!(moved.status.as_str(), "OFFSET_RESET");
}

#[test]
fn filters_use_the_tags_code_of_the_extension() {
    let root = unpack("store-ext");
    let clock = ManualClock::at(0);
    let settings = Settings {
        min_free_bytes: Some(0),
        ..Settings::default()
    };
    let store = Store::open(root.path(), settings, clock, false).unwrap();
    for (queue_id, tag, count) in [(0, "T0", 34), (0, "T2", 30), (1, "T1", 30), (1, "T3", 30)] {
        let filter = tags(&[tag]);
        let (mut offset, mut seen) = (0, 0);
        while offset < store.max_offset("TopicExt", queue_id) {
            let request = GetRequest {
                topic: "TopicExt",
                queue_id,
                ..asked(&filter, offset, 32)
            };
            let got = store.get(&request, &mut Vec::new()).unwrap();
            assert!(got.next_begin_offset > offset);
            (offset, seen) = (got.next_begin_offset, seen + got.message_count);
        }
        assert_eq!(seen, count, "{tag}: no other tag's message passes");
    }
}

#[test]
fn limits_differ_for_messages_in_memory_and_on_disk() {
    let rig_of = |hot_memory_percent, count, bytes| {
        rig_with(Settings {
            hot_memory_percent,
            max_transfer_memory: (6, 1 << 20),
            max_transfer_disk: (count, bytes),
            ..settings()
        })
    };
    let near_the_end = rig_of(40, 1, 1);
    put_tags(&near_the_end, &["A"; 20]);
    let found = get(&near_the_end, 0, 32);
    assert_eq!((found.message_count, found.suggest_slave), (6, false));
    let far_from_it = rig_of(0, 1, 1);
    put_tags(&far_from_it, &["A"; 20]);
    let found = get(&far_from_it, 0, 32);
    let of_memory = (6, true);
    assert_eq!((found.message_count, found.suggest_slave), of_memory);
    for (count, bytes, expected) in [(4, 1 << 20, 4), (8, 20_000, 2), (8, 1, 1)] {
        let on_disk = rig_of(0, count, bytes);
        on_disk.put("T", 9);
        if forget_pages(&on_disk) {
            let found = get(&on_disk, 0, 32);
            assert_eq!((found.message_count, found.suggest_slave), (expected, true));
        }
    }
    let rig = rig();
    put_tags(&rig, &["A"; 3]);
    assert_eq!(get(&rig, 0, 2).message_count, 2, "what was asked for");
}

#[test]
fn a_scan_ends_after_800_entries_or_with_the_file() {
    let rig = rig_with(Settings {
        consume_queue_file_bytes: Some(20_000),
        ..settings()
    });
    let mut all = vec!["A"; 1_100];
    all[1_050] = "B";
    put_tags(&rig, &all);
    let only_b = tags(&["B"]);
    let scan = |offset, max_count| {
        let asked = asked(&only_b, offset, max_count);
        let result = rig.store.get(&asked, &mut Vec::new()).unwrap();
        (result.status, result.next_begin_offset)
    };
    assert_eq!(scan(0, 32), (GetStatus::NoMatchedMessage, 800));
    assert_eq!(
        scan(0, 900),
        (GetStatus::NoMatchedMessage, 900),
        "as many as asked for"
    );
    assert_eq!(
        scan(800, 32),
        (GetStatus::NoMatchedMessage, 1_000),
        "the file's end"
    );
    assert_eq!(scan(1_000, 32), (GetStatus::Found, 1_100));
}

#[test]
fn a_record_with_a_wrong_offset_is_skipped() {
    let rig = rig();
    rig.put("T", 3);
    let file = &rig.files("commitlog")[1];
    let mut bytes = fs::read(file).unwrap();
    // Its physical offset field is wrong.
    bytes[35] ^= 1;
    fs::write(file, bytes).unwrap();
    let mut records = Vec::new();
    let all = MessageFilter::All;
    let result = rig.store.get(&asked(&all, 0, 32), &mut records).unwrap();
    assert_eq!((result.message_count, result.next_begin_offset), (2, 3));
    assert_eq!(
        rig.store.get_at(LOG_FILE.cast_signed(), ReadMode::Wait),
        Ok(None)
    );
}

#[test]
fn a_read_that_must_not_wait_fails_if_not_in_memory() {
    let rig = rig();
    rig.put("T", 4);
    rig.wait_until_flushed();
    if !forget_pages(&rig) {
        // Such a file system keeps its files in memory.
        return;
    }
    let all = MessageFilter::All;
    let no_wait = GetRequest {
        mode: ReadMode::NoWait,
        ..asked(&all, 0, 1)
    };
    let mut records = vec![7];
    assert_eq!(rig.store.get(&no_wait, &mut records), Err(WouldBlock));
    assert_eq!(records, [7], "nothing is left behind");
    // A different file, because the kernel may already read ahead in the first one.
    let other = LOG_FILE.cast_signed();
    assert_eq!(rig.store.get_at(other, ReadMode::NoWait), Err(WouldBlock));
    assert_eq!(get(&rig, 0, 32).message_count, 4, "a read that may wait");
    let warm = rig.store.get(&no_wait, &mut records).unwrap();
    assert_eq!(warm.message_count, 1, "now it is in memory");
}

/// Makes the kernel drop the log's pages from the page cache; false if it does not.
fn forget_pages(rig: &Rig) -> bool {
    for path in rig.files("commitlog") {
        let file = fs::File::open(path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
    let log = &rig.store.log;
    let read = log.read_at_nowait(2 * LOG_FILE, &mut [0; 16]).unwrap();
    read.is_none()
}

#[test]
fn an_entry_with_a_damaged_offset_breaks_no_arithmetic() {
    let rig = rig();
    put_tags(&rig, &["a", "b"]);
    rig.store.flush().unwrap();
    let file = rig.root.path().join("consumequeue/T/1");
    let file = fs::File::options()
        .write(true)
        .open(file.join(offset_name(0)))
        .unwrap();
    file.write_all_at(&i64::MIN.to_be_bytes(), 20).unwrap();
    // The first pull may find the entry damaged, and repairs it.
    let is_found = |_| get(&rig, 1, 1).status == GetStatus::Found;
    assert!((0..3).any(is_found));
}
