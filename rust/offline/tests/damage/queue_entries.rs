//! One bit flip in a consume-queue entry: the message is delivered, the entry is rebuilt from the
//! log, and no queue offset is reused.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::rig::{Patient, delivered};

const ENTRY_BYTES: u64 = 20;
/// Length of a queue file, bytes.
const FILE_BYTES: u64 = 200;

/// How the last owner left a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Closed by us; the end of the log is recorded.
    Closed,
    /// Closed by RocketMQ.
    ByRocketMq,
    Killed,
}

fn left(whole: &Patient, how: Left) -> Patient {
    let patient = whole.copy();
    match how {
        Left::Closed => {}
        Left::ByRocketMq => {
            fs::remove_file(patient.root.path().join("mqstack/closed.json")).unwrap();
        }
        Left::Killed => patient.leave_open(),
    }
    patient
}

fn flip(patient: &Patient, queue_id: i32, offset: i64, bit: u64) {
    let position = offset.cast_unsigned() * ENTRY_BYTES;
    let start = position - position % FILE_BYTES;
    let path = format!("consumequeue/T/{queue_id}/{start:020}");
    let path = patient.root.path().join(path);
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let at = position - start + bit / 8;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], at).unwrap();
}

fn flip_each_bit(how: Left, offset: impl Fn(i64) -> i64) {
    let whole = Patient::new();
    for bit in 0..ENTRY_BYTES * 8 {
        let patient = left(&whole, how);
        flip(&patient, 1, offset(patient.count(1)), bit);
        let store = patient.open();
        let found = delivered(&store, &patient);
        assert_eq!(found.len(), patient.sent.len(), "{how:?}, bit {bit}");
        patient.assert_goes_on(&store);
        store.close().unwrap();
        // Only filters use the tags code, so its damage is not repaired.
        if bit < 96 {
            patient.assert_verified();
        }
    }
}

#[test]
fn a_flipped_last_entry_loses_nothing_after_a_clean_stop() {
    flip_each_bit(Left::Closed, |count| count - 1);
}

#[test]
fn a_flipped_last_entry_loses_nothing_in_a_store_of_rocketmq() {
    flip_each_bit(Left::ByRocketMq, |count| count - 1);
}

#[test]
fn a_flipped_last_entry_loses_nothing_after_a_kill() {
    flip_each_bit(Left::Killed, |count| count - 1);
}

#[test]
fn a_flipped_entry_is_rebuilt_when_it_is_read() {
    flip_each_bit(Left::Closed, |count| count / 2);
    let patient = Patient::new();
    flip(&patient, 1, 3, 60);
    let store = patient.open();
    assert_eq!(delivered(&store, &patient).len(), patient.sent.len());
    assert_eq!(store.runtime()["queueEntriesRepaired"], "1");
    assert_eq!(store.runtime()["damagedRecordsSkipped"], "0");
    assert_eq!(delivered(&store, &patient).len(), patient.sent.len());
    assert_eq!(store.runtime()["queueEntriesRepaired"], "1");
    store.close().unwrap();
    patient.assert_verified();
}

#[test]
fn a_flipped_first_entry_is_rebuilt_when_it_is_read() {
    flip_each_bit(Left::Killed, |_| 0);
}
