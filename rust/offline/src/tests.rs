//! Scans stores that Java wrote, without changing them.

use std::fs;
use std::path::Path;

use super::Scan;
use mq_store::StoreError;
use mq_testing::stores::{lines, snapshot, unpack};

fn open(root: &Path) -> Scan {
    Scan::open(root).unwrap()
}

#[test]
fn a_healthy_store_verifies_and_stays_untouched() {
    let root = unpack("store");
    let before = snapshot(root.path());
    let scan = open(root.path());
    let report = scan.verify(&mut |_| true).unwrap();
    assert_eq!(report.findings, []);
    let expected = lines("store/expected.jsonl.gz");
    let records = expected.iter().filter(|line| line["storeSize"].is_i64());
    let records: Vec<_> = records
        .map(|line| line["physicalOffset"].as_i64().unwrap())
        .collect();
    assert_eq!(report.records, records.len() as u64);
    assert_eq!(
        report.queue_entries,
        lines("store/consumequeue.jsonl.gz").len() as u64
    );
    let entries = lines("store/index.jsonl.gz");
    let entries = entries.iter().filter(|line| line["keyHash"].is_i64());
    assert_eq!(report.index_entries, entries.count() as u64);

    let (mut offset, mut found) = (scan.min_physical_offset(), Vec::new());
    loop {
        let chunk = scan.records(offset, 10_000, true).unwrap();
        if chunk.next_offset == offset {
            break;
        }
        offset = chunk.next_offset;
        found.extend(chunk.physical_offsets);
    }
    assert_eq!(found, records);
    assert_eq!(scan.queues().unwrap().len(), 37);
    for case in lines("store/querykeys.jsonl.gz") {
        let (topic, key) = (
            case["topic"].as_str().unwrap(),
            case["key"].as_str().unwrap(),
        );
        let mut hits = scan.lookup(topic, key, 64, 0, i64::MAX).unwrap();
        hits.sort_unstable();
        let messages = case["messages"].as_array().unwrap();
        let expected = messages
            .iter()
            .map(|message| message["physicalOffset"].as_i64().unwrap());
        assert!(expected.eq(hits), "{topic} {key}");
    }
    assert!(snapshot(root.path()) == before);
}

#[test]
fn sizes_are_detected() {
    let root = unpack("store");
    let layout = open(root.path()).layout();
    assert_eq!(layout.commit_log_file_bytes, Some(65_536));
    assert_eq!(layout.consume_queue_file_bytes, Some(6_000));
    assert_eq!(
        (layout.index_slots, layout.index_entries),
        (Some(100), Some(400))
    );
}

#[test]
fn queue_entries_continue_across_files() {
    let root = unpack("store");
    let scan = open(root.path());
    let all = scan.queue_entries("TopicRoll", 0, 0, usize::MAX).unwrap();
    assert_eq!(all.len(), 330 * 20);
    let some = scan.queue_entries("TopicRoll", 0, 298, 4).unwrap();
    assert_eq!(some, all[298 * 20..302 * 20]);
    assert!(scan.queue_entries("TopicRoll", 9, 0, 4).unwrap().is_empty());
    assert!(
        scan.queue_entries("../commitlog", 0, 0, 4)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn verify_names_the_damaged_record() {
    let root = unpack("store-damaged");
    let report = open(root.path()).verify(&mut |_| true).unwrap();
    let kinds: Vec<_> = report
        .findings
        .iter()
        .map(|found| (found.kind, found.offset))
        .collect();
    assert_eq!(kinds, [("crc", 219_148)]);

    let root = unpack("store");
    let queue = root
        .path()
        .join("consumequeue/TopicKeys/1/00000000000000000000");
    let mut bytes = fs::read(&queue).unwrap();
    bytes[7] ^= 1;
    fs::write(&queue, bytes).unwrap();
    fs::remove_dir_all(root.path().join("consumequeue/TopicBatch")).unwrap();
    let report = open(root.path()).verify(&mut |_| true).unwrap();
    let count = |kind| {
        report
            .findings
            .iter()
            .filter(|found| found.kind == kind)
            .count()
    };
    assert!(count("queue_entry") >= 1, "{:?}", report.findings);
    assert_eq!(count("queue_missing"), 5);
}

#[test]
fn a_check_stops_when_progress_returns_false() {
    let root = unpack("store");
    let report = open(root.path()).verify(&mut |_| false).unwrap();
    assert!(report.records < 300);
}

#[test]
fn other_directories_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let refused = Scan::open(root.path()).unwrap_err();
    assert!(
        matches!(refused, StoreError::UnknownLayout { .. }),
        "{refused}"
    );
    Scan::open(&root.path().join("none")).unwrap_err();
    fs::create_dir(root.path().join("commitlog")).unwrap();
    let scan = open(root.path());
    assert_eq!(scan.max_physical_offset(), 0);
    assert!(
        scan.records(0, 1, true)
            .unwrap()
            .physical_offsets
            .is_empty()
    );
    assert_eq!(scan.verify(&mut |_| true).unwrap().records, 0);
}
