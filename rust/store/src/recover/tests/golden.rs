//! Recovery of stores that Java wrote. It must give the same result as Java's recovery.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::entry_repair::EntryRepairer;
use crate::read::reader::Reader;
use crate::recover::{Recovered, Recovery};
use crate::settings::Settings;
use crate::state::checkpoint::Checkpoint;
use crate::types::{ReadMode, StoreError};
use mq_base::clock::{Clock, SystemClock};
use mq_format::consume_queue::QueueEntry;
use mq_log::testing::{Kind, LogHook};
use mq_log::{Directory, Segments, WriteMode, watch};
use mq_testing::stores::{golden, lines, snapshot, unpack};

const LOG_FILE_BYTES: u64 = 65_536;

/// Queue entries by topic and queue id.
type EntriesByQueue = BTreeMap<(String, i32), Vec<QueueEntry>>;

fn golden_entries(name: &str) -> EntriesByQueue {
    let mut by_queue = EntriesByQueue::new();
    for line in lines(&format!("{name}/consumequeue.jsonl.gz")) {
        let int = |key: &str| line[key].as_i64().unwrap();
        let key = (
            line["topic"].as_str().unwrap().to_owned(),
            int("queueId") as i32,
        );
        by_queue.entry(key).or_default().push(QueueEntry {
            physical_offset: int("offset"),
            size_bytes: int("size") as i32,
            tags_code: int("tagsCode"),
        });
    }
    by_queue
}

struct Opened {
    recovered: Recovered,
    reader: Reader,
}

impl Opened {
    fn by_queue(&self) -> EntriesByQueue {
        let mut by_queue = EntriesByQueue::new();
        for queue in self.recovered.queues.all() {
            let entries = (0..queue.max_offset())
                .map(|at| queue.stored_entry(at).unwrap())
                .collect();
            by_queue.insert((queue.topic().to_owned(), queue.queue_id()), entries);
        }
        by_queue.retain(|_, entries: &mut Vec<_>| !entries.is_empty());
        by_queue
    }
}

fn try_open(root: &Path, settings: &Settings) -> Result<Opened, StoreError> {
    let workshop = root.join("mqstack");
    let files = Directory::open(&root.join("commitlog"), &workshop, WriteMode::Write).unwrap();
    let log = Arc::new(Segments::open(files, LOG_FILE_BYTES).unwrap());
    let checkpoint = Checkpoint::open(root).unwrap();
    let clock: Arc<dyn Clock> = SystemClock::shared();
    let recovered = Recovery {
        root,
        log: &log,
        checkpoint: &checkpoint,
        settings,
        clock: &clock,
        was_clean: !root.join("abort").exists(),
    }
    .run()?;
    let queues = Arc::clone(&recovered.queues);
    let index = recovered.index.clone();
    let levels = settings.levels().unwrap();
    let repairer = EntryRepairer::new(Arc::clone(&log), Arc::clone(&queues), levels, false);
    let reader = Reader::new(log, queues, index, settings, Arc::new(repairer));
    Ok(Opened { recovered, reader })
}

fn settings() -> Settings {
    Settings {
        consume_queue_file_bytes: Some(6_000),
        index_slots: Some(100),
        index_entries: Some(400),
        ..Settings::default()
    }
}

fn open(root: &Path) -> Opened {
    try_open(root, &settings()).unwrap()
}

/// Looks up every key of the golden list; returns the number of keys.
fn check_keys(opened: &Opened) -> usize {
    let cases = lines("store/querykeys.jsonl.gz");
    for case in &cases {
        let (topic, key) = (
            case["topic"].as_str().unwrap(),
            case["key"].as_str().unwrap(),
        );
        let mut out = Vec::new();
        let found = opened.reader.query(topic, key, 64, 0, i64::MAX, &mut out);
        let messages = case["messages"].as_array().unwrap();
        assert_eq!(
            found.message_count as usize,
            messages.len(),
            "{topic} {key}"
        );
        let mut rest = &out[..];
        for message in messages {
            let offset = message["physicalOffset"].as_i64().unwrap();
            let record = opened
                .reader
                .get_at(offset, ReadMode::Wait)
                .unwrap()
                .unwrap();
            rest = rest
                .strip_prefix(&record[..])
                .expect("records in Java's order");
        }
    }
    cases.len()
}

/// Compares queue by queue, so that a failure names only the queue.
fn assert_entries(found: &EntriesByQueue, expected: &EntriesByQueue) {
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
    for (key, entries) in expected {
        let differing = (0..entries.len()).find(|at| found[key].get(*at) != entries.get(*at));
        assert_eq!(
            (differing, found[key].len()),
            (None, entries.len()),
            "{key:?}"
        );
    }
}

#[test]
fn a_cleanly_closed_store_opens_as_it_is() {
    let root = unpack("store");
    let before = snapshot(root.path());
    let opened = open(root.path());
    assert_entries(&opened.by_queue(), &golden_entries("store"));
    assert!(check_keys(&opened) > 10);
    assert_same_files(&snapshot(root.path()), &before);
}

#[test]
fn removed_queues_and_index_are_rebuilt_byte_for_byte() {
    let root = unpack("store");
    let before = snapshot(root.path());
    fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    fs::remove_dir_all(root.path().join("index")).unwrap();
    let opened = open(root.path());
    assert_entries(&opened.by_queue(), &golden_entries("store"));
    check_keys(&opened);
    let after = snapshot(root.path());
    assert!(index_files(&after) == index_files(&before), "index files");
    for (path, bytes) in before
        .iter()
        .filter(|(path, _)| path.starts_with("consumequeue/"))
    {
        assert!(after[path] == *bytes, "{path}");
    }
}

#[test]
fn a_torn_index_file_is_cut_and_completed() {
    let name = "index/20261121073113153";
    let entry = 40 + 4 * 100 + 20 * 100;
    // Zeroed entries, a wrong offset, a wrong link, the header's count, a slot.
    for torn in [
        entry..entry + 60,
        entry + 8..entry + 9,
        entry + 19..entry + 20,
        39..40,
        43..44,
    ] {
        let root = unpack("store");
        let before = snapshot(root.path());
        let mut bytes = before[name].clone();
        bytes[torn.clone()].fill(0);
        fs::write(root.path().join(name), bytes).unwrap();
        fs::write(root.path().join("abort"), b"").unwrap();
        check_keys(&open(root.path()));
        let after = snapshot(root.path());
        assert!(index_files(&after) == index_files(&before), "{torn:?}");
    }
}

#[test]
fn one_removed_queue_is_rebuilt() {
    let root = unpack("store");
    fs::remove_dir_all(root.path().join("consumequeue/TopicFill/2")).unwrap();
    assert_entries(&open(root.path()).by_queue(), &golden_entries("store"));
}

#[test]
fn a_queue_that_contradicts_the_log_is_rebuilt() {
    let root = unpack("store");
    let queues = root.path().join("consumequeue");
    let name = "00000000000000000000";
    let other = fs::read(queues.join("TopicFill/1").join(name)).unwrap();
    fs::write(queues.join("TopicKeys/1").join(name), other).unwrap();
    assert_entries(&open(root.path()).by_queue(), &golden_entries("store"));
}

#[test]
fn a_killed_store_is_completed_as_java_completed_it() {
    let root = unpack("store-crashed");
    let opened = open(root.path());
    let by_queue = opened.by_queue();
    let java = golden_entries("store-crashed-recovered");
    for (key, entries) in &by_queue {
        let end = opened.recovered.log_end as i64;
        let of_java = java[key].iter().filter(|entry| entry.end_offset() <= end);
        assert!(of_java.eq(entries), "{key:?}");
    }
    assert_eq!(
        by_queue.len(),
        java.keys().filter(|key| by_queue.contains_key(key)).count()
    );
    assert_eq!(opened.recovered.repaired, 0);
    assert_entries(&open(root.path()).by_queue(), &by_queue);
}

#[test]
fn a_flipped_bit_costs_one_message_and_not_the_rest() {
    let root = unpack("store-damaged");
    let damage = fs::read(golden("store-damaged/damage.json")).unwrap();
    let damage: Value = serde_json::from_slice(&damage).unwrap();
    let record = damage["record"].as_i64().unwrap();
    let opened = open(root.path());
    assert_eq!(opened.recovered.repaired, 1);
    assert_eq!(
        opened.recovered.log_end,
        damage["log_end_before"].as_u64().unwrap()
    );
    let quarantine = root.path().join("mqstack/quarantine");
    assert_eq!(fs::read_dir(quarantine).unwrap().count(), 1);
    let mut java = golden_entries("store-crashed-recovered");
    for entries in java.values_mut() {
        for at in 0..entries.len() {
            if entries[at].physical_offset == record {
                entries[at] = entries[at + 1].hole_before();
            }
        }
    }
    fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    let again = open(root.path());
    assert_eq!(again.recovered.repaired, 0, "nothing left to repair");
    assert_entries(&again.by_queue(), &java);
}

#[test]
fn damage_is_refused_by_the_policy() {
    let root = unpack("store-damaged");
    let settings = Settings {
        repair_damage: false,
        ..Settings::default()
    };
    let Err(error) = try_open(root.path(), &settings) else {
        panic!("opened a damaged store");
    };
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn remains_after_javas_truncation_are_ignored() {
    let root = unpack("store-damaged/after");
    fs::write(root.path().join("abort"), b"").unwrap();
    let opened = open(root.path());
    assert_eq!(opened.recovered.log_end, 219_379);
    assert_eq!(opened.recovered.repaired, 0);
}

#[test]
fn multi_dispatch_and_extension_queues_are_kept() {
    for name in ["store-lmq", "store-ext"] {
        let root = unpack(name);
        assert_entries(&open(root.path()).by_queue(), &golden_entries(name));
    }
}

/// After a failed fsync the kernel may treat pages as clean that never reached the disk.
#[test]
fn files_after_the_checkpoint_are_written_and_synced_again() {
    let root = unpack("store-crashed");
    let path = root.path().join("commitlog");
    let workshop = root.path().join("mqstack");
    let tape = LogHook::of(&path);
    let _watch = watch(&path, Arc::clone(&tape) as _);
    let files = Directory::open(&path, &workshop, WriteMode::Write).unwrap();
    let log = Segments::open(files, LOG_FILE_BYTES).unwrap();
    let checkpoint = Checkpoint::open(root.path()).unwrap();
    let clock: Arc<dyn Clock> = SystemClock::shared();
    let settings = settings();
    let recovered = Recovery {
        root: root.path(),
        log: &log,
        checkpoint: &checkpoint,
        settings: &settings,
        clock: &clock,
        was_clean: false,
    }
    .run()
    .unwrap();
    let mut synced = BTreeMap::new();
    let mut written = Vec::new();
    for (kind, from, to) in tape.take() {
        match kind {
            Kind::Write => written.push((from, to)),
            Kind::Sync => {
                for (from, to) in written.extract_if(.., |range| from <= range.0 && range.1 <= to) {
                    synced.insert(from, to);
                }
            }
            _ => {}
        }
    }
    assert!(written.is_empty(), "not synced: {written:?}");
    let (mut at, first) = (recovered.log_end, *synced.keys().next().unwrap());
    for (from, to) in synced.into_iter().rev() {
        assert!(to >= at, "{to} to {at} was not written again");
        at = at.min(from);
    }
    // RocketMQ's checkpoint goes back three seconds from its times.
    let safe_ms = checkpoint.safe_timestamp_ms();
    let first_ms = |line: &&Value| line["storeTimestamp"].as_i64() > Some(safe_ms);
    let records = lines("store-crashed/expected.jsonl.gz");
    let first_unsafe = records.iter().find(first_ms).unwrap();
    assert!(first <= first_unsafe["physicalOffset"].as_u64().unwrap());
}

fn assert_same_files(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
    for (path, bytes) in expected {
        assert!(found[path] == *bytes, "{path}");
    }
}

/// Contents of the index files, oldest first. The names contain the creation time.
fn index_files(snapshot: &BTreeMap<String, Vec<u8>>) -> Vec<&Vec<u8>> {
    let of_index = snapshot
        .iter()
        .filter(|(path, _)| path.starts_with("index/"));
    of_index.map(|(_, bytes)| bytes).collect()
}
