//! Reads every field of a Java broker's consume queues and index files, and compares with its log.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::delay_levels::DelayLevels;
use mq_format::index::{
    ENTRY_BYTES as INDEX_ENTRY_BYTES, HEADER_BYTES, IndexEntry, IndexHeader, IndexLayout, key_hash,
};
use mq_format::message::{CheckCrc, RecordView};
use mq_format::properties;
use mq_testing::golden::{Golden, INDEX_ENTRIES, INDEX_SLOTS, LISTED};
use serde_json::Value;

const LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";
const LAYOUT: IndexLayout = IndexLayout {
    slots: INDEX_SLOTS,
    entries: INDEX_ENTRIES,
};

/// Entries of each queue, oldest first, and the bytes after them in the queue's last file.
fn queues(store: &Golden) -> BTreeMap<(String, i32), (Vec<QueueEntry>, Vec<u8>)> {
    let mut queues: BTreeMap<_, Vec<u8>> = BTreeMap::new();
    for (path, bytes) in store.folder("consumequeue") {
        let [topic, queue_id, name] = path.split('/').collect::<Vec<_>>()[..] else {
            panic!("{path}");
        };
        let key = (topic.to_owned(), queue_id.parse().unwrap());
        let queue = queues.entry(key).or_default();
        assert_eq!(name.parse(), Ok(queue.len()), "{path}");
        queue.extend_from_slice(bytes);
    }
    let split = |bytes: Vec<u8>| {
        let units: Vec<_> = QueueEntry::decode_all(&bytes)
            .take_while(QueueEntry::is_used)
            .collect();
        let again: Vec<u8> = units.iter().flat_map(QueueEntry::encode).collect();
        assert!(bytes.starts_with(&again));
        let rest = bytes[units.len() * ENTRY_BYTES..].to_vec();
        (units, rest)
    };
    let queues = queues.into_iter();
    queues.map(|(key, bytes)| (key, split(bytes))).collect()
}

#[test]
fn queue_entries_match_the_list_and_nothing_follows_them() {
    for name in LISTED {
        let store = Golden::open(name);
        let mut expected: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for line in store.list("consumequeue") {
            let number = |key: &str| line[key].as_i64().unwrap();
            let queue_id = i32::try_from(number("queueId")).unwrap();
            let key = (line["topic"].as_str().unwrap().to_owned(), queue_id);
            let units = expected.entry(key).or_default();
            assert_eq!(number("index"), units.len() as i64);
            units.push(QueueEntry {
                physical_offset: number("offset"),
                size_bytes: i32::try_from(number("size")).unwrap(),
                tags_code: number("tagsCode"),
            });
        }
        let found = queues(&store);
        for (key, (units, rest)) in &found {
            assert_eq!(units, expected.get(key).unwrap_or(&Vec::new()), "{key:?}");
            assert!(rest.iter().all(|byte| *byte == 0), "{name} {key:?}");
        }
        assert!(expected.keys().all(|key| found.contains_key(key)), "{name}");
    }
}

/// The queues of a record, each with the record's queue offset.
fn places(record: &RecordView<'_>) -> Vec<(String, i32, i64)> {
    let mut places = vec![(
        record.topic.to_owned(),
        record.queue_id,
        record.queue_offset,
    )];
    let text = |name| properties::get_str(record.properties, name);
    if let Some(names) = text("INNER_MULTI_DISPATCH") {
        let offsets = text("INNER_MULTI_QUEUE_OFFSET").unwrap();
        for (name, offset) in names.split(',').zip(offsets.split(',')) {
            places.push((name.to_owned(), 0, offset.parse().unwrap()));
        }
    }
    places
}

/// Whether an entry at this position of a queue equals the entry that we would write.
fn is_true(
    unit: &QueueEntry,
    log: &[u8],
    place: &(String, i32, i64),
    levels: &DelayLevels,
) -> bool {
    let start = usize::try_from(unit.physical_offset).unwrap();
    let Ok(record) = RecordView::parse(&log[start..], CheckCrc::Yes) else {
        return false;
    };
    let is_tagged = unit.is_extension_address() || unit.tags_code == record.tags_code(levels);
    let is_sized = record.size() as i64 == i64::from(unit.size_bytes);
    is_tagged && is_sized && places(&record).contains(place)
}

#[test]
fn an_entry_equals_the_one_that_we_would_write() {
    let levels = DelayLevels::parse(LEVELS).unwrap();
    for name in LISTED {
        let store = Golden::open(name);
        let log = store.commit_log();
        let mut untrue = Vec::new();
        for ((topic, queue_id), (units, _)) in queues(&store) {
            for (offset, unit) in units.iter().enumerate() {
                let place = (topic.clone(), queue_id, offset as i64);
                if !is_true(unit, &log, &place, &levels) {
                    untrue.push(unit.physical_offset);
                }
            }
        }
        // Java truncates log and queues in memory only. Entries of dropped records stay in the
        // files, and are wrong if a new record has replaced the old ones.
        let left_over: &[i64] = match name {
            "store-damaged/after" => &[219_344, 219_148],
            _ => &[],
        };
        assert_eq!(untrue, left_over, "{name}");
    }
}

/// The content of an index file.
struct Index {
    header: IndexHeader,
    /// Slots that are not empty, each with the number of its newest entry.
    slots: BTreeMap<u32, i32>,
    /// The entries, oldest first.
    entries: Vec<IndexEntry>,
}

impl Index {
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len() as u64, LAYOUT.file_bytes());
        let header = IndexHeader::decode(bytes.first_chunk::<HEADER_BYTES>().unwrap());
        assert_eq!(bytes[..HEADER_BYTES], header.encode());
        let slot = |slot| {
            let at = usize::try_from(LAYOUT.slot_position(slot)).unwrap();
            (
                slot,
                i32::from_be_bytes(*bytes[at..].first_chunk().unwrap()),
            )
        };
        let entry = |index: i32| {
            let position = LAYOUT.entry_position(index.unsigned_abs());
            let at = usize::try_from(position).unwrap();
            let bytes = bytes[at..].first_chunk::<INDEX_ENTRY_BYTES>().unwrap();
            let entry = IndexEntry::decode(bytes);
            assert_eq!(entry.encode(), *bytes);
            entry
        };
        Self {
            header,
            slots: (0..INDEX_SLOTS)
                .map(slot)
                .filter(|(_, head)| *head != 0)
                .collect(),
            entries: (1..header.index_count).map(entry).collect(),
        }
    }

    /// The content according to the lines of a list that name this file.
    fn listed(lines: &[&Value]) -> Self {
        let header = &lines[0]["header"];
        let int = |line: &Value, key: &str| i32::try_from(line[key].as_i64().unwrap()).unwrap();
        let long = |line: &Value, key: &str| line[key].as_i64().unwrap();
        let entry = |(at, line): (usize, &&Value)| {
            assert_eq!(line["index"], at as i64 + 1);
            IndexEntry {
                key_hash: int(line, "keyHash"),
                physical_offset: long(line, "phyOffset"),
                time_difference_seconds: int(line, "timeDiff"),
                previous: int(line, "prev"),
            }
        };
        let of_slot = |line: &&Value| (int(line, "slot").unsigned_abs(), int(line, "head"));
        let (slots, entries): (Vec<_>, Vec<_>) =
            lines[1..].iter().partition(|line| line["slot"].is_i64());
        Self {
            header: IndexHeader {
                begin_timestamp_ms: long(header, "beginTimestamp"),
                end_timestamp_ms: long(header, "endTimestamp"),
                begin_physical_offset: long(header, "beginPhyOffset"),
                end_physical_offset: long(header, "endPhyOffset"),
                hash_slot_count: int(header, "hashSlotCount"),
                index_count: int(header, "indexCount"),
            },
            slots: slots.iter().map(of_slot).collect(),
            entries: entries.iter().enumerate().map(entry).collect(),
        }
    }
}

#[test]
fn index_files_match_the_list() {
    for name in LISTED {
        let store = Golden::open(name);
        let lines = store.list("index");
        let names: BTreeSet<_> = lines
            .iter()
            .map(|line| line["file"].as_str().unwrap())
            .collect();
        let files = store.folder("index");
        assert!(files.keys().copied().eq(names), "{name}");
        for (file, bytes) in files {
            let lines: Vec<_> = lines.iter().filter(|line| line["file"] == file).collect();
            let (found, expected) = (Index::read(bytes), Index::listed(&lines));
            assert_eq!(found.header, expected.header, "{name} {file}");
            assert_eq!(found.slots, expected.slots, "{name} {file}");
            assert_eq!(found.entries, expected.entries, "{name} {file}");
        }
    }
}

/// Key hashes of a record in RocketMQ's order: the unique key, then each of KEYS.
fn key_hashes(record: &RecordView<'_>) -> Vec<i32> {
    let text = |name| properties::get_str(record.properties, name);
    let keys = text(properties::KEYS).unwrap_or_default();
    let unique = text(properties::UNIQ_KEY);
    let keys = unique.as_deref().into_iter().chain(keys.split(' '));
    keys.filter(|key| !key.is_empty())
        .map(|key| key_hash(record.topic, key))
        .collect()
}

#[test]
fn an_index_entry_equals_the_one_that_we_would_write() {
    for name in LISTED {
        let store = Golden::open(name);
        let log = store.commit_log();
        let mut end_of_previous = IndexHeader::default();
        for (file, bytes) in store.folder("index") {
            let index = Index::read(bytes);
            let mut heads = BTreeMap::new();
            for (at, entry) in index.entries.iter().enumerate() {
                let start = usize::try_from(entry.physical_offset).unwrap();
                let record = RecordView::parse(&log[start..], CheckCrc::Yes).unwrap();
                assert!(key_hashes(&record).contains(&entry.key_hash), "{file} {at}");
                // Java counts the time of a file's first entry from the end of the previous file.
                let begin = IndexHeader {
                    begin_timestamp_ms: match at {
                        0 => end_of_previous.end_timestamp_ms,
                        _ => index.header.begin_timestamp_ms,
                    },
                    ..index.header
                };
                let seconds = begin.time_difference_seconds(record.store_timestamp_ms);
                assert_eq!(entry.time_difference_seconds, seconds, "{name} {file} {at}");
                let head = heads.insert(LAYOUT.slot_of(entry.key_hash), at as i32 + 1);
                assert_eq!(entry.previous, head.unwrap_or(0), "{name} {file} {at}");
            }
            assert_eq!(index.slots, heads, "{name} {file}");
            end_of_previous = index.header;
        }
    }
}
