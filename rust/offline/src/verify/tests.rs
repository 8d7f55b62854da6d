//! Verifies stores that Java wrote, intact ones and ones with damaged files.

use std::fs;
use std::path::Path;

use crate::{Finding, Report, Scan};
use mq_base::clock::SystemClock;
use mq_store::{Settings, Store};
use mq_testing::stores::{lines, unpack};

fn verify(root: &Path) -> Report {
    Scan::open(root).unwrap().verify(&mut |_| true).unwrap()
}

/// A change that damages a file.
type Wrong<'a> = &'a dyn Fn(&mut Vec<u8>);

fn kinds(found: &[Finding]) -> Vec<&'static str> {
    let mut kinds: Vec<_> = found.iter().map(|found| found.kind).collect();
    kinds.dedup();
    kinds
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// The path of the only index file.
fn index_file(root: &Path) -> std::path::PathBuf {
    let mut files: Vec<_> = fs::read_dir(root.join("index"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.swap_remove(0)
}

#[test]
fn stores_of_java_are_sound() {
    for name in ["store", "store-crashed-recovered", "store-ext", "store-lmq"] {
        let root = unpack(name);
        let report = verify(root.path());
        assert_eq!(report.findings, [], "{name}");
        // This store was packed before its broker had closed it.
        let expected: &[_] = match name {
            "store-crashed-recovered" => &["not_closed"],
            _ => &[],
        };
        assert_eq!(kinds(&report.notices), expected, "{name}");
        assert!(report.records > 0 && report.log_end > 0, "{name}");
    }
    let root = unpack("store-ext");
    let units = lines("store-ext/consumequeue_ext.jsonl.gz");
    let units = units.iter().filter(|line| line["bitMapHex"].is_string());
    let found = verify(root.path()).extension_units;
    assert_eq!(found, units.count() as u64);
    let root = unpack("store");
    assert!(verify(root.path()).offsets > 10);
}

#[test]
fn the_state_after_a_crash_is_no_damage() {
    let root = unpack("store-crashed");
    let report = verify(root.path());
    assert_eq!(report.findings, []);
    let kinds = kinds(&report.notices);
    assert!(
        kinds.contains(&"not_closed") && kinds.contains(&"queue_behind"),
        "{kinds:?}"
    );
}

#[test]
fn each_damaged_file_is_named() {
    let root = unpack("store");
    let root = root.path();
    let sound = verify(root);
    let index = index_file(root);
    let queue = root.join("consumequeue/TopicTest/0/00000000000000000000");
    let offsets = root.join("config/consumerOffset.json");
    let cases: [(&str, &Path, Wrong<'_>); 9] = [
        ("queue_entry", &queue, &|b| b[7] ^= 8),
        ("queue_entry", &queue, &|b| b[11] ^= 1),
        ("queue_entry", &queue, &|b| b[19] ^= 1),
        ("index_entry", &index, &|b| b[40 + 400 + 20 + 3] ^= 1),
        ("index_entry", &index, &|b| b[40 + 400 + 60 + 19] ^= 2),
        ("index_slot", &index, &|b| b[40..440].fill(0)),
        ("index_header", &index, &|b| b[31] ^= 1),
        ("checkpoint", &root.join("checkpoint"), &|b| b[0] = 0x7F),
        ("state", &offsets, &|b| b.truncate(20)),
    ];
    for (kind, path, wrong) in cases {
        let before = fs::read(path).unwrap();
        change(path, wrong);
        let report = verify(root);
        assert_eq!(
            kinds(&report.findings),
            [kind],
            "{path:?} {:?}",
            report.findings
        );
        fs::write(path, before).unwrap();
    }
    assert_eq!(verify(root), sound);
}

#[test]
fn each_damaged_file_of_our_own_is_named() {
    let root = unpack("store");
    let root = root.path();
    let clock = SystemClock::shared();
    let store = Store::open(root, Settings::default(), clock, false).unwrap();
    store.close().unwrap();
    assert_eq!(verify(root).findings, []);
    for name in ["log.json", "queue_ends"] {
        let place = format!("mqstack/{name}");
        let path = root.join(&place);
        let whole = fs::read(&path).unwrap();
        let is_named = |report: &Report| {
            let found = report.findings.iter();
            let places: Vec<_> = found.map(|found| (found.kind, &found.place)).collect();
            places == [("state", &place)]
        };
        for at in (0..whole.len()).step_by(9) {
            let mut rotten = whole.clone();
            rotten[at] ^= 1 << (at % 8);
            fs::write(&path, rotten).unwrap();
            let report = verify(root);
            assert!(is_named(&report), "{at} in {name}: {:?}", report.findings);
        }
        for length in [0, 1, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(is_named(&verify(root)), "{name} cut to {length}");
        }
        fs::write(&path, whole).unwrap();
    }
}

#[test]
fn a_store_without_recorded_queue_ends_is_sound() {
    let root = unpack("store");
    let root = root.path();
    let clock = SystemClock::shared();
    let store = Store::open(root, Settings::default(), clock, false).unwrap();
    store.close().unwrap();
    fs::remove_file(root.join("mqstack/queue_ends")).unwrap();
    assert_eq!(verify(root).findings, []);
}

#[test]
fn offsets_beyond_their_queues_are_found() {
    let root = unpack("store");
    let config = root.path().join("config");
    let table = "{\"offsetTable\":{\"TopicTest@group\":{0:9000,1:1},\"TopicGone@group\":{0:7}}}";
    fs::write(config.join("consumerOffset.json"), table).unwrap();
    fs::write(
        config.join("delayOffset.json"),
        "{\"offsetTable\":{18:700}}",
    )
    .unwrap();
    let report = verify(root.path());
    let places: Vec<_> = report.findings.iter().map(|f| (f.kind, f.offset)).collect();
    assert_eq!(places, [("offset", 9_000), ("offset", 700)]);
    let notices: Vec<_> = report.notices.iter().map(|f| (f.kind, f.offset)).collect();
    assert_eq!(notices, [("offset", 7)]);
}

#[test]
fn a_light_queue_without_its_last_entries_is_found() {
    let root = unpack("store-lmq");
    let queues = root.path().join("consumequeue");
    let light = fs::read_dir(&queues).unwrap().map(|entry| entry.unwrap());
    let light = light.filter(|entry| entry.file_name().to_string_lossy().starts_with("%LMQ%"));
    let light = light.map(|entry| entry.path()).min().unwrap();
    fs::remove_dir_all(light).unwrap();
    let report = verify(root.path());
    assert_eq!(kinds(&report.findings), ["queue_missing"]);
    assert!(report.findings[0].place.starts_with("%LMQ%"));
}

#[test]
fn an_extension_without_its_last_units_is_found() {
    let root = unpack("store-ext");
    let folder = root.path().join("consumequeue_ext");
    let topic = fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let queue = fs::read_dir(topic).unwrap().next().unwrap().unwrap().path();
    let file = fs::read_dir(queue)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    change(&file.min().unwrap(), |bytes| bytes[..40].fill(0));
    let report = verify(root.path());
    assert_eq!(kinds(&report.findings), ["queue_entry"]);
    assert!(
        report.findings[0].what.contains("extension"),
        "{:?}",
        report.findings
    );
}

#[test]
fn keys_without_entries_are_found() {
    let root = unpack("store");
    fs::remove_file(index_file(root.path())).unwrap();
    let report = verify(root.path());
    assert_eq!(report.findings, []);
    fs::remove_dir_all(root.path().join("index")).unwrap();
    let report = verify(root.path());
    assert_eq!(report.findings, []);
    assert_eq!(kinds(&report.notices), ["index_missing"]);
}
