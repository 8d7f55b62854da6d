//! Flips single bits on the disk of an open store. No damaged message may be delivered, and its
//! neighbours must be.

use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::filter::MessageFilter;
use crate::settings::Settings;
use crate::tests::store_rig::{Rig, rig_with, settings};
use crate::tests::test_rig::request;
use crate::types::{GetRequest, GetStatus, PutRequest, ReadMode};
use mq_format::filter::Sql;
use mq_format::message::{CheckCrc, Head, RecordView};

const MESSAGES: usize = 24;
const BODY_BYTES: usize = 300;
const PROPERTIES: &[u8] = b"TAGS\x01TagA\x02KEYS\x01same\x02a\x017";

/// Bits that a test flips one after the other. `scripts/soak` sets more.
fn flips() -> usize {
    let asked = std::env::var("MQSTACK_FLIPS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(400)
}

/// Random numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

fn filled() -> Rig {
    let rig = rig_with(Settings {
        index_entries: Some(100),
        commit_log_file_bytes: Some(1 << 20),
        allocate_step_bytes: 1 << 20,
        ..settings()
    });
    for number in 0..MESSAGES {
        // One message has no body, and therefore checksum 0.
        let body = [number as u8; BODY_BYTES];
        let body = &body[..if number == 7 { 0 } else { BODY_BYTES }];
        for topic in ["T", "Other"] {
            let put = rig.store.put(&PutRequest {
                properties: PROPERTIES,
                ..request(topic, body)
            });
            rig.store.wait(put);
        }
    }
    rig.wait_until_flushed();
    rig
}

fn split(records: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = records;
    while let Head::Record(size) = Head::parse(rest) {
        found.push(rest[..size].to_vec());
        rest = &rest[size..];
    }
    assert!(rest.is_empty(), "the reply has whole records only");
    found
}

/// All messages that a consumer gets when it pulls the queue from start to end.
fn pulled(rig: &Rig, filter: &MessageFilter) -> Vec<Vec<u8>> {
    let (mut offset, mut found) = (0, Vec::new());
    while offset < MESSAGES as i64 {
        let mut records = Vec::new();
        let request = GetRequest {
            topic: "T",
            queue_id: 1,
            offset,
            max_count: 10,
            filter,
            mode: ReadMode::Wait,
        };
        let got = rig.store.get(&request, &mut records).unwrap();
        assert!(
            got.next_begin_offset > offset,
            "the consumer makes progress"
        );
        let records = split(&records);
        assert_eq!(got.message_count as usize, records.len());
        assert_eq!(got.status == GetStatus::Found, !records.is_empty());
        (offset, found) = (got.next_begin_offset, [found, records].concat());
    }
    found
}

fn flip(path: &std::path::Path, at: u64, bit: u8) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ bit], at).unwrap();
}

/// Regions of a record, in bytes from its start, and whether the format detects a change in them.
fn regions(record: &[u8]) -> Vec<(&'static str, Range<usize>, bool)> {
    let view = RecordView::parse(record, CheckCrc::Yes).unwrap();
    let (body, topic) = (88, 88 + view.body.len() + 1);
    let properties = topic + view.topic.len() + 2;
    vec![
        ("size", 0..4, true),
        ("magic", 4..8, true),
        ("body CRC", 8..12, true),
        ("queue id", 12..16, true),
        ("flag", 16..20, false),
        ("queue offset", 20..28, true),
        ("physical offset", 28..36, true),
        ("born timestamp and host", 40..56, false),
        ("store timestamp and host", 56..72, false),
        ("reconsume times, prepared offset", 72..84, false),
        ("body length", 84..88, true),
        ("body", body..topic - 1, true),
        ("topic length", topic - 1..topic, true),
        ("topic", topic..properties - 2, true),
        ("properties length", properties - 2..properties, true),
        ("properties", properties..record.len(), false),
    ]
}

#[test]
fn no_flipped_bit_that_the_format_reveals_is_delivered() {
    let rig = filled();
    let log = rig.files("commitlog").remove(0);
    let all = MessageFilter::All;
    let originals = pulled(&rig, &all);
    assert_eq!(originals.len(), MESSAGES);
    let (mut dice, mut hidden) = (Dice(1), 0);
    let mut skipped = rig.store.reader.damaged_skipped();
    for round in 0..flips() {
        let number = dice.below(MESSAGES);
        let record = &originals[number];
        let regions = regions(record);
        let (name, range, is_revealed) = &regions[round % regions.len()];
        if range.is_empty() {
            continue;
        }
        let at = range.start + dice.below(range.len());
        let bit = 1 << dice.below(8);
        let start = RecordView::parse(record, CheckCrc::No)
            .unwrap()
            .physical_offset;
        let place = start.cast_unsigned() + at as u64;
        flip(&log, place, bit);
        let seen = pulled(&rig, &all);
        let what = format!("{name}, byte {at}, bit {bit}, message {number}");
        if *is_revealed {
            let neighbours = [&originals[..number], &originals[number + 1..]].concat();
            assert!(seen == neighbours, "{what}");
            skipped += 1;
        } else {
            assert_eq!(seen.len(), MESSAGES, "{what}");
            hidden += 1;
        }
        assert_eq!(rig.store.reader.damaged_skipped(), skipped, "{what}");
        flip(&log, place, bit);
    }
    assert!(hidden < flips() / 2);
    assert!(pulled(&rig, &all) == originals);
}

#[test]
fn every_kind_of_read_checks_records() {
    let rig = filled();
    let log = rig.files("commitlog").remove(0);
    let originals = pulled(&rig, &MessageFilter::All);
    let sql = MessageFilter::Sql(Arc::new(Sql::compile("a > 5").unwrap()));
    let at = |number: usize| {
        let record = RecordView::parse(&originals[number], CheckCrc::No).unwrap();
        record.physical_offset
    };
    let queried = || {
        let mut records = Vec::new();
        rig.store.query("T", "same", 64, 0, i64::MAX, &mut records);
        let mut found = split(&records);
        found.sort();
        found
    };
    let mut sorted = originals.clone();
    sorted.sort();
    assert!(queried() == sorted);
    // Checksum, physical offset, system flag, body length, body.
    for byte in [8, 35, 36 + 3, 87, 100] {
        let bit = 16;
        flip(&log, at(3).cast_unsigned() + byte, bit);
        let neighbours = [&originals[..3], &originals[4..]].concat();
        assert!(pulled(&rig, &sql) == neighbours, "SQL, byte {byte}");
        assert_eq!(
            rig.store.get_at(at(3), ReadMode::Wait),
            Ok(None),
            "byte {byte}"
        );
        let no_wait = rig.store.get_at(at(3), ReadMode::NoWait);
        assert!(!matches!(no_wait, Ok(Some(_))), "byte {byte}");
        let mut sorted = neighbours;
        sorted.sort();
        assert!(queried() == sorted, "by key, byte {byte}");
        flip(&log, at(3).cast_unsigned() + byte, bit);
    }
    assert!(rig.store.get_at(at(3), ReadMode::NoWait).unwrap().is_some());
}

#[test]
fn a_flipped_queue_entry_is_rebuilt() {
    let rig = filled().reopen(false);
    let all = MessageFilter::All;
    let originals = pulled(&rig, &all);
    let files = rig.files("consumequeue/T/1");
    let mut dice = Dice(2);
    let count = flips() / 4;
    for _ in 0..count {
        let number = dice.below(MESSAGES);
        // Offset and size. The rest of an entry is the hash of the tags.
        let (at, bit) = (dice.below(12), 1 << dice.below(8));
        let (file, place) = (&files[number / 10], (number % 10 * 20 + at) as u64);
        flip(file, place, bit);
        let what = format!("byte {at}, bit {bit}, message {number}");
        assert!(pulled(&rig, &all) == originals, "{what}");
    }
    let repaired = rig.store.reader.repairer.repaired();
    assert_eq!(repaired, count as u64, "entries are read from the file");
    assert_eq!(rig.store.reader.damaged_skipped(), 0);
}
