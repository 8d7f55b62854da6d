//! Index files on disk, without a log.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use memmap2::MmapOptions;

use crate::derive::index::files::IndexFiles;
use crate::derive::index::writer::IndexWriter;
use mq_base::clock::ManualClock;
use mq_format::index::{IndexHeader, key_hash};
use mq_format::message::{Outline, sys_flag};
use mq_log::Access;

const SLOTS: u32 = 7;
/// One more than the number of keys of a file.
const ENTRIES: u32 = 6;
const START_MS: i64 = 1_700_000_000_000;

fn files(root: &Path) -> Arc<IndexFiles> {
    sized(root, ENTRIES)
}

fn sized(root: &Path, entries: u32) -> Arc<IndexFiles> {
    let files = IndexFiles::load(root, Some(SLOTS), Some(entries), Access::Append);
    Arc::new(files.unwrap())
}

fn writer(files: &Arc<IndexFiles>) -> IndexWriter {
    IndexWriter::resume(Arc::clone(files), ManualClock::at(START_MS)).unwrap()
}

fn add(writer: &mut IndexWriter, offset: i64, store_ms: i64, properties: &[u8], flag: i32) {
    let record = Outline {
        queue_id: 0,
        queue_offset: 0,
        sys_flag: flag,
        store_timestamp_ms: store_ms,
        topic: "T",
        properties,
    };
    writer.add_record(offset, &record).unwrap();
}

/// One message per second with one key, at multiples of 10.
fn add_many(writer: &mut IndexWriter, count: i64) {
    for at in 0..count {
        let key = format!("KEYS\x01k{at}");
        add(writer, at * 10, START_MS + at * 1_000, key.as_bytes(), 0);
    }
}

fn found(files: &IndexFiles, key: &str) -> Vec<i64> {
    files.look_up("T", key, 64, 0, i64::MAX).physical_offsets
}

fn headers(files: &IndexFiles) -> Vec<IndexHeader> {
    let files = files.files();
    files.iter().map(|file| file.header().unwrap()).collect()
}

fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = mq_testing::stores::snapshot(root);
    files.retain(|path, _| path.starts_with("index/"));
    files
}

#[test]
fn a_file_is_full_with_one_key_less_than_its_entries() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path());
    let mut writer = writer(&files);
    add_many(&mut writer, 12);
    writer.write().unwrap();
    let headers = headers(&files);
    let counts: Vec<_> = headers.iter().map(|header| header.index_count).collect();
    assert_eq!(counts, [6, 6, 3]);
    assert_eq!(headers[1].begin_physical_offset, 50);
    assert_eq!(headers[1].end_physical_offset, 90);
    assert_eq!(headers[1].begin_timestamp_ms, START_MS + 5_000);
    assert_eq!(headers[1].end_timestamp_ms, START_MS + 9_000);
    for at in 0..12 {
        assert_eq!(found(&files, &format!("k{at}")), [at * 10]);
    }
    // Entries count seconds from the file's first message. The first entry counts from the file
    // before.
    let of = |file: usize, index| files.files()[file].entry(index).unwrap();
    assert_eq!(of(1, 1).time_difference_seconds, 1);
    assert_eq!(of(1, 2).time_difference_seconds, 1);
    assert_eq!(of(1, 5).time_difference_seconds, 4);
    assert_eq!(of(0, 1).time_difference_seconds, 0);
}

#[test]
fn a_new_index_file_starts_with_the_end_of_the_last_one() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path());
    let previous = IndexHeader {
        begin_timestamp_ms: 1,
        end_timestamp_ms: 2,
        begin_physical_offset: 3,
        end_physical_offset: 4,
        hash_slot_count: 5,
        index_count: 6,
    };
    let file = files.create(START_MS, previous).unwrap();
    let header = IndexHeader {
        begin_timestamp_ms: 2,
        end_timestamp_ms: 2,
        begin_physical_offset: 4,
        end_physical_offset: 4,
        hash_slot_count: 0,
        index_count: 0,
    };
    assert_eq!(file.header().unwrap(), header);
    assert_eq!(found(&files, "k0"), [0; 0]);
    // Java leaves such a file when it is killed. The writer continues it.
    let mut writer = writer(&files);
    add(&mut writer, 10, START_MS, b"KEYS\x01a", 0);
    writer.write().unwrap();
    assert_eq!(headers(&files)[0].index_count, 2);
    assert_eq!(found(&files, "a"), [10]);
}

#[test]
fn batched_writes_give_the_same_files() {
    let write_each = tempfile::tempdir().unwrap();
    let write_all = tempfile::tempdir().unwrap();
    for (root, is_each) in [(&write_each, true), (&write_all, false)] {
        let files = sized(root.path(), 700);
        let mut writer = writer(&files);
        for at in 0..2_000_i64 {
            let keys = format!("UNIQ_KEY\x01u{at}\x02KEYS\x01a{} b{}", at % 5, at % 11);
            add(
                &mut writer,
                at * 10,
                START_MS + at * 100,
                keys.as_bytes(),
                0,
            );
            if is_each {
                writer.write().unwrap();
            }
        }
        writer.write().unwrap();
    }
    let (each, all) = (contents(write_each.path()), contents(write_all.path()));
    assert_eq!(each.len(), 9);
    assert!(each.values().eq(all.values()));
}

#[test]
fn keys_and_unique_keys_are_indexed() {
    let root = tempfile::tempdir().unwrap();
    let files = sized(root.path(), 100);
    let mut writer = writer(&files);
    let text = b"KEYS\x01 k1  k2 \x02UNIQ_KEY\x01u";
    add(&mut writer, 10, START_MS, text, 0);
    add(&mut writer, 20, START_MS, text, sys_flag::PREPARED);
    add(&mut writer, 30, START_MS, text, sys_flag::ROLLBACK);
    add(&mut writer, 40, START_MS, b"TAGS\x01a", 0);
    add(&mut writer, 15, START_MS, text, 0);
    writer.write().unwrap();
    assert_eq!(headers(&files)[0].index_count, 7);
    for key in ["u", "k1", "k2"] {
        assert_eq!(found(&files, key), [20, 10], "{key}");
    }
    let first = files.files()[0].entry(1).unwrap();
    assert_eq!(
        first.key_hash,
        key_hash("T", "u"),
        "the unique key comes first"
    );
    assert_eq!(found(&files, ""), [0; 0]);
}

#[test]
fn the_last_message_is_not_indexed_twice_after_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let text = b"KEYS\x01a a b";
    for _ in 0..3 {
        let files = files(root.path());
        let mut writer = writer(&files);
        add(&mut writer, 10, START_MS, b"KEYS\x01x", 0);
        add(&mut writer, 20, START_MS, text, 0);
        writer.write().unwrap();
        assert_eq!(found(&files, "a"), [20, 20], "named twice, there twice");
        assert_eq!(found(&files, "b"), [20]);
    }
    // The last message before the stop may lack some keys. They are added.
    let files = files(root.path());
    let mut writer = writer(&files);
    add(&mut writer, 20, START_MS, b"KEYS\x01a a b c", 0);
    add(&mut writer, 30, START_MS, b"KEYS\x01a", 0);
    writer.write().unwrap();
    assert_eq!(found(&files, "c"), [20]);
    assert_eq!(found(&files, "a"), [30, 20, 20]);
}

#[test]
fn times_bound_a_look_up_to_the_second() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path());
    let mut writer = writer(&files);
    for at in 0..12 {
        add(
            &mut writer,
            at * 10,
            START_MS + at * 1_000 + 900,
            b"KEYS\x01k",
            0,
        );
    }
    writer.write().unwrap();
    let offsets = |begin: i64, end: i64| {
        let hits = files.look_up("T", "k", 64, START_MS + begin, START_MS + end);
        hits.physical_offsets
    };
    // Files start at offsets 0, 50 and 100. Their entries count whole seconds from there.
    assert_eq!(offsets(0, 2_899), [10, 0]);
    assert_eq!(offsets(0, 2_900), [20, 10, 0]);
    assert_eq!(offsets(10_000, 20_000), [110, 100]);
    assert_eq!(offsets(3_000, 4_900), [40, 30]);
    assert_eq!(offsets(12_000, 20_000), [0; 0]);
    let newest = files.look_up("T", "k", 2, 0, i64::MAX);
    assert_eq!(newest.physical_offsets, [110, 100]);
    assert_eq!(newest.last_update_physical_offset, 110);
    assert_eq!(newest.last_update_timestamp_ms, START_MS + 11_900);
}

#[test]
fn a_clock_that_stepped_back_counts_as_no_time() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path());
    let mut writer = writer(&files);
    add(&mut writer, 10, START_MS, b"KEYS\x01a", 0);
    add(&mut writer, 20, START_MS - 5_000, b"KEYS\x01a", 0);
    writer.write().unwrap();
    let second = files.files()[0].entry(2).unwrap();
    assert_eq!(second.time_difference_seconds, 0);
    assert_eq!(found(&files, "a"), [20, 10]);
}

#[test]
fn expired_files_are_deleted_but_never_the_last() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path());
    let mut writer = writer(&files);
    add_many(&mut writer, 12);
    writer.write().unwrap();
    assert_eq!(
        files.delete_before(40).unwrap(),
        0,
        "its last message is at 40"
    );
    let old = Arc::clone(&files.files()[0]);
    assert_eq!(files.delete_before(41).unwrap(), 1);
    assert_eq!(contents(root.path()).len(), 2);
    assert_eq!(found(&files, "k4"), [0; 0]);
    assert_eq!(found(&files, "k5"), [50]);
    assert_eq!(old.header().unwrap().end_physical_offset, 40);
    assert_eq!(files.delete_before(i64::MAX).unwrap(), 1);
    assert_eq!(contents(root.path()).len(), 1);
    assert_eq!(found(&files, "k11"), [110]);
    assert_eq!(self::files(root.path()).files().len(), 1);
}

#[test]
fn a_reader_always_finds_earlier_messages() {
    let root = tempfile::tempdir().unwrap();
    let files = sized(root.path(), 5_000);
    let mut writer = writer(&files);
    let written = AtomicI64::new(0);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut looks = 0;
            while !is_done.load(Ordering::Acquire) || looks == 0 {
                // All keys share seven slots, so chains grow during the search.
                let last = written.load(Ordering::Acquire);
                if last > 0 {
                    let key = format!("k{}", last - 1);
                    assert_eq!(found(&files, &key), [(last - 1) * 10]);
                    looks += 1;
                }
            }
        });
        for at in 0..12_000_i64 {
            let key = format!("KEYS\x01k{at}");
            add(&mut writer, at * 10, START_MS + at, key.as_bytes(), 0);
            if at % 100 == 99 {
                writer.write().unwrap();
                written.store(at + 1, Ordering::Release);
            }
        }
        is_done.store(true, Ordering::Release);
    });
}

#[test]
fn pages_are_prepared_without_changing_their_bytes() {
    const MANY: u32 = 200_000;
    let root = tempfile::tempdir().unwrap();
    let is_ahead = |files: &IndexFiles, bytes: usize| {
        let file = files.files().pop().unwrap();
        let used = 40 + 4 * SLOTS + 20 * file.header().unwrap().index_count.unsigned_abs();
        let file = File::open(file.path()).unwrap();
        let map = MmapOptions::new().map_raw_read_only(&file).unwrap();
        let page = (used as usize + bytes) / 4_096 * 4_096;
        let mut state = 0;
        // SAFETY: the page is in the map, and the system writes one byte for it.
        let asked = unsafe {
            let start = map.as_mut_ptr().add(page);
            libc::mincore(start.cast(), 1, &raw mut state)
        };
        asked == 0 && state & 1 != 0
    };
    let files = sized(root.path(), MANY);
    let mut first = writer(&files);
    add_many(&mut first, 1_000);
    first.write().unwrap();
    assert!(is_ahead(&files, 500_000));
    assert!(!is_ahead(&files, 3_000_000), "not so far");
    drop(first);
    let mut again = writer(&files);
    add(&mut again, 20_000, START_MS + 2_000_000, b"KEYS\x01new", 0);
    again.write().unwrap();
    assert!(is_ahead(&files, 500_000));
    assert_eq!(found(&files, "new"), [20_000]);
    for at in 0..1_000 {
        assert_eq!(found(&files, &format!("k{at}")), [at * 10]);
    }
}
