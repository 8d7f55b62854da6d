//! Reads every field of a Java broker's consume-queue extension, and computes its filter bits.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use mq_format::bloom::{self, BloomFilter};
use mq_format::consume_queue::QueueEntry;
use mq_format::consume_queue_ext::{ExtHead, ExtUnit, address, position};
use mq_format::filter::Sql;
use mq_format::message::{CheckCrc, RecordView, java_hash};
use mq_format::properties;
use mq_testing::golden::{Golden, hex};
use serde_json::Value;

const FILE_BYTES: usize = 2048;
/// maxErrorRateOfBloomFilter and expectConsumerNumUseFilter.
const BLOOM: (u32, u32) = (20, 32);

/// The extension by queue id, with the files of a queue joined.
fn extensions(store: &Golden) -> BTreeMap<i64, Vec<u8>> {
    let mut joined: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
    for (path, bytes) in store.folder("consumequeue_ext/TopicExt") {
        let (queue_id, name) = path.split_once('/').unwrap();
        let queue = joined.entry(queue_id.parse().unwrap()).or_default();
        assert_eq!(name.parse(), Ok(queue.len()));
        assert_eq!(bytes.len(), FILE_BYTES);
        queue.extend_from_slice(bytes);
    }
    joined
}

#[test]
fn units_and_end_marks_match_the_list() {
    let store = Golden::open("store-ext");
    let mut at: BTreeMap<i64, usize> = BTreeMap::new();
    let extensions = extensions(&store);
    for line in store.list("consumequeue_ext") {
        let number = |key: &str| line[key].as_i64().unwrap();
        let start: usize = line["file"].as_str().unwrap().parse().unwrap();
        let here = start + usize::try_from(number("pos")).unwrap();
        let next = at.entry(number("queueId")).or_default();
        assert_eq!(*next, here);
        let bytes = &extensions[&number("queueId")][here..start + FILE_BYTES];
        if line["end"].is_i64() {
            assert_eq!(ExtHead::parse(bytes), ExtHead::End);
            assert!(bytes[2..].iter().all(|byte| *byte == 0));
            *next = start + FILE_BYTES;
            continue;
        }
        let unit = ExtUnit::decode(bytes).unwrap();
        assert_eq!(address(here as u64), number("address"));
        assert_eq!(position(number("address")), Some(here as u64));
        assert_eq!(unit.size() as i64, number("size"));
        assert_eq!(unit.tags_code, number("tagsCode"));
        assert_eq!(unit.store_timestamp_ms, number("storeTime"));
        assert_eq!(hex(unit.bitmap), line["bitMapHex"].as_str().unwrap());
        assert_eq!(unit.bitmap.len() as i64, number("bitMapSize"));
        let mut again = Vec::new();
        assert!(unit.encode(&mut again));
        assert!(bytes.starts_with(&again));
        *next += unit.size();
    }
    for (queue_id, bytes) in &extensions {
        let rest = &bytes[at[queue_id]..];
        assert!(rest.iter().all(|byte| *byte == 0), "queue {queue_id}");
    }
}

/// A group that filters by SQL: its bits, its expression, and the time of its subscription.
struct Group {
    bits: Vec<u32>,
    sql: Sql,
    born_ms: i64,
}

/// The broker's filters have the shape and the bits that we compute.
fn groups(store: &Golden) -> Vec<Group> {
    let text = &store.files["config/consumerFilter.json"];
    let filters: Value = serde_json::from_slice(text).unwrap();
    let shape = BloomFilter::of(BLOOM.0, BLOOM.1).unwrap();
    let table = &filters["filterDataByTopic"]["TopicExt"]["groupFilterData"];
    let group = |(name, filter): (&String, &Value)| {
        let bits = shape.positions(name, "TopicExt");
        assert_eq!(filter["bloomFilterData"]["bitNum"], shape.bit_count());
        assert_eq!(
            filter["bloomFilterData"]["bitPos"],
            Value::from(bits.clone())
        );
        Group {
            bits,
            sql: Sql::compile(filter["expression"].as_str().unwrap()).unwrap(),
            born_ms: filter["bornTime"].as_i64().unwrap(),
        }
    };
    table.as_object().unwrap().iter().map(group).collect()
}

#[test]
fn a_unit_equals_the_one_that_we_would_write() {
    let store = Golden::open("store-ext");
    let (log, extensions, groups) = (store.commit_log(), extensions(&store), groups(&store));
    assert_eq!(groups.len(), 2);
    let mut with_bitmap = 0;
    for (path, bytes) in store.folder("consumequeue/TopicExt") {
        let queue_id: i64 = path.split('/').next().unwrap().parse().unwrap();
        for entry in QueueEntry::decode_all(bytes).take_while(QueueEntry::is_used) {
            let at = usize::try_from(position(entry.tags_code).unwrap()).unwrap();
            let unit = ExtUnit::decode(&extensions[&queue_id][at..]).unwrap();
            let start = usize::try_from(entry.physical_offset).unwrap();
            let record = RecordView::parse(&log[start..], CheckCrc::Yes).unwrap();
            let tags = properties::get_str(record.properties, properties::TAGS).unwrap();
            assert_eq!(unit.tags_code, i64::from(java_hash(&tags)));
            assert_eq!(unit.store_timestamp_ms, record.store_timestamp_ms);
            if unit.bitmap.is_empty() {
                // The record was stored before the filter existed.
                assert!(
                    groups
                        .iter()
                        .all(|group| record.store_timestamp_ms < group.born_ms)
                );
                continue;
            }
            let mut bitmap = BloomFilter::of(BLOOM.0, BLOOM.1).unwrap().empty_bitmap();
            for group in groups
                .iter()
                .filter(|group| group.sql.matches(record.properties))
            {
                bloom::set(&mut bitmap, &group.bits);
            }
            assert_eq!(hex(unit.bitmap), hex(&bitmap), "record at {start}");
            with_bitmap += 1;
        }
    }
    assert_eq!(with_bitmap, 120);
}

#[test]
fn a_filter_of_another_store_has_our_shape() {
    let store = Golden::open("store");
    let filters: Value =
        serde_json::from_slice(&store.files["config/consumerFilter.json"]).unwrap();
    let filter = &filters["filterDataByTopic"]["TopicKeys"]["groupFilterData"]["golden_sql"];
    let shape = BloomFilter::of(BLOOM.0, BLOOM.1).unwrap();
    let bits = shape.positions("golden_sql", "TopicKeys");
    assert_eq!(filter["bloomFilterData"]["bitPos"], Value::from(bits));
}
