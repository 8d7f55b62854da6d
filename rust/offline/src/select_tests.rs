//! Selects records of stores that Java wrote, also after damage.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Ended, Filter, QueueRange, Scan};
use mq_format::index::IndexEntry;
use mq_format::message::{CheckCrc, RecordView};
use mq_testing::stores::{lines, unpack};

/// The fields of a record that filters use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    at: i64,
    topic: String,
    queue_id: i32,
    tag: Option<String>,
    store_ms: i64,
}

fn seen(bytes: &[u8]) -> Vec<Seen> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while !rest.is_empty() {
        let record = RecordView::parse(rest, CheckCrc::No).unwrap();
        let tag = mq_format::properties::get_str(record.properties, "TAGS");
        found.push(Seen {
            at: record.physical_offset,
            topic: record.topic.into(),
            queue_id: record.queue_id,
            tag: tag.map(Into::into),
            store_ms: record.store_timestamp_ms,
        });
        rest = &rest[record.size()..];
    }
    found
}

/// All records that pass, read in small chunks across damage, and the damaged positions.
fn all(scan: &Scan, filter: &Filter<'_>) -> (Vec<Seen>, Vec<i64>) {
    let (mut offset, mut found, mut damaged) = (scan.min_physical_offset(), Vec::new(), Vec::new());
    loop {
        let chunk = scan.select(offset, 3_000, filter, CheckCrc::Yes).unwrap();
        let records = seen(&chunk.bytes);
        assert_eq!(records.len(), chunk.count);
        found.extend(records);
        offset = chunk.next_offset;
        match chunk.ended {
            Ended::More => {}
            Ended::Stop => return (found, damaged),
            Ended::Unreadable => match scan.next_record_after(offset).unwrap() {
                Some(next) => {
                    damaged.push(offset);
                    offset = next;
                }
                None => return (found, damaged),
            },
        }
    }
}

fn store(name: &str) -> (TempDir, Scan) {
    let root = unpack(name);
    let scan = Scan::open(root.path()).unwrap();
    (root, scan)
}

#[test]
fn each_filter_passes_only_matching_records() {
    let (_root, scan) = store("store");
    let (every, damaged) = all(&scan, &Filter::default());
    assert_eq!(damaged, [] as [i64; 0]);
    let expected = lines("store/expected.jsonl.gz");
    let records = expected.iter().filter(|line| line["storeSize"].is_i64());
    assert_eq!(every.len(), records.count());
    let middle = every[every.len() / 2].store_ms;
    let only = |keep: &dyn Fn(&Seen) -> bool| every.iter().filter(|s| keep(s)).cloned().collect();
    let check = |filter: Filter<'_>, expected: Vec<Seen>| {
        assert!(!expected.is_empty() && expected.len() < every.len());
        assert_eq!(all(&scan, &filter).0, expected, "{filter:?}");
    };
    let any = Filter::default();
    let topic = Some("TopicTest");
    check(Filter { topic, ..any }, only(&|s| s.topic == "TopicTest"));
    let queue_id = Some(2);
    check(Filter { queue_id, ..any }, only(&|s| s.queue_id == 2));
    let tag = Some("TagA");
    check(
        Filter { tag, ..any },
        only(&|s| s.tag.as_deref() == Some("TagA")),
    );
    let tag = Some("TagA || TagB");
    check(
        Filter { tag, ..any },
        only(&|s| matches!(s.tag.as_deref(), Some("TagA" | "TagB"))),
    );
    let stop = Some(every[70].at);
    check(Filter { stop, ..any }, only(&|s| s.at < every[70].at));
    let begin_ms = Some(middle);
    check(Filter { begin_ms, ..any }, only(&|s| s.store_ms >= middle));
    let end_ms = Some(middle);
    check(Filter { end_ms, ..any }, only(&|s| s.store_ms <= middle));
    let (begin_ms, end_ms) = (Some(middle), Some(i64::MAX));
    let both = Filter {
        begin_ms,
        end_ms,
        ..any
    };
    check(both, only(&|s| s.store_ms >= middle));
}

#[test]
fn times_outside_the_store_read_little_and_find_nothing() {
    let (_root, scan) = store("store");
    let late = Filter {
        begin_ms: Some(i64::MAX),
        ..Filter::default()
    };
    let starts = scan.file_starts().unwrap();
    let used = starts.iter().filter(|(_, time)| time.is_some()).count();
    assert!(used >= 3, "{starts:?}");
    let chunk = scan.select(0, 1 << 20, &late, CheckCrc::No).unwrap();
    assert_eq!((chunk.count, chunk.ended), (0, Ended::Unreadable));
    assert!(chunk.next_offset >= starts[used - 1].0, "{chunk:?}");
    let early = Filter {
        end_ms: Some(0),
        ..Filter::default()
    };
    assert!(all(&scan, &early).0.is_empty());
}

fn overwrite(root: &Path, at: u64, bytes: &[u8]) {
    let path = root.join(format!("commitlog/{:020}", at - at % 65_536));
    let mut content = fs::read(&path).unwrap();
    let from = (at % 65_536) as usize;
    content[from..from + bytes.len()].copy_from_slice(bytes);
    fs::write(path, content).unwrap();
}

#[test]
fn reading_resumes_after_damage_but_not_at_left_overs() {
    let (root, scan) = store("store");
    let (every, _) = all(&scan, &Filter::default());
    // Damage the head of a record, a body, and the second half of a file.
    let half = every.iter().position(|seen| seen.at >= 98_304).unwrap();
    let resumed = every.iter().position(|seen| seen.at >= 131_072).unwrap();
    overwrite(root.path(), every[3].at.cast_unsigned(), &[0xEE; 60]);
    overwrite(root.path(), every[9].at.cast_unsigned() + 88, b"X");
    let from = every[half].at.cast_unsigned();
    overwrite(root.path(), from, &vec![0; (131_072 - from) as usize]);
    let (found, damaged) = all(&scan, &Filter::default());
    let mut expected = every.clone();
    expected.drain(half..resumed);
    expected.remove(9);
    expected.remove(3);
    assert_eq!(found, expected);
    assert_eq!(damaged, [every[3].at, every[9].at, every[half].at]);

    // Java left older records after the end of a log that it truncated.
    let (_root, scan) = store("store-damaged/after");
    let (found, damaged) = all(&scan, &Filter::default());
    assert_eq!(
        (found.last().map(|seen| seen.at < 219_379), damaged),
        (Some(true), vec![])
    );
}

#[test]
fn a_missing_file_is_a_gap() {
    let (root, scan) = store("store");
    let (every, _) = all(&scan, &Filter::default());
    fs::remove_file(root.path().join("commitlog/00000000000000065536")).unwrap();
    let scan = Scan::open(scan.root.as_path()).unwrap();
    let (found, damaged) = all(&scan, &Filter::default());
    let expected = every.iter().filter(|seen| seen.at / 65_536 != 1);
    assert!(found.iter().eq(expected));
    assert_eq!(damaged, [65_536]);
}

#[test]
fn a_file_with_a_far_off_name_is_listed_and_not_read() {
    let (root, scan) = store("store");
    let (every, _) = all(&scan, &Filter::default());
    let stray = root.path().join("commitlog/09999999999999999999");
    fs::write(stray, vec![7; 65_536]).unwrap();
    let scan = Scan::open(root.path()).unwrap();
    assert_eq!(all(&scan, &Filter::default()), (every, vec![]));
    let report = scan.verify(&mut |_| true).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].kind, "file");
}

#[test]
fn a_queue_gives_its_records_in_chunks() {
    let (_root, scan) = store("store");
    let (every, _) = all(&scan, &Filter::default());
    let of_queue: Vec<_> = every
        .iter()
        .filter(|seen| seen.topic == "TopicRoll" && seen.queue_id == 0)
        .collect();
    let (mut start, mut found) = (0, Vec::new());
    loop {
        let range = QueueRange { start, stop: None };
        let chunk = scan.queue_records("TopicRoll", 0, range, 2_000, CheckCrc::Yes);
        let chunk = chunk.unwrap();
        assert!(chunk.count > 0);
        found.extend(seen(&chunk.bytes));
        start = chunk.next_offset;
        if !chunk.has_more {
            break;
        }
    }
    assert_eq!(start, 330);
    assert!(found.iter().eq(of_queue));
    let some = QueueRange {
        start: 5,
        stop: Some(8),
    };
    let chunk = scan
        .queue_records("TopicRoll", 0, some, 1 << 20, CheckCrc::No)
        .unwrap();
    assert_eq!(
        (chunk.count, chunk.next_offset, chunk.has_more),
        (3, 8, false)
    );
    let none = scan
        .queue_records("None", 0, some, 1 << 20, CheckCrc::No)
        .unwrap();
    assert_eq!((none.count, none.has_more), (0, false));
}

#[test]
fn a_light_queue_gives_the_records_of_other_topics() {
    let (_root, scan) = store("store-lmq");
    let queues = scan.queues().unwrap();
    let light = queues
        .iter()
        .filter(|queue| queue.topic.starts_with("%LMQ%"));
    let mut count = 0;
    for queue in light {
        let range = QueueRange {
            start: 0,
            stop: None,
        };
        let chunk = scan.queue_records(&queue.topic, 0, range, 1 << 20, CheckCrc::Yes);
        assert_eq!(chunk.unwrap().count as i64, queue.max_offset, "{queue:?}");
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn index_files_are_returned_as_stored() {
    let (_root, scan) = store("store");
    let files = scan.index_files().unwrap();
    let golden = lines("store/index.jsonl.gz");
    let mut entries = Vec::new();
    for (name, header) in &files {
        assert_eq!(scan.index_slots(name).unwrap().len(), 400);
        let raw = scan.index_entries(name, 0, usize::MAX).unwrap();
        assert_eq!(raw.len() / 20, header.index_count.max(1) as usize - 1);
        assert_eq!(scan.index_entries(name, 2, 1).unwrap(), raw[20..40]);
        let (chunks, _) = raw.as_chunks::<20>();
        entries.extend(chunks.iter().map(IndexEntry::decode));
    }
    let expected = golden.iter().filter(|line| line["keyHash"].is_i64());
    let expected: Vec<_> = expected
        .map(|line| line["keyHash"].as_i64().unwrap())
        .collect();
    let found: Vec<_> = entries
        .iter()
        .map(|entry| i64::from(entry.key_hash))
        .collect();
    assert_eq!(found, expected);
    assert!(
        scan.index_entries("../checkpoint", 1, 1)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_state_says_whether_a_store_is_clean_and_in_use() {
    let (root, scan) = store("store-crashed");
    let state = scan.state().unwrap();
    assert!(!state.is_clean && !state.is_locked);
    let lock = mq_store::inspect::StoreLock::acquire(root.path()).unwrap();
    assert!(scan.state().unwrap().is_locked);
    drop(lock);
    let (_root, scan) = store("store");
    let state = scan.state().unwrap();
    assert!(state.is_clean);
    assert!(state.checkpoint_ms.unwrap()[0] > 1_600_000_000_000);
}
