//! With derived files of any length and with any holes, the store opens, and every message is found
//! by its queue offset and by its keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use mq_base::clock::{ManualClock, SystemClock};
use mq_format::index::{ENTRY_BYTES, HEADER_BYTES, IndexHeader, SLOT_BYTES};
use mq_format::message::{CheckCrc, RecordView};
use mq_offline::Scan;
use mq_store::testing::request;
use mq_store::{
    GetRequest, GetStatus, MessageFilter, PutRequest, PutStatus, QueueExt, ReadMode, Settings,
    Store,
};
use mq_testing::stores::directory;

use crate::rig::{copy_tree, settings};

const TOPICS: [&str; 3] = ["One", "Two", "Three"];
const MESSAGES: i64 = 27;
/// Length of an extension file, and the end of its five units.
const EXT_FILE_BYTES: u64 = 120;
const EXT_UNITS_END: usize = 100;
/// Start of the entries in an index file, after the header and ten slots.
const INDEX_ENTRIES_AT: usize = HEADER_BYTES + 10 * SLOT_BYTES;

/// Reproducible random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end.max(1) as u64).unwrap()
    }
}

fn with_ext(mut settings: Settings, has_ext: bool) -> Settings {
    settings.queue_ext = QueueExt {
        enabled: has_ext,
        file_bytes: has_ext.then_some(EXT_FILE_BYTES),
        ..settings.queue_ext
    };
    settings
}

/// The settings without the sizes of derived files.
fn without_sizes(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.consume_queue_file_bytes = None;
    settings.queue_ext.file_bytes = None;
    (settings.index_slots, settings.index_entries) = (None, None);
    settings
}

fn open(root: &Path, settings: &Settings, create: bool) -> Arc<Store> {
    Store::open(root, settings.clone(), SystemClock::shared(), create).unwrap()
}

/// A closed store with several files of each kind.
fn closed(settings: &Settings) -> TempDir {
    let root = directory();
    let store = open(root.path(), settings, true);
    for number in 0..MESSAGES {
        for topic in TOPICS {
            let body = [b'x'; 700];
            let properties = format!("TAGS\x01{topic}\x02KEYS\x01k{number}");
            let put = store.put(&PutRequest {
                properties: properties.as_bytes(),
                ..request(topic, &body)
            });
            assert_eq!(store.wait(put).status, PutStatus::Ok);
        }
    }
    store.close().unwrap();
    root
}

fn copy(from: &Path) -> TempDir {
    let to = directory();
    copy_tree(from, to.path());
    to
}

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

fn derived_files(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.join("checkpoint")];
    for of in ["consumequeue", "consumequeue_ext", "index"] {
        files_below(&root.join(of), &mut found);
    }
    found
}

/// Checks that every message is found by queue offset, with its tag, and by key.
fn assert_whole(store: &Store, what: &str) {
    for topic in TOPICS {
        assert_eq!(store.max_offset(topic, 1), MESSAGES, "{topic} after {what}");
        for offset in 0..MESSAGES {
            let mut bytes = Vec::new();
            let request = GetRequest {
                topic,
                queue_id: 1,
                offset,
                max_count: 1,
                filter: &MessageFilter::All,
                mode: ReadMode::Wait,
            };
            let got = store.get(&request, &mut bytes).unwrap();
            assert_eq!(
                got.status,
                GetStatus::Found,
                "{topic} {offset} after {what}"
            );
            let record = RecordView::parse(&bytes, CheckCrc::Yes).unwrap();
            assert_eq!(
                (record.topic, record.queue_offset),
                (topic, offset),
                "{what}"
            );
            let key = format!("k{offset}");
            let found = store.query(topic, &key, 32, 0, i64::MAX, &mut Vec::new());
            assert_eq!(found.message_count, 1, "{topic} {key} after {what}");
        }
    }
}

fn damage(path: &Path, random: &mut Random) -> String {
    let whole = fs::read(path).unwrap();
    let at = match random.below(3) {
        0 => random.below(42).min(whole.len()),
        _ => random.below(whole.len() + 1),
    };
    let mut bytes = whole.clone();
    let what = match random.below(4) {
        0 => {
            bytes[at..].fill(0);
            "zeroed from"
        }
        1 => {
            bytes.extend(vec![0; at + 1]);
            "longer by"
        }
        2 if at % 5 == 0 => {
            fs::remove_file(path).unwrap();
            return format!("{} removed", path.display());
        }
        _ => {
            bytes.truncate(at);
            "cut to"
        }
    };
    fs::write(path, bytes).unwrap();
    format!("{} of {} bytes {what} {at}", path.display(), whole.len())
}

/// Checks that `verify` finds the damage if it lost anything.
fn assert_named(root: &Path, path: &Path, whole: &[u8], what: &str) {
    let now = fs::read(path).ok();
    let of = |folder| path.starts_with(root.join(folder));
    let is_lost = match &now {
        None => of("consumequeue") || of("consumequeue_ext"),
        Some(now) if of("checkpoint") => now.len() != whole.len(),
        // After the units there is only the end mark of the file.
        Some(now) if of("consumequeue_ext") => {
            now.get(..EXT_UNITS_END) != whole.get(..EXT_UNITS_END)
        }
        Some(now) => now != whole,
    };
    let report = Scan::open(root).unwrap().verify(&mut |_| true).unwrap();
    assert!(!is_lost || report.finding_count > 0, "verify misses {what}");
}

/// Whether an index file lost only the time or the link of an entry. `verify` finds that, a start
/// does not.
fn is_link_only(path: &Path, whole: &[u8]) -> bool {
    let is_index = path
        .parent()
        .is_some_and(|folder| folder.ends_with("index"));
    let now = fs::read(path).unwrap_or_default();
    let in_entry = |at: usize| at.checked_sub(INDEX_ENTRIES_AT).map(|at| at % ENTRY_BYTES);
    let mut changed = (0..whole.len()).filter(|at| now.get(*at) != Some(&whole[*at]));
    is_index && changed.all(|at| in_entry(at).is_some_and(|at| at >= 12))
}

fn any_damage(has_ext: bool, seed: u64, rounds: usize) {
    let settings = with_ext(settings(), has_ext);
    let sound = closed(&settings);
    let mut random = Random(seed);
    for round in 0..rounds {
        let root = copy(sound.path());
        let files = derived_files(root.path());
        let path = &files[random.below(files.len())];
        let whole = fs::read(path).unwrap();
        let what = damage(path, &mut random);
        assert_named(root.path(), path, &whole, &what);
        if is_link_only(path, &whole) {
            continue;
        }
        let settings = match round % 2 {
            0 => settings.clone(),
            _ => without_sizes(&settings),
        };
        let store = open(root.path(), &settings, false);
        assert_whole(&store, &what);
        store.close().unwrap();
        let store = open(root.path(), &settings, false);
        assert_whole(&store, &format!("{what}, opened again"));
        store.close().unwrap();
    }
}

#[test]
fn a_derived_file_of_any_length_is_rebuilt() {
    any_damage(false, 0x5EED_0001, 120);
}

#[test]
fn a_damaged_queue_file_or_extension_file_is_rebuilt() {
    any_damage(true, 0x5EED_0002, 80);
}

/// The rest of a torn entry may look like an entry with an offset where no record starts.
#[test]
fn an_index_file_torn_anywhere_in_its_last_entries_is_rebuilt() {
    let settings = settings();
    let sound = closed(&settings);
    let mut files = Vec::new();
    files_below(&sound.path().join("index"), &mut files);
    for path in files {
        let whole = fs::read(&path).unwrap();
        let count = IndexHeader::decode(whole.first_chunk().unwrap()).index_count;
        let last = INDEX_ENTRIES_AT + usize::try_from(count - 1).unwrap() * ENTRY_BYTES;
        for at in [last, last - ENTRY_BYTES]
            .into_iter()
            .flat_map(|from| from + 4..from + 12)
        {
            let root = copy(sound.path());
            let path = root.path().join(path.strip_prefix(sound.path()).unwrap());
            let mut torn = whole.clone();
            torn[at..].fill(0);
            fs::write(&path, torn).unwrap();
            if is_link_only(&path, &whole) {
                continue;
            }
            let store = open(root.path(), &settings, false);
            assert_whole(&store, &format!("{} zeroed from {at}", path.display()));
            store.close().unwrap();
        }
    }
}

/// If an entry crosses two sectors, the first one may not reach the disk. If all keys share a slot,
/// the rest looks like an entry of a key with hash 0.
#[test]
fn an_index_entry_without_its_hash_is_rebuilt() {
    let mut settings = settings();
    settings.index_slots = Some(1);
    let sound = closed(&settings);
    let mut files = Vec::new();
    files_below(&sound.path().join("index"), &mut files);
    let path = files.last().unwrap();
    let whole = fs::read(path).unwrap();
    let count = IndexHeader::decode(whole.first_chunk().unwrap()).index_count;
    assert!(count > 3);
    for index in 1..usize::try_from(count).unwrap() {
        let root = copy(sound.path());
        let path = root.path().join(path.strip_prefix(sound.path()).unwrap());
        let at = HEADER_BYTES + SLOT_BYTES + index * ENTRY_BYTES;
        let mut torn = whole.clone();
        torn[at..at + 4].fill(0);
        fs::write(&path, torn).unwrap();
        fs::write(root.path().join("abort"), b"").unwrap();
        let store = open(root.path(), &settings, false);
        assert_whole(&store, &format!("entry {index} without its hash"));
        store.close().unwrap();
    }
}

/// The same without the second sector. If the entry is the first of its slot, it looks as if its
/// message was the first one of the file. Its record is older than those that a start checks.
#[test]
fn an_index_entry_without_its_time_is_rebuilt() {
    let mut settings = settings();
    settings.index_entries = Some(64);
    let clock = ManualClock::at(SystemClock::shared().wall_ms());
    let open = |root: &Path| Store::open(root, settings.clone(), clock.clone(), true).unwrap();
    let sound = directory();
    let store = open(sound.path());
    for number in 0..40 {
        clock.advance(1_000);
        let properties = format!("KEYS\x01k{number}");
        let put = store.put(&PutRequest {
            properties: properties.as_bytes(),
            ..request(TOPICS[0], &[b'x'; 700])
        });
        assert_eq!(store.wait(put).status, PutStatus::Ok);
    }
    store.close().unwrap();
    let mut files = Vec::new();
    files_below(&sound.path().join("index"), &mut files);
    let whole = fs::read(&files[0]).unwrap();
    let mut torn_entries = 0;
    for index in 2..=20 {
        let at = INDEX_ENTRIES_AT + index * ENTRY_BYTES;
        if whole[at + 16..at + 20] != [0; 4] {
            continue;
        }
        torn_entries += 1;
        let root = copy(sound.path());
        let mut torn = whole.clone();
        torn[at + 12..at + 20].fill(0);
        let path = root
            .path()
            .join(files[0].strip_prefix(sound.path()).unwrap());
        fs::write(path, torn).unwrap();
        fs::write(root.path().join("abort"), b"").unwrap();
        open(root.path()).close().unwrap();
        let report = Scan::open(root.path())
            .unwrap()
            .verify(&mut |_| true)
            .unwrap();
        assert_eq!(report.findings, [], "entry {index} without its time");
    }
    assert!(torn_entries > 3);
}

#[test]
#[ignore = "soak: run with --ignored"]
fn many_derived_files_of_any_length_are_rebuilt() {
    for seed in 1..20 {
        any_damage(seed % 2 == 0, 0x5EED_1000 + seed, 200);
    }
}
