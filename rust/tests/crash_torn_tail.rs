//! A record that reached the disk in part, cut at every byte: the log ends before it, the store
//! goes on from there, and nothing of it is left.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{LOG_FILE_BYTES, TOPIC, bodies, directory, message, open};
use mqstack_core::format::message::{CheckCrc, RecordView};
use mqstack_core::store::scan::Scan;
use mqstack_core::store::{PutStatus, Store};

const PROPERTIES: &[u8] = b"UNIQ_KEY\x01k\x02TAGS\x01TagA";

fn put(store: &Store, body: &[u8]) -> (i64, i32) {
    let put = store.put(&message(0, body, PROPERTIES));
    let result = store.wait(put);
    assert_eq!(result.status, PutStatus::Ok);
    (result.physical_offset, result.size_bytes)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Zeroes the log from `offset` on, as if that had never been written, and leaves `abort`.
fn tear(root: &Path, offset: i64) {
    let log = root.join("commitlog/00000000000000000000");
    let file = OpenOptions::new().write(true).open(log).unwrap();
    let rest = vec![0; (LOG_FILE_BYTES as i64 - offset) as usize];
    file.write_all_at(&rest, offset as u64).unwrap();
    fs::write(root.join("abort"), b"").unwrap();
}

#[test]
fn the_log_ends_before_a_torn_record_and_goes_on() {
    let whole = directory();
    let store = open(whole.path(), false);
    put(&store, b"first");
    put(&store, b"second");
    let (start, size) = put(&store, b"torn");
    store.close().unwrap();
    drop(store);
    for cut in 0..i64::from(size) {
        let root = directory();
        copy(whole.path(), root.path());
        tear(root.path(), start + cut);
        // The record's last byte is not zero, so every cut shows.
        let store = open(root.path(), false);
        assert_eq!(store.max_physical_offset(), start, "cut at {cut}");
        assert_eq!(store.max_offset(TOPIC, 0), 2, "cut at {cut}");
        assert_eq!(put(&store, b"third").0, start, "cut at {cut}");
        store.close().unwrap();
        let scan = Scan::open(root.path()).unwrap();
        let report = scan.verify(&mut |_| true).unwrap();
        assert_eq!(report.findings, [], "cut at {cut}");
        assert_eq!((report.records, report.queue_entries), (3, 3));
        let chunk = scan.records(start, 1, true).unwrap();
        let third = RecordView::parse(&chunk.bytes, CheckCrc::Yes).unwrap();
        assert_eq!(third.body, b"third");
    }
}

#[test]
fn a_store_closed_twice_opens_from_its_marker() {
    let root = directory();
    for round in 0..3 {
        let store = open(root.path(), false);
        assert_eq!(store.max_offset(TOPIC, 0), round);
        put(&store, b"body");
        store.close().unwrap();
    }
    let marker = root.path().join("mqstack/closed.json");
    let text = fs::read_to_string(&marker).unwrap();
    assert!(text.contains("\"queueOffsets\":3"), "{text}");
    fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    let store = open(root.path(), false);
    assert_eq!(
        bodies(&store, 0).len(),
        3,
        "a marker that does not fit is not believed"
    );
    assert!(!marker.exists());
    store.close().unwrap();
}

#[test]
fn an_empty_last_file_is_tolerated() {
    let root = directory();
    let store = open(root.path(), false);
    put(&store, b"body");
    store.close().unwrap();
    fs::write(root.path().join("commitlog/00000000000000065536"), b"").unwrap();
    let queue = format!("consumequeue/{TOPIC}/0/00000000000000006000");
    fs::write(root.path().join(queue), b"").unwrap();
    let store = open(root.path(), false);
    assert_eq!(bodies(&store, 0), [&b"body"[..]]);
    store.close().unwrap();
}
