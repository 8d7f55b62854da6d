//! A record that reached the disk only in part, cut at every byte, with any bytes after the cut.
//! The log ends before the record, the store appends there, and no byte of the record remains.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use mq_format::message::{CheckCrc, RecordView};
use mq_offline::Scan;
use mq_store::{PutResult, PutStatus, Store};
use mq_testing::stores::directory;

use crate::oracle::close;
use crate::random::Random;
use crate::rig::{Message, Rig, TOPICS, copy_tree, drain, put, wait_readable};

const TOPIC: &str = TOPICS[0];
const LOG: &str = "commitlog/00000000000000000000";

fn store_one(store: &Store, body: &[u8]) -> PutResult {
    let result = put(store, &Message::new("k", TOPIC, 0, body.to_vec()));
    assert_eq!(result.status, PutStatus::Ok);
    wait_readable(store, &result, TOPIC, 0).unwrap();
    result
}

/// The bytes after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Zeros,
    Random,
    /// Whole older records, as RocketMQ leaves them after the end of a log that it truncated.
    OlderRecord,
}

/// A store with three messages; tests tear the last one.
struct Whole {
    rig: Rig,
    root: tempfile::TempDir,
    older: Vec<u8>,
    torn: Vec<u8>,
    start: u64,
}

impl Whole {
    fn new() -> Self {
        let rig = Rig::new(false, 64 << 10);
        let root = directory();
        let store = rig.open(root.path());
        store_one(&store, b"first");
        let older = store_one(&store, b"second");
        let torn = store_one(&store, b"torn");
        close(store).unwrap();
        let log = fs::read(root.path().join(LOG)).unwrap();
        let bytes = |put: &PutResult| {
            let from = put.physical_offset as usize;
            log[from..from + put.size_bytes as usize].to_vec()
        };
        Self {
            rig,
            older: bytes(&older),
            torn: bytes(&torn),
            start: torn.physical_offset as u64,
            root,
        }
    }

    /// A copy of the store with the last record cut, as after a crash.
    fn torn_at(&self, cut: usize, rest: Rest) -> tempfile::TempDir {
        let copy = directory();
        copy_tree(self.root.path(), copy.path());
        let mut tail = vec![0; 2 * self.torn.len()];
        match rest {
            Rest::Zeros => {}
            Rest::Random => tail = Random::new(cut as u64).bytes(tail.len()),
            Rest::OlderRecord => {
                let old = self.older.iter().cycle();
                tail.iter_mut()
                    .zip(old)
                    .for_each(|(byte, old)| *byte = *old);
            }
        }
        let log = copy.path().join(LOG);
        let file = OpenOptions::new().write(true).open(log).unwrap();
        file.write_all_at(&tail, self.start + cut as u64).unwrap();
        fs::write(copy.path().join("abort"), b"").unwrap();
        // Checkpoint and queue ends would cover only records that are completely on the disk.
        fs::write(copy.path().join("checkpoint"), [0; 4096]).unwrap();
        fs::remove_file(copy.path().join("mqstack/queue_ends")).unwrap();
        copy
    }

    /// Start of the properties, which have no checksum.
    fn properties_from(&self) -> usize {
        let record = RecordView::parse(&self.torn, CheckCrc::Yes).unwrap();
        self.torn.len() - record.properties.len()
    }
}

fn torn_at_every_byte(rest: Rest) {
    let whole = Whole::new();
    for cut in 0..whole.torn.len() {
        let root = whole.torn_at(cut, rest);
        let store = whole.rig.open(root.path());
        let end = store.max_physical_offset() as u64;
        let looks_whole = end > whole.start && rest != Rest::Zeros;
        if looks_whole {
            assert!(cut >= whole.properties_from(), "cut at {cut}");
            let last = drain(&store, TOPIC, 0).unwrap().pop().unwrap();
            assert_eq!(last.body, b"torn", "cut at {cut}");
        } else {
            assert_eq!(end, whole.start, "cut at {cut}");
            assert_eq!(store.max_offset(TOPIC, 0), 2, "cut at {cut}");
        }
        assert_eq!(store_one(&store, b"third").physical_offset as u64, end);
        close(store).unwrap();
        check_end(root.path(), end, looks_whole);
    }
}

/// Checks that the new record is the last one, with nothing after it.
fn check_end(root: &Path, at: u64, looks_whole: bool) {
    let scan = Scan::open(root).unwrap();
    let mut report = scan.verify(&mut |_| true).unwrap();
    // The index still has the key of the torn record.
    report
        .findings
        .retain(|finding| !looks_whole || finding.kind != "index_entry");
    assert_eq!(report.findings, []);
    let records = 3 + i64::from(looks_whole);
    let found = (report.records as i64, report.queue_entries as i64);
    assert_eq!(found, (records, records));
    let log = fs::read(root.join(LOG)).unwrap();
    let record = RecordView::parse(&log[at as usize..], CheckCrc::Yes).unwrap();
    assert_eq!(record.body, b"third");
    let rest = &log[at as usize + record.size()..];
    assert!(rest.iter().all(|byte| *byte == 0), "left-overs behind {at}");
}

#[test]
fn a_record_cut_before_zeros_is_dropped() {
    torn_at_every_byte(Rest::Zeros);
}

#[test]
fn a_record_cut_before_random_bytes_is_dropped() {
    torn_at_every_byte(Rest::Random);
}

#[test]
fn a_record_cut_before_an_older_record_is_dropped() {
    torn_at_every_byte(Rest::OlderRecord);
}

#[test]
fn a_store_closed_twice_opens_from_its_marker() {
    let (rig, root) = (Rig::new(false, 64 << 10), directory());
    for round in 0..3 {
        let store = rig.open(root.path());
        assert_eq!(store.max_offset(TOPIC, 0), round);
        store_one(&store, b"body");
        close(store).unwrap();
    }
    let clean_stop = root.path().join("mqstack/closed.json");
    let text = fs::read_to_string(&clean_stop).unwrap();
    assert!(text.contains("\"queueOffsets\":3"), "{text}");
    fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    let store = rig.open(root.path());
    let found = drain(&store, TOPIC, 0).unwrap().len();
    assert_eq!(found, 3, "a marker that does not fit is not believed");
    assert!(!clean_stop.exists());
    close(store).unwrap();
}

#[test]
fn an_empty_last_file_is_tolerated() {
    let (rig, root) = (Rig::new(false, 64 << 10), directory());
    let store = rig.open(root.path());
    store_one(&store, b"body");
    close(store).unwrap();
    fs::write(root.path().join("commitlog/00000000000000065536"), b"").unwrap();
    let queue = format!("consumequeue/{TOPIC}/0/00000000000000000400");
    fs::write(root.path().join(queue), b"").unwrap();
    let store = rig.open(root.path());
    assert_eq!(drain(&store, TOPIC, 0).unwrap()[0].body, b"body");
    close(store).unwrap();
}
