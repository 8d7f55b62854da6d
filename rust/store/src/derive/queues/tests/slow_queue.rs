//! A disk on which the files of one consume queue are slow. Only the next flush waits for it.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::filter::MessageFilter;
use crate::tests::store_rig::{PATIENCE, Rig, Told, rig_with, settings};
use crate::tests::test_rig::{SlowDisk, request};
use crate::types::{GetRequest, GetStatus, PutRequest, PutStatus, ReadMode};
use mq_log::Operation;

/// Operations that do not wait for the disk take less.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Whether the operation concerns queue 1 of topic T, or its next file under the temporary name.
fn is_slow(path: &Path, operation: &Operation<'_>) -> bool {
    let path = path.to_string_lossy();
    match operation {
        Operation::Write(..) => path.contains("consumequeue/T/1/"),
        Operation::Create => path.contains("mqstack/new-"),
        _ => false,
    }
}

/// Puts into a queue; the result must arrive at once.
fn put(rig: &Rig, topic: &str) {
    let began = Instant::now();
    let put = rig.store.put(&PutRequest {
        properties: b"",
        ..request(topic, b"x")
    });
    assert_eq!(rig.store.wait(put).status, PutStatus::Ok);
    assert!(began.elapsed() < AT_ONCE, "the put waits");
}

/// Waits until queue 1 of a topic ends at `end`, and reads its last message without the disk.
fn find(rig: &Rig, topic: &'static str, end: i64) {
    let (sender, found) = mpsc::channel();
    let store = Arc::clone(&rig.store);
    thread::spawn(move || {
        while store.max_offset(topic, 1) < end {
            thread::yield_now();
        }
        let last = GetRequest {
            topic,
            queue_id: 1,
            offset: end - 1,
            max_count: 1,
            filter: &MessageFilter::All,
            mode: ReadMode::NoWait,
        };
        let got = store.get(&last, &mut Vec::new());
        let is_sent = sender.send(got.map(|got| (got.status, got.next_begin_offset)));
        is_sent.unwrap_or_default(); // the test gave up
    });
    let found = found.recv_timeout(AT_ONCE);
    assert_eq!(
        found,
        Ok(Ok((GetStatus::Found, end))),
        "{topic} is not read"
    );
}

fn is_told(told: &Told, end: i64) -> bool {
    told.lock().iter().any(|(told_end, _)| *told_end == end)
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "still not: {what}");
        thread::yield_now();
    }
}

/// Runs while the queue's first file is created (`has_file` is false), or while it is written.
fn put_and_read_while_slow(has_file: bool) {
    let rig = rig_with(settings());
    if has_file {
        put(&rig, "T");
        rig.wait_until_flushed();
    }
    let disk = SlowDisk::under(rig.root.path(), is_slow);
    // Files that are already open are not watched.
    let rig = rig.reopen(false);
    let told = rig.tell();
    let first = i64::from(has_file);
    disk.close();
    put(&rig, "T");
    find(&rig, "T", first + 1);
    until("the write of the queue waits", || disk.waiting() > 0);
    for more in 1..=40 {
        put(&rig, "T");
        put(&rig, "U");
        find(&rig, "U", more);
        find(&rig, "T", first + 1 + more);
        until("the arrival is reported", || {
            is_told(&told, first + 1 + more)
        });
    }
    for end in 1..=first + 41 {
        find(&rig, "T", end);
    }
    assert!(disk.waiting() > 0, "it still waits");
    disk.open();
    rig.wait_until_flushed();
    let rig = rig.reopen(false);
    find(&rig, "T", first + 41);
    find(&rig, "U", 40);
}

#[test]
fn puts_and_reads_do_not_wait_for_a_slow_queue_write() {
    put_and_read_while_slow(true);
}

#[test]
fn puts_and_reads_do_not_wait_for_a_slow_new_queue_file() {
    put_and_read_while_slow(false);
}
