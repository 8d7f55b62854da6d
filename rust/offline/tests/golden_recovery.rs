//! Opens stores that a Java broker left for writing. Our recovery has the same result as Java's, or
//! keeps more.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use mq_base::clock::SystemClock;
use mq_format::message::{CheckCrc, RecordView};
use mq_offline::Scan;
use mq_store::{
    GetRequest, MessageFilter, PutRequest, PutStatus, ReadMode, Settings, Store, StoreError,
};
use mq_testing::golden::{Golden, INDEX_ENTRIES, INDEX_SLOTS, LOG_FILE_BYTES, hex, list_of};
use mq_testing::stores::unpack;
use serde_json::Value;

/// Offset of the record with the flipped bit in store-damaged, and end of that log.
const DAMAGED: u64 = 219_148;
const DAMAGED_END: u64 = 220_128;
/// End of the log of store-damaged after Java put one more record.
const AFTER_END: u64 = 219_379;

/// Bodies by topic, queue and physical offset.
type Bodies = BTreeMap<(String, i32, i64), Vec<u8>>;

fn settings() -> Settings {
    Settings {
        min_free_bytes: Some(0),
        allocate_step_bytes: LOG_FILE_BYTES as u64,
        index_slots: Some(INDEX_SLOTS),
        index_entries: Some(INDEX_ENTRIES),
        // With delays of 1,000 days no delayed message is delivered during the test.
        delay_levels: "1000d 1000d 1000d".into(),
        ..Settings::default()
    }
}

fn open(root: &Path) -> Arc<Store> {
    Store::open(root, settings(), SystemClock::shared(), false).unwrap()
}

/// All messages of all queues before a physical offset. Due delayed messages are delivered after
/// it.
fn bodies(store: &Store, root: &Path, log_end: u64) -> Bodies {
    let mut found = Bodies::new();
    for queue in Scan::open(root).unwrap().queues().unwrap() {
        let mut offset = store.min_offset(&queue.topic, queue.queue_id);
        loop {
            let mut out = Vec::new();
            let request = GetRequest {
                topic: &queue.topic,
                queue_id: queue.queue_id,
                offset,
                max_count: 32,
                filter: &MessageFilter::All,
                mode: ReadMode::Wait,
            };
            let got = store.get(&request, &mut out).unwrap();
            if got.next_begin_offset == offset {
                break;
            }
            offset = got.next_begin_offset;
            let mut rest = &out[..];
            while !rest.is_empty() {
                let record = RecordView::parse(rest, CheckCrc::Yes).unwrap();
                let key = (queue.topic.clone(), queue.queue_id, record.physical_offset);
                found.insert(key, record.body.to_vec());
                rest = &rest[record.size()..];
            }
        }
    }
    found.retain(|(_, _, offset), _| offset.cast_unsigned() < log_end);
    found
}

/// The messages that a store's golden list has in its queues, before a physical offset.
fn listed(name: &str, log_end: i64) -> Bodies {
    let mut bodies = BTreeMap::new();
    for line in list_of(name, "expected") {
        if let Some(body) = line["bodyHex"].as_str() {
            let is_compressed = line["compressed"].as_bool() == Some(true);
            let body = (!is_compressed).then(|| body.to_owned());
            let queue = (line["topic"].clone(), line["queueId"].clone());
            bodies.insert(line["physicalOffset"].as_i64().unwrap(), (queue, body));
        }
    }
    let mut found = Bodies::new();
    for line in list_of(name, "consumequeue") {
        let number = |key: &str| line[key].as_i64().unwrap();
        let physical_offset = number("offset");
        if physical_offset + number("size") > log_end {
            continue;
        }
        let queue_id = i32::try_from(number("queueId")).unwrap();
        let topic = line["topic"].as_str().unwrap().to_owned();
        let (queue, body) = &bodies[&physical_offset];
        // After Java truncated the log, some entries point to newer records that overwrote theirs.
        let is_own = *queue == (line["topic"].clone(), line["queueId"].clone());
        if is_own || name == "store-lmq" {
            let body = unhex(body.as_deref().unwrap_or_default());
            found.insert((topic, queue_id, physical_offset), body);
        }
    }
    found
}

/// End of the last record in a store's log.
fn end_of(name: &str) -> u64 {
    let number = |line: &Value, name: &str| line[name].as_u64();
    let ends = list_of(name, "expected");
    let ends = ends
        .iter()
        .filter_map(|line| Some(number(line, "physicalOffset")? + number(line, "storeSize")?));
    ends.max().unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Compares the messages of the queues. Compressed bodies only have to exist.
fn assert_holds(found: &Bodies, expected: &Bodies) {
    let missing: Vec<_> = expected
        .keys()
        .filter(|key| !found.contains_key(key))
        .collect();
    assert_eq!(missing, Vec::<&(String, i32, i64)>::new());
    for (key, body) in found {
        let expected = expected
            .get(key)
            .unwrap_or_else(|| panic!("{key:?} is too much"));
        assert!(expected.is_empty() || hex(body) == hex(expected), "{key:?}");
    }
}

/// The queue entry of the damaged record in store-damaged.
fn lost_unit() -> Value {
    let units = list_of("store-crashed-recovered", "consumequeue");
    let mut units = units.into_iter();
    units
        .find(|unit| unit["offset"].as_u64() == Some(DAMAGED))
        .unwrap()
}

fn key(unit: &Value) -> (String, i32, i64) {
    let number = |name: &str| unit[name].as_i64().unwrap();
    let topic = unit["topic"].as_str().unwrap().to_owned();
    (topic, number("queueId") as i32, number("index"))
}

fn put(store: &Store, topic: &str) -> i64 {
    let request = PutRequest {
        topic,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: "127.0.0.1:1".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"after",
        properties: b"UNIQ_KEY\x01after",
        wait_store_ok: true,
        delay_level: 0,
        was_accepted: false,
    };
    let put = store.put(&request);
    let result = store.wait(put);
    assert_eq!(result.status, PutStatus::Ok);
    result.physical_offset
}

fn assert_sound(root: &Path) {
    let mut report = Scan::open(root).unwrap().verify(&mut |_| true).unwrap();
    report.findings.truncate(3);
    assert_eq!(report.findings, []);
}

#[test]
fn a_killed_store_holds_what_java_recovered() {
    let root = unpack("store-crashed");
    let store = open(root.path());
    let java = listed("store-crashed-recovered", i64::MAX);
    assert_holds(&bodies(&store, root.path(), DAMAGED_END), &java);
    let end = DAMAGED_END as usize;
    let recovered = Golden::open("store-crashed-recovered").commit_log();
    assert!(put(&store, "TopicNew") >= end as i64);
    store.close().unwrap();
    let mut log = Vec::new();
    for start in (0..end).step_by(LOG_FILE_BYTES) {
        log.extend(fs::read(root.path().join(format!("commitlog/{start:020}"))).unwrap());
    }
    assert!(log[..end] == recovered[..end], "the log as Java left it");
    assert!(!root.path().join("abort").exists());
    assert_sound(root.path());
}

#[test]
fn everything_but_the_damaged_record_is_kept() {
    for is_clean in [false, true] {
        let root = unpack("store-damaged");
        if is_clean {
            fs::remove_file(root.path().join("abort")).unwrap();
        }
        let store = open(root.path());
        let mut expected = listed("store-crashed-recovered", i64::MAX);
        let unit = lost_unit();
        let (topic, queue_id, offset) = key(&unit);
        let place = (topic.clone(), queue_id, DAMAGED as i64);
        expected.remove(&place).unwrap();
        assert_holds(&bodies(&store, root.path(), DAMAGED_END), &expected);
        assert!(store.max_offset(&topic, queue_id) > offset, "not shifted");
        store.close().unwrap();
        let end = DAMAGED + unit["size"].as_u64().unwrap();
        let saved = format!("mqstack/quarantine/{DAMAGED:020}-{end:020}");
        let saved = fs::read(root.path().join(saved)).unwrap();
        let before = Golden::open("store-damaged").commit_log();
        assert!(saved == before[DAMAGED as usize..end as usize]);
        assert_sound(root.path());
    }
}

#[test]
fn refused_damage_is_located_and_nothing_is_changed() {
    let root = unpack("store-damaged");
    let refusing = Settings {
        repair_damage: false,
        ..settings()
    };
    let refused = Store::open(root.path(), refusing, SystemClock::shared(), false);
    let text = refused.err().unwrap().to_string();
    let place = "commitlog/00000000000000196608 at byte 22540 (offset 219148)";
    assert!(text.contains(place), "{text}");
    assert!(text.contains(&format!("mqstore verify {}", root.path().display())));
    let log = Golden::open("store-damaged").commit_log();
    let after = fs::read(root.path().join("commitlog/00000000000000196608")).unwrap();
    assert!(log[196_608..196_608 + LOG_FILE_BYTES] == after);
}

#[test]
fn left_overs_of_a_log_that_java_truncated_are_removed() {
    for is_clean in [true, false] {
        let root = unpack("store-damaged/after");
        if !is_clean {
            fs::write(root.path().join("abort"), b"").unwrap();
        }
        let store = open(root.path());
        assert_holds(
            &bodies(&store, root.path(), AFTER_END),
            &listed("store-damaged/after", AFTER_END as i64),
        );
        assert!(put(&store, "TopicNew").cast_unsigned() >= AFTER_END);
        let log_end = store.max_physical_offset() as usize - 196_608;
        store.close().unwrap();
        let file = fs::read(root.path().join("commitlog/00000000000000196608")).unwrap();
        assert!(
            file[log_end..].iter().all(|byte| *byte == 0),
            "no left-overs"
        );
    }
}

#[test]
fn light_queues_and_extensions_open_with_their_offsets() {
    for name in ["store-lmq", "store-ext", "store"] {
        let root = unpack(name);
        let before = Golden::open(name);
        let store = open(root.path());
        let found = bodies(&store, root.path(), end_of(name));
        assert_holds(&found, &listed(name, i64::MAX));
        for queue in Scan::open(root.path()).unwrap().queues().unwrap() {
            let units = before.list("consumequeue").into_iter().filter(|unit| {
                unit["topic"] == queue.topic.as_str() && unit["queueId"] == queue.queue_id
            });
            let (units, max) = (
                units.count() as i64,
                store.max_offset(&queue.topic, queue.queue_id),
            );
            // Delayed messages are delivered meanwhile.
            assert!(
                max == units || name == "store" && max > units,
                "{name} {queue:?}"
            );
        }
    }
}

#[test]
fn a_lost_queue_of_a_closed_store_is_rebuilt() {
    for lost in [
        "consumequeue/TopicFill/1",
        "consumequeue/SCHEDULE_TOPIC_XXXX",
        "consumequeue",
        "index",
    ] {
        let root = unpack("store");
        fs::remove_dir_all(root.path().join(lost)).unwrap();
        let store = open(root.path());
        let found = bodies(&store, root.path(), end_of("store"));
        assert_holds(&found, &listed("store", i64::MAX));
        store.close().unwrap();
        assert_sound(root.path());
    }
}

#[test]
fn queues_of_deleted_topics_stay_deleted_after_a_clean_stop() {
    let root = unpack("store");
    let topics = root.path().join("config/topics.json");
    let text = fs::read_to_string(&topics).unwrap();
    assert!(text.contains("\"TopicKeys\""));
    fs::write(&topics, text.replace("\"TopicKeys\"", "\"TopicOther\"")).unwrap();
    let _ = fs::remove_file(root.path().join("config/topics.json.bak"));
    let queue = root.path().join("consumequeue/TopicKeys");
    fs::remove_dir_all(&queue).unwrap();
    let store = open(root.path());
    assert_eq!(store.max_offset("TopicKeys", 1), 0);
    assert!(store.max_offset("TopicFill", 1) > 0);
    store.close().unwrap();
    assert!(!queue.exists());
}

#[test]
fn a_missing_middle_file_loses_only_its_messages() {
    for is_clean in [true, false] {
        let root = unpack("store-crashed-recovered");
        if !is_clean {
            fs::write(root.path().join("abort"), b"").unwrap();
        }
        let missing = root.path().join("commitlog/00000000000000065536");
        let kept = fs::read(&missing).unwrap();
        fs::remove_file(&missing).unwrap();
        let refusing = Settings {
            repair_damage: false,
            ..settings()
        };
        let refused = Store::open(root.path(), refusing, SystemClock::shared(), false);
        let Err(StoreError::Damaged { what, .. }) = refused else {
            panic!("opened without a file");
        };
        assert!(what.contains("00000000000000065536"), "{what}");
        let store = open(root.path());
        let mut expected = listed("store-crashed-recovered", i64::MAX);
        for unit in list_of("store-crashed-recovered", "consumequeue") {
            let number = |name: &str| unit[name].as_i64().unwrap();
            if (65_536..131_072).contains(&number("offset")) {
                let topic = unit["topic"].as_str().unwrap().to_owned();
                expected.remove(&(topic, number("queueId") as i32, number("offset")));
            }
        }
        assert_holds(&bodies(&store, root.path(), DAMAGED_END), &expected);
        store.close().unwrap();
        assert_sound(root.path());
        // The original file still fits into its place.
        fs::write(&missing, kept).unwrap();
        let log = Golden::open("store-crashed-recovered").commit_log();
        let chunk = Scan::open(root.path()).unwrap();
        let chunk = chunk.records(65_536, 1, true).unwrap();
        assert!(log[65_536..].starts_with(&chunk.bytes));
    }
}
