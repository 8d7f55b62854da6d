//! Which bit flips `verify` finds: all flips in fields that locate a message, and those in other
//! fields whose value is stored twice. The table in docs/offline.md lists this by field.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::{Report, Scan};
use mq_base::clock::SystemClock;
use mq_format::message::{CheckCrc, RecordView, SCHEDULE_TOPIC};
use mq_store::Settings;
use mq_store::Store;
use mq_store::testing::request;
use mq_store::{PutRequest, PutStatus};
use mq_testing::stores::{directory, unpack};

const LOG_FILE: u64 = 16 << 10;

fn settings() -> Settings {
    Settings {
        commit_log_file_bytes: Some(LOG_FILE),
        consume_queue_file_bytes: Some(600),
        index_slots: Some(20),
        index_entries: Some(60),
        allocate_step_bytes: LOG_FILE,
        min_free_bytes: Some(0),
        ..Settings::default()
    }
}

const TOPICS: &str = "{\"topicConfigTable\":{\"Orders\":{\"topicName\":\"Orders\"},\
     \"Other\":{\"topicName\":\"Other\"}},\"dataVersion\":{\"counter\":1}}";

/// A closed store with plain, delayed and compressed messages and all state files.
fn closed() -> TempDir {
    let root = directory();
    let store = Store::open(root.path(), settings(), SystemClock::shared(), true).unwrap();
    put_all(&store);
    for (name, text) in [
        ("topics.json", TOPICS),
        (
            "subscriptionGroup.json",
            "{\"subscriptionGroupTable\":{\"group\":{}}}",
        ),
        ("consumerFilter.json", "{\"filterDataByTopic\":{}}"),
        ("delayOffset.json", "{\"offsetTable\":{3:0}}"),
    ] {
        // Save twice, so that there is a previous copy.
        store.save_state(name, text.as_bytes()).unwrap();
        store.save_state(name, text.as_bytes()).unwrap();
    }
    store.commit("group", "Orders", 1, 3, usize::MAX);
    store.close().unwrap();
    root
}

fn put_all(store: &Arc<Store>) {
    for number in 0..40_i64 {
        let body = [b'x'; 300];
        let topic = ["Orders", "Other"][usize::from(number % 3 == 0)];
        let text = format!(
            "TAGS\x01Tag{}\x02KEYS\x01k{number}\x02UNIQ_KEY\x01U{number:05}\x02note\x01hello",
            number % 4
        );
        let (sys_flag, body) = match number % 8 {
            0 => (1, [&[0x78, 0x9C][..], &body[..]].concat()),
            _ => (0, body.to_vec()),
        };
        let put = store.put(&PutRequest {
            sys_flag,
            properties: text.as_bytes(),
            delay_level: if number % 5 == 4 { 18 } else { 0 },
            ..request(topic, &body)
        });
        assert_eq!(store.wait(put).status, PutStatus::Ok);
    }
}

fn verify(root: &Path) -> Report {
    Scan::open(root).unwrap().verify(&mut |_| true).unwrap()
}

fn is_found(root: &Path) -> bool {
    let found = Scan::open(root).and_then(|scan| scan.verify(&mut |_| true));
    found.map_or(true, |report| report.finding_count > 0)
}

/// Flips one bit of a file, keeping its modification time as rotting hardware does. Returns whether
/// `verify` finds it.
fn flipped(root: &Path, path: &Path, byte: usize, bit: u8) -> bool {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let whole = fs::read(path).unwrap();
    let mut bytes = whole.clone();
    bytes[byte] ^= 1 << bit;
    let put = |bytes: &[u8]| {
        fs::write(path, bytes).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(modified).unwrap();
    };
    put(&bytes);
    let found = is_found(root);
    put(&whole);
    found
}

/// Names and positions of a record's fields.
fn fields(bytes: &[u8]) -> Vec<(&'static str, std::ops::Range<usize>)> {
    let record = RecordView::parse(bytes, CheckCrc::Yes).unwrap();
    let mut found = vec![
        ("size", 0..4),
        ("magic", 4..8),
        ("body CRC", 8..12),
        ("queue id", 12..16),
        ("flag", 16..20),
        ("queue offset", 20..28),
        ("physical offset", 28..36),
        ("system flag", 36..40),
        ("born time", 40..48),
        ("born host", 48..56),
        ("store time", 56..64),
        ("store host", 64..72),
        ("retry count", 72..76),
        ("half message's offset", 76..84),
        ("body length", 84..88),
    ];
    let body = 88 + record.body.len();
    let topic = body + 1 + record.topic.len();
    found.push(("body", 88..body));
    found.push(("topic length", body..body + 1));
    found.push(("topic", body + 1..topic));
    found.push(("properties length", topic..topic + 2));
    let text = String::from_utf8_lossy(record.properties).into_owned();
    let mut at = topic + 2;
    for pair in text.split('\u{2}') {
        let (name, value) = pair.split_once('\u{1}').unwrap_or((pair, ""));
        let from = at + name.len() + 1;
        let field = match name {
            "TAGS" => "tag",
            "KEYS" | "UNIQ_KEY" => "keys",
            "DELAY" => "delay level",
            _ => "other properties",
        };
        found.push((field, from..from + value.len()));
        at = from + value.len() + 1;
    }
    found
}

/// Physical offsets of a topic's records in the first log file.
fn records(root: &Path, topic: &str) -> Vec<u64> {
    records_from(root, topic, 0)
}

fn records_from(root: &Path, topic: &str, start: i64) -> Vec<u64> {
    let scan = Scan::open(root).unwrap();
    let chunk = scan.records(start, 12_000, true).unwrap();
    let is_of = |at: &&i64| {
        let bytes = scan.record_at(**at).unwrap().unwrap();
        RecordView::parse(&bytes, CheckCrc::No).unwrap().topic == topic
    };
    let found = chunk.physical_offsets.iter().filter(is_of);
    found.map(|at| at.cast_unsigned()).collect()
}

/// Found flips and all flips by field: every bit of one record, but of the body only a sample.
fn by_field(root: &Path, topic: &str) -> BTreeMap<&'static str, (u32, u32)> {
    let log = root.join("commitlog/00000000000000000000");
    let at = usize::try_from(records(root, topic)[2]).unwrap();
    let bytes = fs::read(&log).unwrap();
    let mut table = BTreeMap::new();
    for (field, range) in fields(&bytes[at..]) {
        for (step, byte) in range.enumerate() {
            // Every seventh byte of the body.
            if field == "body" && step % 7 > 0 {
                continue;
            }
            for bit in 0..8 {
                let row = table.entry(field).or_insert((0, 0));
                row.0 += u32::from(flipped(root, &log, at + byte, bit));
                row.1 += 1;
            }
        }
    }
    table
}

fn word((found, all): (u32, u32)) -> &'static str {
    match found {
        0 => "never",
        found if found == all => "always",
        _ => "partly",
    }
}

/// The rows of the table in the documentation: field to "always", "partly" or "never".
fn documented() -> BTreeMap<String, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/offline.md");
    let text = fs::read_to_string(page).unwrap();
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| field "));
    rows.skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let field = cells.next().unwrap().to_owned();
            (field, cells.next().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn the_table_in_the_documentation_is_true() {
    let root = closed();
    let root = root.path();
    // Without this file, which Java does not write, nothing records the last bytes of the log.
    fs::remove_file(root.join("mqstack/closed.json")).unwrap();
    let sound = verify(root);
    assert_eq!(sound.findings, [], "{:?}", sound.notices);
    let mut table = by_field(root, "Orders");
    for (field, (found, all)) in by_field(root, SCHEDULE_TOPIC) {
        let row = table.entry(field).or_insert((0, 0));
        *row = (row.0 + found, row.1 + all);
    }
    let found: BTreeMap<String, String> = table
        .iter()
        .map(|(field, row)| ((*field).to_owned(), word(*row).to_owned()))
        .collect();
    assert_eq!(found, documented(), "{table:?}");
}

/// Reproducible random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }
}

/// Every used byte of the derived and state files, by region.
fn regions(root: &Path) -> BTreeMap<&'static str, Vec<(PathBuf, usize)>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut add = |region, path: &Path, range: std::ops::Range<usize>| {
        let places = range.map(|byte| (path.to_owned(), byte));
        found.entry(region).or_default().extend(places);
    };
    for queue in Scan::open(root).unwrap().queues().unwrap() {
        let folder = root.join("consumequeue").join(&queue.topic);
        let path = folder.join(queue.queue_id.to_string());
        let used = usize::try_from(queue.max_offset).unwrap() * 20;
        add(
            "queue entries",
            &path.join(format!("{:020}", 0)),
            0..used.min(600),
        );
    }
    for entry in fs::read_dir(root.join("index")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let count = u32::from_be_bytes(bytes[36..40].try_into().unwrap()) as usize;
        add("index header", &path, 0..40);
        add("index slots", &path, 40..40 + 80);
        add("index entries", &path, 120 + 20..120 + 20 * count);
    }
    for folder in ["config", "mqstack", "mqstack/state"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        for path in paths.filter(|path| path.is_file()) {
            let length = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
            add("state files", &path, 0..length);
        }
    }
    let log = root.join("commitlog/00000000000000000000");
    let bytes = fs::read(&log).unwrap();
    for at in records(root, "Orders") {
        let at = usize::try_from(at).unwrap();
        for (field, range) in fields(&bytes[at..]) {
            let region = match field {
                "body" | "body CRC" => "bodies",
                "size" | "magic" | "body length" | "topic length" | "properties length" => "sizes",
                "physical offset" => "positions",
                "queue offset" | "queue id" => "offsets",
                _ => continue,
            };
            add(region, &log, at + range.start..at + range.end);
        }
    }
    found
}

/// Checks that random flips, spread evenly over the regions, are all found.
fn all_found(seed: u64, rounds: usize) {
    let root = closed();
    let sound = verify(root.path());
    assert_eq!(sound.findings, [], "{:?}", sound.notices);
    let regions = regions(root.path());
    let mut random = Random(seed);
    let mut missed = Vec::new();
    let mut asked = BTreeMap::new();
    for round in 0..rounds {
        let (region, places) = regions.iter().nth(round % regions.len()).unwrap();
        let (path, byte) = &places[random.index(places.len())];
        let bit = u8::try_from(random.below(8)).unwrap();
        *asked.entry(*region).or_insert(0) += 1;
        if !flipped(root.path(), path, *byte, bit) {
            missed.push((*region, path.clone(), *byte, bit));
        }
    }
    assert_eq!(missed, [], "of {asked:?}");
    assert_eq!(verify(root.path()).findings, []);
}

#[test]
fn flips_in_every_region_are_found() {
    all_found(0x5EED_2001, 150);
}

#[test]
#[ignore = "soak: run with --ignored"]
fn many_flips_in_every_region_are_found() {
    for seed in 0..8 {
        all_found(0x5EED_3001 + seed, 1_000);
    }
}

#[test]
fn flips_at_the_end_of_a_store_that_we_closed_are_all_found() {
    let root = closed();
    let log = root.path().join(format!("commitlog/{LOG_FILE:020}"));
    let start = records_from(root.path(), "Orders", LOG_FILE.cast_signed())[1];
    let at = usize::try_from(start - LOG_FILE).unwrap();
    let bytes = fs::read(&log).unwrap();
    for (field, range) in fields(&bytes[at..]) {
        for byte in range.step_by(5) {
            assert!(flipped(root.path(), &log, at + byte, 2), "{field} {byte}");
        }
    }
}

#[test]
fn a_queue_offset_that_jumps_ahead_is_found_after_a_crash() {
    let root = closed();
    let root = root.path();
    fs::write(root.join("abort"), b"").unwrap();
    // After a crash the queues may lack the newest entries.
    let queue = root.join("consumequeue/Orders/1/00000000000000000000");
    let mut units = fs::read(&queue).unwrap();
    units[100..].fill(0);
    fs::write(&queue, units).unwrap();
    let sound = verify(root);
    assert_eq!(sound.findings, []);
    assert!(
        sound
            .notices
            .iter()
            .any(|notice| notice.kind == "queue_behind")
    );
    let log = root.join("commitlog/00000000000000000000");
    let last = *records(root, "Orders").last().unwrap();
    let mut bytes = fs::read(&log).unwrap();
    bytes[usize::try_from(last).unwrap() + 24] ^= 1;
    fs::write(&log, bytes).unwrap();
    let report = verify(root);
    let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert!(kinds.contains(&"queue_offset"), "{:?}", report.findings);
}

#[test]
fn a_missing_topic_table_is_found() {
    for name in ["store", "store-ext"] {
        let root = unpack(name);
        let config = root.path().join("config");
        for file in ["topics.json", "topics.json.bak"] {
            let _ = fs::remove_file(config.join(file));
        }
        let report = verify(root.path());
        let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, ["state"], "{name} {:?}", report.findings);
        assert!(report.findings[0].place.ends_with("topics.json"));
    }
}

#[test]
fn records_of_deleted_topics_are_no_damage() {
    let root = closed();
    let root = root.path();
    fs::remove_dir_all(root.join("consumequeue/Other")).unwrap();
    let report = verify(root);
    assert!(report.finding_count > 0);
    let topics = TOPICS.replace("\"Other\"", "\"Third\"");
    fs::write(root.join("config/topics.json"), topics).unwrap();
    fs::remove_file(root.join("mqstack/closed.json")).unwrap();
    let report = verify(root);
    assert_eq!(report.findings, []);
    assert!(
        report
            .notices
            .iter()
            .any(|notice| notice.kind == "deleted_topic")
    );
}

#[test]
fn index_files_of_any_sizes_are_sound() {
    for (slots, entries) in [(100, 300), (7, 1_000), (100, 400)] {
        let root = directory();
        let settings = Settings {
            index_slots: Some(slots),
            index_entries: Some(entries),
            ..settings()
        };
        let store = Store::open(root.path(), settings, SystemClock::shared(), true).unwrap();
        put_all(&store);
        store.save_state("topics.json", TOPICS.as_bytes()).unwrap();
        store.close().unwrap();
        let report = verify(root.path());
        assert_eq!(report.findings, [], "{slots} {entries}");
        assert_eq!(report.index_entries, 80, "{slots} {entries}");
    }
}
