//! One bit flip anywhere: no damaged body is delivered, no message moves, nothing panics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use mq_format::message::{CheckCrc, RecordView};
use mq_testing::stores::directory;

use crate::flip::flip;
use crate::oracle::close;
use crate::random::Random;
use crate::rig::{Message, QUEUES, Rig, TOPICS, copy_tree, drain, files, put};

/// Fields of a record with IPv4 hosts and their lengths in bytes, up to the body.
const FIELDS: [(&str, usize); 15] = [
    ("TOTALSIZE", 4),
    ("MAGIC", 4),
    ("BODYCRC", 4),
    ("QUEUEID", 4),
    ("FLAG", 4),
    ("QUEUEOFFSET", 8),
    ("PHYSICALOFFSET", 8),
    ("SYSFLAG", 4),
    ("BORNTIMESTAMP", 8),
    ("BORNHOST", 8),
    ("STORETIMESTAMP", 8),
    ("STOREHOST", 8),
    ("RECONSUMETIMES", 4),
    ("PREPAREDTXOFFSET", 8),
    ("BODYLEN", 4),
];

/// Bits of SYSFLAG that give the length of the hosts; a flip makes the record invalid.
const HOST_LENGTHS: [usize; 2] = [26, 27];
/// A bit of SYSFLAG that excludes the message from its queue, which contradicts its queue entry.
const PREPARED: [usize; 1] = [29];

/// Flips in each of three tests.
const RANDOM_FLIPS: usize = 700;

/// How the last owner left a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Killed,
    /// Closed by RocketMQ, which does not write our clean-stop marker.
    Closed,
    /// Closed by us, with a marker that records the end of the log.
    Marked,
}

/// A closed store of a few messages in each queue; one of them is damaged.
struct Patient {
    rig: Rig,
    root: tempfile::TempDir,
    /// Records by key.
    records: BTreeMap<String, Vec<u8>>,
    victim: String,
    at: u64,
}

impl Patient {
    fn new() -> Self {
        let rig = Rig::new(true, 64 << 10);
        let root = directory();
        let store = rig.open(root.path());
        let (mut records, mut victim) = (BTreeMap::new(), None);
        for number in 0..12 {
            let topic = TOPICS[number % 2];
            let body = format!("the body of message {number}").into_bytes();
            let queue_id = (number / 2 % 2) as i32;
            let message = Message::new(&format!("m{number}"), topic, queue_id, body);
            let result = put(&store, &message);
            let record = store.get_at(result.physical_offset, mq_store::ReadMode::Wait);
            records.insert(message.key.clone(), record.unwrap().unwrap());
            if number == 5 {
                victim = Some((message.key, result.physical_offset as u64));
            }
        }
        close(store).unwrap();
        let (victim, at) = victim.unwrap();
        Self {
            rig,
            root,
            records,
            victim,
            at,
        }
    }

    fn copy(&self, left: Left) -> tempfile::TempDir {
        let copy = directory();
        copy_tree(self.root.path(), copy.path());
        match left {
            Left::Killed => fs::write(copy.path().join("abort"), b"").unwrap(),
            Left::Closed => fs::remove_file(copy.path().join("mqstack/closed.json")).unwrap(),
            Left::Marked => {}
        }
        copy
    }

    /// Checks that all delivered messages were put, and are in their places. Damaged ones may be
    /// missing, and the start may be refused.
    fn survives(&self, root: &Path) -> Result<(), String> {
        let store = self.rig.try_open(root)?;
        for topic in TOPICS {
            for queue_id in 0..QUEUES {
                for stored in drain(&store, topic, queue_id)? {
                    // Properties have no checksum, so flips in them, also in the key, are not
                    // noticed.
                    let is_own = self.records.values().any(|record| {
                        let record = RecordView::parse(record, CheckCrc::Yes).unwrap();
                        (record.topic, record.queue_id) == (topic, queue_id)
                            && record.queue_offset == stored.queue_offset
                            && record.body == stored.body
                    });
                    if !is_own {
                        return Err(format!("{topic}/{queue_id} delivers {stored:?}"));
                    }
                }
            }
        }
        crate::oracle::check_appends(&store)?;
        close(store)
    }

    /// The victim's record as delivered after a start; None if it is not delivered. All other
    /// messages must be unchanged.
    fn delivered(&self, root: &Path) -> Result<Option<Vec<u8>>, String> {
        let store = self.rig.try_open(root)?;
        let topics = fs::read_dir(root.join("consumequeue")).unwrap();
        let topics: BTreeSet<_> = topics.map(|topic| topic.unwrap().file_name()).collect();
        if topics != TOPICS.map(Into::into).into() {
            return Err(format!("has queues of {topics:?}"));
        }
        let mut found = BTreeMap::new();
        for topic in TOPICS {
            for queue_id in 0..QUEUES {
                for stored in drain(&store, topic, queue_id)? {
                    let mode = mq_store::ReadMode::Wait;
                    let record = store.get_at(stored.physical_offset, mode).unwrap().unwrap();
                    found.insert(stored.physical_offset as u64, record);
                }
            }
        }
        close(store)?;
        let victim = found.remove(&self.at);
        let others: Vec<_> = found.into_values().collect();
        let mut expected = self.records.clone();
        expected.remove(&self.victim);
        for record in &others {
            let is_known = expected.values().any(|known| known == record);
            if !is_known {
                return Err(format!(
                    "delivers {:?}",
                    RecordView::parse(record, CheckCrc::No)
                ));
            }
        }
        match others.len() == expected.len() {
            true => Ok(victim),
            false => Err(format!("{} others are left", others.len())),
        }
    }
}

/// The mask of a bit; bits are counted from the highest bit of the first byte.
fn mask_of(bit: u64) -> u8 {
    0x80 >> (bit % 8)
}

/// The field with this bit, and the bit's number in the field, counted from the top.
fn field_of(record: &[u8], bit: usize) -> (&'static str, usize) {
    let view = RecordView::parse(record, CheckCrc::Yes).unwrap();
    let rest = [
        ("BODY", view.body.len()),
        ("TOPICLEN", 1),
        ("TOPIC", view.topic.len()),
        ("PROPLEN", 2),
        ("PROPERTIES", view.properties.len()),
    ];
    let mut from = 0;
    for (name, bytes) in FIELDS.into_iter().chain(rest) {
        if bit < from + bytes * 8 {
            return (name, bit - from);
        }
        from += bytes * 8;
    }
    unreachable!("a bit beyond the record")
}

/// A range of bits of a field, counted from its top.
fn bits(from: usize, to: usize) -> BTreeSet<usize> {
    (from..to).collect()
}

/// Bits whose flips cannot be noticed: they are stored once and no checksum covers them.
fn unrevealed(record: &[u8]) -> BTreeMap<&'static str, BTreeSet<usize>> {
    let properties = RecordView::parse(record, CheckCrc::Yes)
        .unwrap()
        .properties
        .len();
    BTreeMap::from([
        ("FLAG", bits(0, 32)),
        (
            "SYSFLAG",
            &(&bits(0, 32) - &HOST_LENGTHS.into()) - &PREPARED.into(),
        ),
        ("BORNTIMESTAMP", bits(0, 64)),
        ("BORNHOST", bits(0, 64)),
        ("STORETIMESTAMP", bits(0, 64)),
        ("STOREHOST", bits(0, 64)),
        ("RECONSUMETIMES", bits(0, 32)),
        ("PREPAREDTXOFFSET", bits(0, 64)),
        ("PROPERTIES", bits(0, properties * 8)),
    ])
}

#[test]
fn each_flip_in_a_record_is_noticed_unless_listed() {
    let patient = Patient::new();
    let record = &patient.records[&patient.victim];
    let mut missed: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut problems = Vec::new();
    for bit in 0..record.len() * 8 {
        let copy = patient.copy(Left::Killed);
        let log = copy.path().join("commitlog/00000000000000000000");
        flip(&log, patient.at + bit as u64 / 8, mask_of(bit as u64));
        let (field, place) = field_of(record, bit);
        match patient.delivered(copy.path()) {
            Ok(None) => {}
            Ok(Some(delivered)) if delivered == *record => {}
            Ok(Some(_)) => {
                missed.entry(field).or_default().insert(place);
            }
            Err(problem) => problems.push(format!("{field} bit {place}: {problem}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(missed, unrevealed(record));
}

/// Files and their lengths for random flips, without the unused rest of each file.
fn places(root: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for path in files(root) {
        let bytes = fs::read(&path).unwrap();
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        // Include a little of the unused rest.
        let used = (used + 64).min(bytes.len());
        if used > 0 {
            found.push((path.strip_prefix(root).unwrap().to_owned(), used as u64));
        }
    }
    found
}

fn random_flips(left: Left, seed: u64) {
    let patient = Patient::new();
    let mut places = places(patient.copy(left).path());
    if left == Left::Marked {
        places.retain(|(path, _)| !path.starts_with("commitlog"));
    }
    let mut random = Random::new(seed);
    let mut problems = Vec::new();
    for _ in 0..RANDOM_FLIPS {
        let place = &places[random.below(places.len())];
        let bit = random.next() % (place.1 * 8);
        let copy = patient.copy(left);
        flip(&copy.path().join(&place.0), bit / 8, mask_of(bit));
        if let Err(problem) = patient.survives(copy.path()) {
            problems.push(format!(
                "{} byte {} bit {}: {problem}",
                place.0.display(),
                bit / 8,
                bit % 8
            ));
        }
    }
    problems.sort();
    assert!(
        problems.is_empty(),
        "{} of {RANDOM_FLIPS}:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

#[test]
fn random_flips_of_a_killed_store() {
    random_flips(Left::Killed, 1);
}

#[test]
fn random_flips_of_a_closed_store() {
    random_flips(Left::Closed, 2);
}

#[test]
fn random_flips_of_a_store_with_a_marker() {
    random_flips(Left::Marked, 3);
}
