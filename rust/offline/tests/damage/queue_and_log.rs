//! Damage of the log together with damage of a queue: the log loses only the records that were hit,
//! and every other message is delivered.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::rig::{BODY_AT, Found, Patient, Sent, delivered};

const ENTRY_BYTES: u64 = 20;
/// Length of a queue file, bytes.
const FILE_BYTES: u64 = 200;

/// A store that was killed before the checkpoint knew of any message, so that the next start checks
/// the whole log.
fn killed() -> Patient {
    let patient = Patient::new();
    patient.leave_open();
    fs::write(patient.root.path().join("checkpoint"), [0; 4096]).unwrap();
    patient
}

/// The file of an entry, and the position of the entry in it.
fn place(patient: &Patient, queue_id: i32, offset: i64) -> (fs::File, u64) {
    let position = offset.cast_unsigned() * ENTRY_BYTES;
    let start = position - position % FILE_BYTES;
    let path = format!("consumequeue/T/{queue_id}/{start:020}");
    let path = patient.root.path().join(path);
    let file = fs::File::options().read(true).write(true).open(path);
    (file.unwrap(), position - start)
}

fn entry(patient: &Patient, queue_id: i32, offset: i64) -> [u8; ENTRY_BYTES as usize] {
    let mut bytes = [0; ENTRY_BYTES as usize];
    let (file, at) = place(patient, queue_id, offset);
    file.read_exact_at(&mut bytes, at).unwrap();
    bytes
}

fn set_entry(patient: &Patient, queue_id: i32, offset: i64, bytes: &[u8]) {
    let (file, at) = place(patient, queue_id, offset);
    file.write_all_at(bytes, at).unwrap();
}

fn sent(patient: &Patient, queue_id: i32, queue_offset: i64) -> Sent {
    let mut all = patient.sent.iter();
    let is_it = |sent: &&Sent| (sent.queue_id, sent.queue_offset) == (queue_id, queue_offset);
    all.find(is_it).unwrap().clone()
}

/// Damages the body of a message.
fn lose(patient: &Patient, lost: &Sent) {
    patient.flip(lost.range.start + BODY_AT + 3, 2);
}

/// Checks that all messages but `lost` are delivered, also after another start.
fn assert_only(patient: &Patient, lost: &[(i32, i64)], what: &str) {
    let withheld = |found: &Found| -> Vec<(i32, i64)> {
        let sent = patient.sent.iter();
        let places = sent.map(|sent| (sent.queue_id, sent.queue_offset));
        places.filter(|place| !found.contains_key(place)).collect()
    };
    for _ in 0..2 {
        let store = patient.open();
        assert_eq!(withheld(&delivered(&store, patient)), lost, "{what}");
        store.close().unwrap();
    }
}

/// The entries of lost records become holes. An entry is not one of them only because damage makes
/// it point there.
#[test]
fn an_entry_that_points_to_lost_bytes_by_mistake_is_rebuilt() {
    let whole = killed();
    let lost = sent(&whole, 1, 6);
    for (queue_id, offset) in [(0, 0), (0, 6), (0, 14), (1, 2), (1, 5), (1, 7), (1, 12)] {
        let patient = whole.copy();
        lose(&patient, &lost);
        let mut wrong = entry(&patient, queue_id, offset);
        wrong[..8].copy_from_slice(&(lost.range.start + 7).to_be_bytes());
        set_entry(&patient, queue_id, offset, &wrong);
        assert_only(&patient, &[(1, 6)], &format!("{queue_id}/{offset}"));
    }
}

#[test]
fn foreign_queue_content_hides_no_record_beside_a_lost_one() {
    let whole = killed();
    for lost in [0, 3, 9, 10, 14] {
        let patient = whole.copy();
        lose(&patient, &sent(&whole, 1, lost));
        for offset in 0..10 {
            let foreign = entry(&patient, 1, offset);
            set_entry(&patient, 0, offset, &foreign);
        }
        assert_only(&patient, &[(1, lost)], &format!("lost {lost}"));
    }
}

/// A lost record interrupts the offsets of its queue. Shifted entries of that queue must not make
/// its other records look damaged.
#[test]
fn shifted_entries_beside_a_lost_record_destroy_no_record() {
    let whole = killed();
    for lost in [1, 4, 12] {
        for first in [0, 2, 5] {
            let patient = whole.copy();
            lose(&patient, &sent(&whole, 1, lost));
            for offset in first..7 {
                let later = entry(&whole, 1, offset + 3);
                set_entry(&patient, 1, offset, &later);
            }
            assert_only(&patient, &[(1, lost)], &format!("{lost}, from {first}"));
        }
    }
}

/// An entry that points to the record of another queue shows a damaged header only if that record
/// does not fit into the queue that it names.
#[test]
fn an_entry_of_a_lost_record_destroys_no_foreign_record() {
    let whole = killed();
    for (lost, other) in [(3, 3), (3, 9), (12, 2), (0, 0)] {
        let patient = whole.copy();
        lose(&patient, &sent(&whole, 1, lost));
        let foreign = entry(&patient, 0, other);
        set_entry(&patient, 1, lost, &foreign);
        // The queue of the record does not know it either.
        set_entry(&patient, 0, other, &[7; ENTRY_BYTES as usize]);
        assert_only(&patient, &[(1, lost)], &format!("{lost}, {other}"));
    }
}
