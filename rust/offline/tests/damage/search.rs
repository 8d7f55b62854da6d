//! A search with random damage: a message whose record in the log is intact is delivered, whatever
//! happened to the files that are derived from the log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use mq_format::message::{CheckCrc, RecordView};
use mq_store::testing::request;
use mq_store::{GetRequest, GetStatus, MessageFilter, PutRequest, PutStatus, ReadMode, Store};

use crate::rig::{LOG_FILE, Patient, Sent, settings};

/// All queues. `Idle` has no message in the files that a start checks.
const QUEUES: [(&str, i32); 6] = [
    ("Busy", 0),
    ("Busy", 1),
    ("Busy", 2),
    ("Idle", 0),
    ("Idle", 1),
    ("Single", 0),
];
const MESSAGES: usize = 400;
/// Reads at one offset after which a queue counts as stuck.
const TRIES_MAX: usize = 100;

/// Reproducible random numbers.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end.max(1) as u64).unwrap()
    }
}

/// A store with six queues, and the topic of each message.
struct Whole {
    patient: Patient,
    topics: Vec<&'static str>,
    log: Vec<u8>,
}

fn whole(queue_file_bytes: u64) -> Whole {
    let mut topics = Vec::new();
    let settings = mq_store::Settings {
        consume_queue_file_bytes: Some(queue_file_bytes),
        index_slots: Some(100),
        index_entries: Some(400),
        ..settings()
    };
    let patient = Patient::filled_with(settings, |store, clock| {
        let mut random = Random::new(7);
        let sent = (0..MESSAGES).map(|at| {
            let queues = match at {
                20 => &QUEUES[5..],
                ..100 => &QUEUES[..5],
                _ => &QUEUES[..3],
            };
            let (topic, queue_id) = queues[random.below(queues.len())];
            clock.advance(100);
            let body = vec![b'A' + (at % 26) as u8; 20 + random.below(300)];
            let key = format!("KEYS\x01k{at}\x02TAGS\x01TagA");
            let put = store.wait(store.put(&PutRequest {
                queue_id,
                properties: key.as_bytes(),
                ..request(topic, &body)
            }));
            assert_eq!(put.status, PutStatus::Ok);
            topics.push(topic);
            let from = put.physical_offset.cast_unsigned();
            Sent {
                queue_id,
                queue_offset: put.queue_offset,
                range: from..from + u64::try_from(put.size_bytes).unwrap(),
                body,
            }
        });
        sent.collect()
    });
    assert!(patient.end > 5 * LOG_FILE, "older files are there");
    let log = patient.log();
    Whole {
        patient,
        topics,
        log,
    }
}

/// One store with many files per queue, and one with a single file per queue.
static WHOLE: LazyLock<[Whole; 2]> = LazyLock::new(|| [whole(200), whole(8_000)]);

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files_below(&path, found),
            false => found.push(path),
        }
    }
    found.sort();
}

/// End of the used part of a file.
fn used(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last + 1)
}

/// Damages one file of a store; returns a description.
fn damage(root: &Path, of: &str, random: &mut Random) -> String {
    let mut files = Vec::new();
    files_below(&root.join(of), &mut files);
    let path = files[random.below(files.len())].clone();
    let mut bytes = fs::read(&path).unwrap();
    let end = used(&bytes);
    let at = match random.below(3) {
        0 => end.saturating_sub(1 + random.below(20)),
        _ => random.below(end.max(1)),
    };
    let count = (1 + random.below(64)).min(bytes.len().saturating_sub(at));
    let what = match random.below(10) {
        0..3 if !bytes.is_empty() => {
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        3 | 4 => {
            bytes[at..at + count].fill(0);
            format!("{count} bytes from {at} zeroed")
        }
        5 => {
            let from = at - at % 512;
            let to = (from + 512).min(bytes.len());
            bytes[from..to].fill(0);
            format!("sector at {from} zeroed")
        }
        6 => {
            bytes.copy_within(at..end - count.min(end - at), at + count.min(end - at));
            format!("moved up by {count} from {at}")
        }
        7 => {
            bytes.copy_within((at + count).min(end)..end, at);
            format!("moved down by {count} from {at}")
        }
        8 if of == "consumequeue" => {
            let other = fs::read(&files[random.below(files.len())]).unwrap();
            let to = end.min(other.len());
            bytes[..to].copy_from_slice(&other[..to]);
            "another file's content".to_owned()
        }
        _ if of == "consumequeue" && random.below(2) == 0 => {
            bytes.truncate(at);
            format!("cut to {at}")
        }
        _ => {
            let noise = |byte: &mut u8| *byte = u8::try_from(random.below(256)).unwrap();
            bytes[at..at + count].iter_mut().for_each(noise);
            format!("noise in {count} bytes from {at}")
        }
    };
    fs::write(&path, bytes).unwrap();
    format!("{}: {what}", path.strip_prefix(root).unwrap().display())
}

/// The bodies that a queue delivers, by queue offset.
fn drain(store: &Store, topic: &str, queue_id: i32) -> Result<BTreeMap<i64, Vec<u8>>, String> {
    let (mut found, mut tries) = (BTreeMap::new(), 0);
    let mut offset = store.min_offset(topic, queue_id);
    while offset < store.max_offset(topic, queue_id) {
        let (mut out, all) = (Vec::new(), MessageFilter::All);
        let request = GetRequest {
            topic,
            queue_id,
            offset,
            max_count: 32,
            filter: &all,
            mode: ReadMode::Wait,
        };
        let got = store.get(&request, &mut out).unwrap();
        tries = if got.next_begin_offset > offset {
            0
        } else {
            tries + 1
        };
        if tries > TRIES_MAX {
            return Err(format!("{topic}/{queue_id} is stuck at {offset}: {got:?}"));
        }
        offset = got.next_begin_offset;
        let mut rest = &out[..];
        while got.status == GetStatus::Found && !rest.is_empty() {
            let record = RecordView::parse(rest, CheckCrc::Yes).unwrap();
            found.insert(record.queue_offset, record.body.to_vec());
            rest = &rest[record.size()..];
        }
    }
    Ok(found)
}

/// Starts a store and checks the messages that it delivers.
fn judge(whole: &Whole, patient: &Patient, log: &[u8]) -> Result<(), String> {
    let store = patient.try_open().map_err(|error| error.to_string())?;
    let is_intact = |sent: &Sent| {
        let range = sent.range.start as usize..sent.range.end as usize;
        whole.log[range.clone()] == log[range]
    };
    for (topic, queue_id) in QUEUES {
        let found = drain(&store, topic, queue_id)?;
        let sent = patient.sent.iter().zip(&whole.topics);
        let mut count = 0;
        for (sent, _) in sent.filter(|(sent, of)| (**of, sent.queue_id) == (topic, queue_id)) {
            count += 1;
            let is_found = found.get(&sent.queue_offset) == Some(&sent.body);
            if is_intact(sent) && !is_found {
                let place = (sent.queue_offset, sent.range.clone());
                return Err(format!("{topic}/{queue_id} withholds {place:?}"));
            }
        }
        let put = store.wait(store.put(&PutRequest {
            queue_id,
            ..request(topic, b"new")
        }));
        let is_last_intact = patient
            .sent
            .iter()
            .zip(&whole.topics)
            .rfind(|(sent, of)| (**of, sent.queue_id) == (topic, queue_id))
            .is_none_or(|(sent, _)| is_intact(sent));
        if put.status != PutStatus::Ok || (is_last_intact && put.queue_offset < count) {
            return Err(format!("{topic}/{queue_id} goes on after {count}: {put:?}"));
        }
    }
    store.close().map_err(|error| error.to_string())
}

/// Damages and checks one store; the error names the missing messages.
fn round(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let whole = &WHOLE[random.below(2)];
    let patient = whole.patient.copy();
    let root = patient.root.path();
    let left = random.below(3);
    match left {
        0 => patient.leave_open(),
        1 => fs::remove_file(root.join("mqstack/closed.json")).unwrap(),
        _ => {}
    }
    let hits = 1 + random.below(3);
    let mut what = vec![format!("left {left}")];
    for _ in 0..hits {
        let of = match random.below(10) {
            0 if left != 0 => "commitlog",
            1 => "index",
            2 => "mqstack",
            _ => "consumequeue",
        };
        what.push(damage(root, of, &mut random));
    }
    let log = patient.log();
    judge(whole, &patient, &log).map_err(|error| format!("seed {seed}: {error}; {what:?}"))
}

fn search(seeds: std::ops::Range<u64>) {
    let count = seeds.end - seeds.start;
    let problems: Vec<_> = seeds.filter_map(|seed| round(seed).err()).collect();
    let some = &problems[..problems.len().min(20)];
    assert!(
        problems.is_empty(),
        "{} of {count}: {some:#?}",
        problems.len()
    );
}

/// Starts once hid or destroyed these messages: zeros at the end of a quiet queue after a kill,
/// misplaced entries that made sound records look damaged, and misplaced entries that pointed into
/// damaged bytes of the log.
#[test]
fn damages_that_once_hid_messages() {
    for seed in [
        193, 566, 862, 1_152, 3_677, 7_422, 13_916, 16_383, 22_244, 27_339, 30_633, 31_638, 44_333,
        49_664, 77_298,
    ] {
        search(seed..seed + 1);
    }
}

/// Default number of rounds. `MQSTACK_DAMAGES` sets another, `MQSTACK_DAMAGES_FROM` the first seed.
const ROUNDS: u64 = 120;

#[test]
fn intact_messages_are_delivered_after_any_damage() {
    let number = |name| Some(std::env::var(name).ok()?.parse::<u64>().unwrap());
    let from = number("MQSTACK_DAMAGES_FROM").unwrap_or(0);
    let rounds = number("MQSTACK_DAMAGES").unwrap_or(ROUNDS);
    search(from..from + rounds);
}
