//! Queues and extensions derived from logs of Java must equal Java's files byte for byte.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::derive::dispatch::Dispatch;
use crate::derive::queues::table::ConsumeQueues;
use crate::scan::log_scanner::LogScanner;
use crate::settings::{MultiDispatch, QueueExt, Settings};
use crate::store::Store;
use crate::types::ReadMode;
use mq_base::clock::SystemClock;
use mq_format::delay_levels::DelayLevels;
use mq_log::{Directory, Segments, WriteMode};
use mq_testing::stores::{lines, snapshot, unpack};

fn settings() -> Settings {
    Settings {
        consume_queue_file_bytes: Some(6_000),
        queue_ext: QueueExt {
            enabled: true,
            file_bytes: Some(2_048),
            ..QueueExt::default()
        },
        multi_dispatch: MultiDispatch {
            enabled: true,
            lmq_enabled: true,
            ..MultiDispatch::default()
        },
        index_slots: Some(100),
        index_entries: Some(400),
        ..Settings::default()
    }
}

fn without_ext() -> Settings {
    Settings {
        queue_ext: QueueExt::default(),
        ..settings()
    }
}

/// The files of the queues, with their extensions.
fn queue_files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = snapshot(root);
    files.retain(|path, _| path.starts_with("consumequeue"));
    files
}

/// Bitmaps of the extension, by the physical offset of the message.
fn golden_bitmaps() -> HashMap<i64, Vec<u8>> {
    let int = |line: &serde_json::Value, key: &str| line[key].as_i64().unwrap();
    let queue = |line: &serde_json::Value| int(line, "queueId");
    let mut bitmaps = HashMap::new();
    for line in lines("store-ext/consumequeue_ext.jsonl.gz") {
        if let Some(hex) = line["bitMapHex"].as_str() {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let bitmap: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            bitmaps.insert((queue(&line), int(&line, "address")), bitmap);
        }
    }
    let units = lines("store-ext/consumequeue.jsonl.gz");
    let of_unit = |line: &serde_json::Value| {
        let bitmap = bitmaps[&(queue(line), int(line, "tagsCode"))].clone();
        (int(line, "offset"), bitmap)
    };
    units.iter().map(of_unit).collect()
}

/// Derives the queues again from the whole log.
fn derive(root: &Path, settings: &Settings, bitmaps: HashMap<i64, Vec<u8>>) {
    let workshop = root.join("mqstack");
    let files = Directory::open(&root.join("commitlog"), &workshop, WriteMode::Write).unwrap();
    let log = Segments::open(files, 65_536).unwrap();
    let queues = Arc::new(ConsumeQueues::open(root, settings, false).unwrap());
    let levels = DelayLevels::parse(&settings.delay_levels).unwrap();
    let derived = Dispatch::new(Arc::clone(&queues), None, levels);
    let mut derived = derived.with_multi_dispatch(settings.multi_dispatch);
    let source = move |record: &mq_format::message::RecordView<'_>| {
        let bitmap = &bitmaps[&record.physical_offset];
        (!bitmap.is_empty()).then(|| bitmap.clone())
    };
    let bitmaps = derived.bitmaps();
    bitmaps.register(Box::new(source), &Arc::default()).unwrap();
    let mut scanner = LogScanner::from(0);
    // The last file is not full: the first bytes that are no record end the log.
    let end = derived.follow(&log, &mut scanner, log.max_offset(), None);
    assert!(end.is_err());
    derived
        .follow(
            &log,
            &mut LogScanner::from(scanner.offset()),
            scanner.offset(),
            None,
        )
        .unwrap();
    queues.flush().unwrap();
}

fn assert_same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
    for (path, bytes) in expected {
        assert!(found[path] == *bytes, "{path}");
    }
}

#[test]
fn the_extension_is_javas_byte_for_byte() {
    let root = unpack("store-ext");
    let expected = queue_files(root.path());
    assert!(expected.len() == 5, "{:?}", expected.keys());
    fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    fs::remove_dir_all(root.path().join("consumequeue_ext")).unwrap();
    derive(root.path(), &settings(), golden_bitmaps());
    assert_same(&queue_files(root.path()), &expected);
}

#[test]
fn light_queues_are_javas_byte_for_byte() {
    let root = unpack("store-lmq");
    let expected = queue_files(root.path());
    assert!(expected.contains_key("consumequeue/%LMQ%alice/0/00000000000000000000"));
    fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    derive(root.path(), &without_ext(), HashMap::new());
    assert_same(&queue_files(root.path()), &expected);
}

#[test]
fn missing_queues_are_rebuilt_at_open() {
    for gone in ["%LMQ%bob", "TopicLmq", ""] {
        for was_clean in [true, false] {
            let root = unpack("store-lmq");
            let expected = queue_files(root.path());
            fs::remove_dir_all(root.path().join("consumequeue").join(gone)).unwrap();
            if !was_clean {
                fs::write(root.path().join("abort"), b"").unwrap();
            }
            reopen(root.path(), &without_ext());
            assert_same(&queue_files(root.path()), &expected);
        }
    }
}

fn reopen(root: &Path, settings: &Settings) {
    let store = Store::open(root, settings.clone(), SystemClock::shared(), false).unwrap();
    store.close().unwrap();
}

#[test]
fn opening_changes_no_extension() {
    for was_clean in [true, false] {
        for settings in [settings(), without_ext()] {
            let root = unpack("store-ext");
            let expected = queue_files(root.path());
            if !was_clean {
                fs::write(root.path().join("abort"), b"").unwrap();
            }
            reopen(root.path(), &settings);
            reopen(root.path(), &settings);
            assert_same(&queue_files(root.path()), &expected);
        }
    }
}

#[test]
fn a_missing_extension_is_rebuilt_with_its_queue() {
    for was_clean in [true, false] {
        let root = unpack("store-ext");
        fs::remove_dir_all(root.path().join("consumequeue_ext")).unwrap();
        if !was_clean {
            fs::write(root.path().join("abort"), b"").unwrap();
        }
        reopen(root.path(), &settings());
        check_ext(root.path(), |_| true);
    }
}

#[test]
fn every_field_of_the_extension_is_read() {
    let root = unpack("store-ext");
    let bitmaps = golden_bitmaps();
    check_ext(root.path(), |(physical_offset, bitmap)| {
        bitmaps[&physical_offset] == bitmap
    });
}

/// Checks tags code and store time of each entry against the golden list.
fn check_ext(root: &Path, is_bitmap: impl Fn((i64, &[u8])) -> bool) {
    let (queues, unsound) = ConsumeQueues::load_sound(root, Some(6_000)).unwrap();
    assert!(unsound.is_empty());
    let mut next = HashMap::new();
    let units = lines("store-ext/consumequeue_ext.jsonl.gz");
    for line in units.iter().filter(|line| !line["address"].is_null()) {
        let int = |key: &str| line[key].as_i64().unwrap();
        let queue_id = int("queueId") as i32;
        let queue = queues.get("TopicExt", queue_id).unwrap();
        let offset = next.entry(queue_id).or_insert(0);
        let entry = queue.entry(*offset).unwrap();
        *offset += 1;
        assert!(entry.is_extension_address());
        let mut reader = queue.tags_codes(ReadMode::Wait);
        assert_eq!(reader.tags_code(&entry), Ok(Some(int("tagsCode"))));
        let unit = reader.unit(&entry).unwrap().unwrap();
        assert_eq!(unit.store_timestamp_ms, int("storeTime"));
        assert!(is_bitmap((entry.physical_offset, unit.bitmap)));
    }
    assert_eq!(next.values().sum::<i64>(), 124);
}
