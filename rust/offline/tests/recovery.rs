//! Opens damaged stores that mqstack wrote.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

#[path = "common/flip.rs"]
mod flip;

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use flip::flip;
use mq_base::clock::SystemClock;
use mq_format::message::{CheckCrc, RecordView};
use mq_offline::Scan;
use mq_store::{
    GetRequest, GetStatus, MessageFilter, PutRequest, PutStatus, ReadMode, Settings, Store,
    StoreError,
};
use mq_testing::stores::directory;

const FIRST: &str = "commitlog/00000000000000000000";
const SECOND: &str = "commitlog/00000000000000065536";
const TOPIC: &str = "TopicCrash";
const LOG_FILE_BYTES: u64 = 65_536;

fn open(root: &Path, sync_flush: bool) -> Arc<Store> {
    let settings = Settings {
        commit_log_file_bytes: Some(LOG_FILE_BYTES),
        consume_queue_file_bytes: Some(6_000),
        index_slots: Some(100),
        index_entries: Some(400),
        allocate_step_bytes: LOG_FILE_BYTES,
        min_free_bytes: Some(0),
        sync_flush,
        ..Settings::default()
    };
    Store::open(root, settings, SystemClock::shared(), true).unwrap()
}

fn message<'a>(queue_id: i32, body: &'a [u8], properties: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        topic: TOPIC,
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: "127.0.0.1:1".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
        wait_store_ok: true,
        delay_level: 0,
        was_accepted: false,
    }
}

/// Bodies of a queue in order. Every record must be whole.
fn bodies(store: &Store, queue_id: i32) -> Vec<Vec<u8>> {
    let (mut offset, mut found) = (0, Vec::new());
    loop {
        let mut out = Vec::new();
        let request = GetRequest {
            topic: TOPIC,
            queue_id,
            offset,
            max_count: 32,
            filter: &MessageFilter::All,
            mode: ReadMode::Wait,
        };
        let got = store.get(&request, &mut out).unwrap();
        if got.status != GetStatus::Found {
            return found;
        }
        let mut rest = &out[..];
        while !rest.is_empty() {
            let record = RecordView::parse(rest, CheckCrc::Yes).unwrap();
            found.push(record.body.to_vec());
            rest = &rest[record.size()..];
        }
        offset = got.next_begin_offset;
    }
}

/// Puts a message; returns its physical offset.
fn put(store: &Store, queue_id: i32, body: &[u8]) -> u64 {
    let put = store.put(&message(queue_id, body, b"UNIQ_KEY\x01k"));
    let result = store.wait(put);
    assert_eq!(result.status, PutStatus::Ok);
    result.physical_offset.cast_unsigned()
}

/// A closed store of `files` log files, with messages of 1 KiB in turn in two queues.
fn filled(root: &Path, files: u64) {
    let store = open(root, false);
    for count in 0.. {
        let body = vec![b'0' + (count % 10) as u8; 1_000];
        if put(&store, count % 2, &body) > (files - 1) * LOG_FILE_BYTES + 10_000 {
            break;
        }
    }
    store.close().unwrap();
}

fn refusal(root: &Path, settings: Settings) -> StoreError {
    let opened = Store::open(root, settings, SystemClock::shared(), false);
    opened.err().expect("opened")
}

/// Checks that a refusal contains these words: a file, a value, the next command.
fn assert_tells(root: &Path, words: &[&str]) {
    let text = refusal(root, Settings::default()).to_string();
    let root = root.display().to_string();
    for word in words {
        let word = word.replace("ROOT", &root);
        assert!(text.contains(&word), "{word:?} is not in: {text}");
    }
}

fn assert_sound(root: &Path) {
    let report = Scan::open(root).unwrap().verify(&mut |_| true).unwrap();
    assert_eq!(report.findings, []);
}

#[test]
fn a_queue_offset_whose_record_is_lost_is_never_reused() {
    for is_clean in [true, false] {
        let root = directory();
        let store = open(root.path(), false);
        for count in 0..4 {
            put(&store, 0, &[b'a' + count; 100]);
        }
        // The last message of queue 0 and then one of queue 1. Without the second, the first would
        // count as a torn tail.
        let lost = put(&store, 0, b"lost");
        put(&store, 1, b"kept");
        store.close().unwrap();
        fs::remove_file(root.path().join("mqstack/closed.json")).unwrap();
        flip(&root.path().join(FIRST), lost + 88, 1);
        if !is_clean {
            fs::write(root.path().join("abort"), b"").unwrap();
        }
        for round in 0..3 {
            let store = open(root.path(), false);
            assert_eq!(store.max_offset(TOPIC, 0), 5, "round {round}");
            assert_eq!(bodies(&store, 0).len(), 4);
            assert_eq!(bodies(&store, 1), [b"kept".to_vec()]);
            store.close().unwrap();
            // As after another kill: recovery truncates and rebuilds the queues.
            fs::write(root.path().join("abort"), b"").unwrap();
            fs::remove_file(root.path().join("mqstack/closed.json")).unwrap();
        }
        let store = open(root.path(), false);
        put(&store, 0, b"next");
        store.close().unwrap();
        let store = open(root.path(), false);
        assert_eq!(store.max_offset(TOPIC, 0), 6);
        assert_eq!(bodies(&store, 0).pop().unwrap(), b"next");
        let mut out = Vec::new();
        let keyed = store.query(TOPIC, "k", 64, 0, i64::MAX, &mut out);
        assert_eq!(
            keyed.message_count,
            6,
            "not the lost one {}",
            String::from_utf8_lossy(&out)
        );
        store.close().unwrap();
        assert_sound(root.path());
    }
}

#[test]
fn properties_that_end_in_a_zero_survive_a_kill() {
    let root = directory();
    let store = open(root.path(), false);
    let put = store.put(&message(0, b"body", b"UNIQ_KEY\x01k\x02a\x01b\0"));
    assert_eq!(store.wait(put).status, PutStatus::Ok);
    store.close().unwrap();
    fs::write(root.path().join("abort"), b"").unwrap();
    fs::write(root.path().join("checkpoint"), [0; 4096]).unwrap();
    let store = open(root.path(), false);
    assert_eq!(bodies(&store, 0), [b"body".to_vec()]);
    store.close().unwrap();
}

#[test]
fn damage_in_old_files_is_repaired_when_queues_are_rebuilt() {
    let root = directory();
    filled(root.path(), 6);
    flip(&root.path().join(FIRST), 30_000, 1);
    flip(&root.path().join(SECOND), 30_000, 1);
    fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    let store = open(root.path(), false);
    let (left, right) = (bodies(&store, 0).len(), bodies(&store, 1).len());
    let offsets = store.max_offset(TOPIC, 0) + store.max_offset(TOPIC, 1);
    assert_eq!((left + right + 2) as i64, offsets);
    store.close().unwrap();
    assert_sound(root.path());
}

#[test]
fn a_missing_queue_file_is_rebuilt() {
    for (lost, is_clean) in [(0, true), (12_000, true), (0, false), (12_000, false)] {
        let root = directory();
        let store = open(root.path(), false);
        for count in 0..1_000_u32 {
            put(&store, 0, &count.to_be_bytes());
        }
        store.close().unwrap();
        fs::remove_file(root.path().join("mqstack/closed.json")).unwrap();
        let file = format!("consumequeue/{TOPIC}/0/{lost:020}");
        fs::remove_file(root.path().join(file)).unwrap();
        if !is_clean {
            fs::write(root.path().join("abort"), b"").unwrap();
        }
        let store = open(root.path(), false);
        let found = bodies(&store, 0);
        let expected = (0..1_000_u32).map(|count| count.to_be_bytes().to_vec());
        assert!(found.into_iter().eq(expected), "{lost} {is_clean}");
        store.close().unwrap();
    }
}

#[test]
fn files_of_another_size_are_named_with_the_remedy() {
    let root = directory();
    filled(root.path(), 4);
    let path = root.path().join(SECOND);
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(5_000)
        .unwrap();
    let refusing = Settings {
        repair_damage: false,
        ..Settings::default()
    };
    let text = refusal(root.path(), refusing).to_string();
    let place = root.path().display();
    for words in [
        format!("{place}/commitlog/00000000000000065536 has 5000 bytes, expected 65536"),
        format!("`mqstore repair {place} --to NEW_DIRECTORY`"),
    ] {
        assert!(text.contains(&words), "{words:?} is not in: {text}");
    }
    fs::rename(&path, root.path().join("commitlog/00000000000000070000")).unwrap();
    let set = OpenOptions::new()
        .write(true)
        .open(root.path().join("commitlog/00000000000000070000"));
    set.unwrap().set_len(LOG_FILE_BYTES).unwrap();
    assert_tells(
        root.path(),
        &["00000000000000070000 is not a multiple of 65536"],
    );
    let other = Settings {
        commit_log_file_bytes: Some(1 << 20),
        ..Settings::default()
    };
    let text = refusal(root.path(), other).to_string();
    assert!(text.contains("65536") && text.contains("1048576"), "{text}");
    for file in fs::read_dir(root.path().join("commitlog")).unwrap() {
        let file = OpenOptions::new().write(true).open(file.unwrap().path());
        file.unwrap().set_len(100).unwrap();
    }
    assert_tells(root.path(), &["has 100 bytes, expected 4096 to 2147483647"]);
}

#[test]
fn a_log_file_name_beyond_every_offset_is_refused() {
    let root = directory();
    filled(root.path(), 1);
    for name in [
        i64::MAX as u64 / LOG_FILE_BYTES * LOG_FILE_BYTES,
        u64::MAX / LOG_FILE_BYTES * LOG_FILE_BYTES,
    ] {
        let path = root.path().join(format!("commitlog/{name:020}"));
        fs::write(&path, vec![0; LOG_FILE_BYTES as usize]).unwrap();
        assert_tells(root.path(), &["would end beyond the largest offset"]);
        fs::remove_file(path).unwrap();
    }
    let far = root.path().join("commitlog/00000000000655360000");
    fs::write(&far, vec![0; LOG_FILE_BYTES as usize]).unwrap();
    assert_tells(
        root.path(),
        &["more than 1024 files", "`mqstore verify ROOT`"],
    );
    fs::remove_file(far).unwrap();
    open(root.path(), false).close().unwrap();
}

#[test]
fn a_log_split_over_several_paths_is_recognized() {
    let root = directory();
    filled(root.path(), 6);
    for start in [1, 3, 5] {
        let name = format!("commitlog/{:020}", start * LOG_FILE_BYTES);
        fs::remove_file(root.path().join(name)).unwrap();
    }
    assert_tells(root.path(), &["one of several paths", "storePathCommitLog"]);
}

#[test]
fn a_directory_that_is_no_store_is_refused_with_a_hint() {
    let root = directory();
    let store = root.path().join("store");
    filled(&store, 1);
    let text = refusal(root.path(), Settings::default()).to_string();
    assert!(
        text.contains(&format!("{} has one", store.display())),
        "{text}"
    );
    let text = refusal(&store.join("commitlog"), Settings::default()).to_string();
    assert!(
        text.contains(&format!("name its parent, {}", store.display())),
        "{text}"
    );
    let missing = refusal(&root.path().join("nowhere"), Settings::default());
    assert!(matches!(missing, StoreError::Io { .. }), "{missing}");
    fs::rename(store.join("commitlog"), root.path().join("elsewhere")).unwrap();
    let lost = Store::open(&store, Settings::default(), SystemClock::shared(), true);
    let text = lost
        .err()
        .expect("made a new log beside old queues")
        .to_string();
    assert!(text.contains("no commitlog directory: mount it"), "{text}");
}

#[test]
fn a_version_5_store_that_we_cannot_append_to_is_refused() {
    let root = directory();
    filled(root.path(), 1);
    fs::write(
        root.path().join("consumequeue/CURRENT"),
        "MANIFEST-000004\n",
    )
    .unwrap();
    assert_tells(root.path(), &["consumequeue: consume queues in RocksDB"]);
    assert_tells(root.path(), &["`mqstore rebuild ROOT --to NEW_DIRECTORY`"]);
    fs::remove_file(root.path().join("consumequeue/CURRENT")).unwrap();
    fs::create_dir_all(root.path().join("timerlog")).unwrap();
    fs::write(root.path().join("timerlog/00000000000000000000"), [0; 52]).unwrap();
    open(root.path(), false).close().unwrap();
}

#[test]
fn a_checkpoint_from_the_future_is_not_trusted() {
    let root = directory();
    filled(root.path(), 4);
    fs::write(root.path().join("abort"), b"").unwrap();
    let checkpoint = root.path().join("checkpoint");
    fs::write(&checkpoint, [0x7F; 4096]).unwrap();
    flip(&root.path().join(FIRST), 30_000, 1);
    let store = open(root.path(), false);
    let offsets = store.max_offset(TOPIC, 0) + store.max_offset(TOPIC, 1);
    let found = bodies(&store, 0).len() + bodies(&store, 1).len();
    assert_eq!(found as i64 + 1, offsets, "the first file was checked too");
    store.close().unwrap();
}
