//! Rebuilds and repairs stores that Java wrote, intact and damaged ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{RebuildOptions, Rebuilt, Scan, rebuild};
use mq_base::clock::SystemClock;
use mq_store::StoreError;
use mq_store::inspect::StoreLock;
use mq_store::{Settings, Store};
use mq_testing::stores::{directory, snapshot, unpack};

const FILE: u64 = 65_536;

pub(super) fn run(root: &Path, to: Option<&Path>, repairs: bool) -> Result<Rebuilt, StoreError> {
    let options = RebuildOptions {
        repairs,
        to,
        ..RebuildOptions::default()
    };
    rebuild(root, &options, &mut |_, _, _| true)
}

/// A folder for a copy.
pub(super) fn place() -> (TempDir, PathBuf) {
    let folder = directory();
    let to = folder.path().join("copy");
    (folder, to)
}

/// The files of one folder of the store.
fn files_of(root: &Path, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = snapshot(root);
    files.retain(|name, _| name.starts_with(&format!("{folder}/")));
    files
}

pub(super) fn assert_whole(root: &Path) {
    let report = Scan::open(root).unwrap().verify(&mut |_| true).unwrap();
    assert_eq!(report.findings, []);
}

/// Opens and closes the store like a broker that refuses damage.
pub(super) fn assert_opens(root: &Path, log_end: u64) {
    let settings = Settings {
        repair_damage: false,
        ..Settings::default()
    };
    let store = Store::open(root, settings, SystemClock::shared(), false).unwrap();
    assert!(store.max_physical_offset().cast_unsigned() >= log_end);
    store.close().unwrap();
}

pub(super) fn write_at(root: &Path, at: u64, bytes: &[u8]) {
    let path = root.join(format!("commitlog/{:020}", at - at % FILE));
    let mut content = fs::read(&path).unwrap();
    let from = (at % FILE) as usize;
    content[from..from + bytes.len()].copy_from_slice(bytes);
    fs::write(path, content).unwrap();
}

#[test]
fn a_rebuilt_copy_has_javas_queues_byte_for_byte() {
    for name in ["store", "store-lmq", "store-crashed-recovered"] {
        let root = unpack(name);
        let before = snapshot(root.path());
        let (_folder, to) = place();
        let done = run(root.path(), Some(&to), false).unwrap();
        assert!(
            snapshot(root.path()) == before,
            "{name}: the source changed"
        );
        assert_eq!(done.root, to);
        for folder in ["consumequeue", "config"] {
            let (found, java) = (files_of(&to, folder), files_of(root.path(), folder));
            assert_eq!(
                found.keys().collect::<Vec<_>>(),
                java.keys().collect::<Vec<_>>()
            );
            for (file, content) in &java {
                assert!(found[file] == *content, "{name}: {file}");
            }
        }
        // Java's own recovery indexed some records twice.
        if name != "store-crashed-recovered" {
            let index = |root| files_of(root, "index").into_values().collect::<Vec<_>>();
            assert!(index(&to) == index(root.path()), "{name}: index");
        }
        assert_whole(&to);
        assert_opens(&to, done.log_end);
    }
}

#[test]
fn the_extension_is_rebuilt_if_the_store_has_one() {
    let root = unpack("store-ext");
    let (_folder, to) = place();
    run(root.path(), Some(&to), false).unwrap();
    let names = |root: &Path| {
        files_of(root, "consumequeue_ext")
            .into_keys()
            .collect::<Vec<_>>()
    };
    assert!(!names(&to).is_empty());
    assert_whole(&to);
    let old = Scan::open(root.path()).unwrap().queues().unwrap();
    assert_eq!(Scan::open(&to).unwrap().queues().unwrap(), old);
}

#[test]
fn a_rebuild_in_place_repairs_queues_and_index_under_the_lock() {
    let root = unpack("store");
    let java = files_of(root.path(), "consumequeue");
    fs::remove_dir_all(root.path().join("consumequeue/TopicRoll")).unwrap();
    let some = root
        .path()
        .join("consumequeue/TopicTest/0/00000000000000000000");
    fs::write(&some, vec![0xEE; 6_000]).unwrap();
    fs::remove_dir_all(root.path().join("index")).unwrap();

    let lock = StoreLock::acquire(root.path()).unwrap();
    let refused = run(root.path(), None, false).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
    drop(lock);

    let done = run(root.path(), None, false).unwrap();
    assert!(files_of(root.path(), "consumequeue") == java);
    assert_eq!(done.queues, 37);
    assert!(!root.path().join("abort").exists());
    assert!(!root.path().join("mqstack/rebuild").exists());
    assert!(done.repaired.is_empty() && done.restored.is_empty());
    assert_whole(root.path());
    assert_opens(root.path(), done.log_end);
}

#[test]
fn a_damaged_log_is_refused_by_rebuild_and_fixed_by_repair() {
    let root = unpack("store-damaged");
    let before = snapshot(root.path());
    let (_folder, to) = place();
    let refused = run(root.path(), Some(&to), false).unwrap_err().to_string();
    assert!(
        refused.contains("219148") && refused.contains("mqstore repair"),
        "{refused}"
    );
    assert!(!to.exists());

    let done = run(root.path(), Some(&to), true).unwrap();
    assert!(snapshot(root.path()) == before);
    let (from, end, saved) = &done.repaired[0];
    assert_eq!((done.repaired.len(), *from), (1, 219_148));
    let log = fs::read(root.path().join("commitlog/00000000000000196608")).unwrap();
    let damaged = &log[(from - 196_608) as usize..(end - 196_608) as usize];
    assert!(fs::read(saved).unwrap() == damaged);
    assert_whole(&to);
    // Java drops everything after the flipped bit. Here only the damaged message is lost.
    let all = |root: &Path| {
        Scan::open(root)
            .unwrap()
            .verify(&mut |_| true)
            .unwrap()
            .records
    };
    assert_eq!(all(&to), all(root.path()) + 1, "the stand-in is a record");
    assert_opens(&to, done.log_end);
}

#[test]
fn a_crashed_store_is_repaired_as_recovery_would() {
    let root = unpack("store-crashed");
    let (_folder, to) = place();
    let copy = run(root.path(), Some(&to), true).unwrap();
    let place = run(root.path(), None, true).unwrap();
    assert_eq!((copy.log_end, copy.records), (place.log_end, place.records));
    let java = unpack("store-crashed-recovered");
    let java = Scan::open(java.path()).unwrap();
    assert!(
        java.record_at(place.log_end.cast_signed())
            .unwrap()
            .is_none()
            || place.records > 0
    );
    for root in [&to, &root.path().to_owned()] {
        assert!(!root.join("abort").exists());
        assert_whole(root);
        assert_opens(root, place.log_end);
    }
}

#[test]
fn a_torn_tail_is_cut_and_a_missing_file_is_filled() {
    let root = unpack("store");
    let end = run_end(root.path());
    write_at(root.path(), end, &[0xAB; 300]);
    fs::remove_file(root.path().join("commitlog/00000000000000065536")).unwrap();
    for to in [Some(place()), None] {
        let path = to.as_ref().map(|(_, to)| to.as_path());
        let done = run(root.path(), path, true).unwrap();
        assert_eq!((done.log_end, done.cut), (end, Some((end, end + 300))));
        assert!(
            done.repaired.iter().any(|(from, _, _)| *from == FILE),
            "{:?}",
            done.repaired
        );
        let result = path.unwrap_or(root.path());
        assert_whole(result);
        assert_opens(result, end);
        let lost = |group: &super::GroupOutlook| group.skipped >= 0 && group.pending >= 0;
        assert!(done.groups.iter().all(lost));
    }
}

/// End of the log of an intact store.
fn run_end(root: &Path) -> u64 {
    let (_folder, to) = place();
    run(root, Some(&to), false).unwrap().log_end
}

#[test]
fn queues_whose_messages_have_expired_keep_their_offsets() {
    let root = unpack("store");
    let before = Scan::open(root.path()).unwrap().queues().unwrap();
    for start in [0, FILE] {
        fs::remove_file(root.path().join(format!("commitlog/{start:020}"))).unwrap();
    }
    let (_folder, to) = place();
    let done = run(root.path(), Some(&to), true).unwrap();
    assert!(done.repaired.is_empty());
    assert!(!done.kept_queues.is_empty());
    let after = Scan::open(&to).unwrap().queues().unwrap();
    let next = |queues: &[super::QueueSummary]| -> Vec<_> {
        let row = |q: &super::QueueSummary| (q.topic.clone(), q.queue_id, q.max_offset);
        queues.iter().map(row).collect()
    };
    assert_eq!(next(&after), next(&before));
    assert_whole(&to);
    assert_opens(&to, done.log_end);
}

#[test]
fn repair_restores_state_files_and_lowers_too_high_offsets() {
    let root = unpack("store");
    let config = root.path().join("config");
    let table = "{\"offsetTable\":{\"TopicTest@ahead\":{0:5000,1:1},\"TopicGone@ahead\":{0:7},\
                 \"TopicTest@behind\":{2:1}}}";
    fs::write(config.join("consumerOffset.json"), table).unwrap();
    fs::write(
        config.join("consumerOffset.json.bak"),
        "{\"offsetTable\":{\"TopicTest@behind\":{2:3}}}",
    )
    .unwrap();
    fs::copy(config.join("topics.json"), config.join("topics.json.bak")).unwrap();
    fs::write(config.join("topics.json"), "{torn").unwrap();

    let (_folder, to) = place();
    let only_built = run(root.path(), Some(&to), false).unwrap();
    assert!(only_built.restored.is_empty());
    let of = |done: &Rebuilt, topic: &str, queue_id| {
        let mut rows = done.groups.iter();
        let row = rows.find(|row| row.topic == topic && row.queue_id == queue_id);
        let row = row.unwrap();
        (
            row.committed,
            row.resumes_at,
            row.pending,
            row.replayed,
            row.skipped,
        )
    };
    let queues = Scan::open(&to).unwrap().queues().unwrap();
    let max = |queue_id| {
        let mut queues = queues.iter();
        let found = queues.find(|q| q.topic == "TopicTest" && q.queue_id == queue_id);
        found.unwrap().max_offset
    };
    assert_eq!(
        of(&only_built, "TopicTest", 0),
        (5_000, 5_000, 0, 0, 5_000 - max(0))
    );

    let done = run(root.path(), None, true).unwrap();
    assert_eq!(done.restored, ["topics.json"]);
    assert_eq!(of(&done, "TopicTest", 0), (5_000, max(0), 0, 0, 0));
    assert_eq!(of(&done, "TopicTest", 1), (1, 1, max(1) - 1, 0, 0));
    assert_eq!(of(&done, "TopicTest", 2), (1, 1, max(2) - 1, 2, 0));
    assert_eq!(of(&done, "TopicGone", 0), (7, 0, 0, 0, 0));
    let text = fs::read_to_string(config.join("consumerOffset.json")).unwrap();
    assert!(!text.contains("5000"), "{text}");
    let restored = fs::read(config.join("topics.json")).unwrap();
    assert!(restored == fs::read(config.join("topics.json.bak")).unwrap());
}

#[test]
fn a_stopped_rebuild_leaves_no_files() {
    let root = unpack("store");
    let before = snapshot(root.path());
    let (folder, to) = place();
    for steps in [0, 1, 3, 5] {
        let options = RebuildOptions {
            repairs: true,
            to: Some(&to),
            ..RebuildOptions::default()
        };
        let mut left = steps;
        let stopped = rebuild(root.path(), &options, &mut |_, _, _| {
            left -= 1;
            left >= 0
        });
        stopped.unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    assert!(snapshot(root.path()) == before);

    fs::create_dir(&to).unwrap();
    fs::write(to.join("something"), "there").unwrap();
    let refused = run(root.path(), Some(&to), true).unwrap_err();
    assert!(refused.to_string().contains("exists"), "{refused}");
    fs::remove_file(to.join("something")).unwrap();
    let inside = run(root.path(), Some(&root.path().join("copy")), true).unwrap_err();
    assert!(inside.to_string().contains("inside the store"), "{inside}");
    run(root.path(), Some(&to), true).unwrap();
    assert_whole(&to);
}

#[test]
fn a_bad_delay_table_is_refused_before_any_change() {
    let root = unpack("store");
    let options = RebuildOptions {
        repairs: false,
        to: None,
        delay_levels: Some("1x"),
        ..RebuildOptions::default()
    };
    let refused = rebuild(root.path(), &options, &mut |_, _, _| true).unwrap_err();
    assert!(
        refused.to_string().starts_with("messageDelayLevel"),
        "{refused}"
    );
}

#[test]
fn a_damaged_queue_offset_is_refused_by_rebuild_fixed_by_repair() {
    const QUEUE_OFFSET_AT: u64 = 20;
    for flipped in [100 + 128, 100 - 64, 100 + (1 << 40)] {
        let root = unpack("store");
        let units = |root: &Path| {
            let scan = Scan::open(root).unwrap();
            scan.queue_entries("TopicRoll", 0, 0, usize::MAX).unwrap()
        };
        let before = units(root.path());
        let unit = &before[100 * 20..101 * 20];
        let at = u64::from_be_bytes(unit[..8].try_into().unwrap());
        let stated: i64 = flipped;
        write_at(root.path(), at + QUEUE_OFFSET_AT, &stated.to_be_bytes());
        let (_folder, to) = place();
        let refused = run(root.path(), Some(&to), false).unwrap_err().to_string();
        let what = format!("the record at offset {at} of the commit log says queue offset");
        assert!(
            refused.contains(&what) && refused.contains("repair"),
            "{refused}"
        );
        let done = run(root.path(), Some(&to), true).unwrap();
        assert_eq!(done.repaired.len(), 1);
        assert!(units(&to) == before, "{flipped}");
        assert_whole(&to);
    }
}
