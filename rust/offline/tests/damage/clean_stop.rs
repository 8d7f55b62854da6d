//! The facts that a clean stop recorded must hold at the next start. The store is marked open
//! before any of its threads may append.

use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;

use mq_format::message::{CheckCrc, RecordView};
use mq_store::inspect::layout::ABORT;
use mq_store::testing::request;
use mq_store::{GetRequest, GetStatus, MessageFilter, PutStatus, ReadMode, Store};

use crate::rig::{BODY_AT, LOG_FILE, Patient, repaired};

const MESSAGES: i64 = 12;

/// The body of a message encodes its number; none of its bytes is zero.
fn body(at: i64) -> Vec<u8> {
    vec![b'A' + u8::try_from(at % 26).unwrap(); 4_000]
}

/// A closed store with these messages.
fn closed() -> Patient {
    Patient::filled(|store, _| {
        for at in 0..MESSAGES {
            let put = store.put(&request("T", &body(at)));
            assert_eq!(store.wait(put).queue_offset, at);
        }
        Vec::new()
    })
}

/// Delivered queue offsets. Each must hold the message that was sent there.
fn delivered(store: &Store) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    for offset in 0..MESSAGES {
        let (mut out, all) = (Vec::new(), MessageFilter::All);
        let request = GetRequest {
            topic: "T",
            queue_id: 1,
            offset,
            max_count: 1,
            filter: &all,
            mode: ReadMode::Wait,
        };
        let got = store.get(&request, &mut out).unwrap();
        if got.status != GetStatus::Found {
            continue;
        }
        let record = RecordView::parse(&out, CheckCrc::Yes).unwrap();
        // At a hole, the read returns the next record.
        if record.queue_offset >= MESSAGES {
            continue;
        }
        assert_eq!(record.body, body(record.queue_offset));
        assert!(!record.properties.contains(&0), "{offset} has lost its end");
        found.insert(record.queue_offset);
    }
    found
}

/// Starts the store and returns the queue offsets that it still delivers.
fn start(patient: &Patient, is_damaged: bool) -> BTreeSet<i64> {
    let store = patient.try_open();
    let store = store.unwrap();
    assert_eq!(repaired(&store) > 0, is_damaged);
    let found = delivered(&store);
    let put = store.wait(store.put(&request("T", b"new")));
    assert_eq!((put.status, put.queue_offset), (PutStatus::Ok, MESSAGES));
    store.close().unwrap();
    found
}

#[test]
fn an_intact_store_delivers_all_messages() {
    let patient = closed();
    assert_eq!(start(&patient, false).len() as i64, MESSAGES);
}

#[test]
fn a_missing_last_file_is_damage() {
    let patient = closed();
    fs::remove_file(patient.file(patient.last_file())).unwrap();
    assert!((start(&patient, true).len() as i64) < MESSAGES);
}

#[test]
fn a_store_with_another_checkpoint_opens_like_one_of_rocketmq() {
    let patient = closed();
    let path = patient.root.path().join("checkpoint");
    let mut bytes = fs::read(&path).unwrap();
    bytes[7] ^= 1;
    fs::write(path, bytes).unwrap();
    patient.write(patient.end - 100, &[0; 100]);
    assert_eq!(repaired(&patient.open()), 0);
}

#[test]
fn a_policy_that_refuses_damage_refuses_a_truncated_log() {
    let patient = closed();
    patient.write(patient.end - 2_000, &[0; 2_000]);
    for _ in 0..2 {
        let mut settings = patient.settings.clone();
        settings.repair_damage = false;
        let error = Store::open(patient.root.path(), settings, patient.clock.clone(), false).err();
        let error = error.unwrap().to_string();
        assert!(error.contains("when the store was closed"), "{error}");
        assert!(!patient.root.path().join(ABORT).exists());
    }
}

#[test]
fn a_consume_queue_file_shorter_than_an_entry_is_rebuilt() {
    for bytes in [1, 19] {
        let mut patient = closed();
        let queue = patient.root.path().join("consumequeue/T/1");
        for entry in fs::read_dir(queue).unwrap() {
            let path = entry.unwrap().path();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(bytes).unwrap();
        }
        patient.settings.consume_queue_file_bytes = None;
        assert_eq!(delivered(&patient.open()), (0..MESSAGES).collect());
    }
}

/// As in RocketMQ, `checkCRCOnRecover` applies to the check after a clean stop. The last bytes are
/// checked in any case, because their checksum was recorded.
#[test]
fn without_crc_checks_only_the_tail_and_a_kill_reveal_damage() {
    let whole = Patient::new();
    let last_file = whole.last_file();
    let body_in = |from: u64| {
        let mut sent = whole.sent.iter();
        let sent = sent.find(|sent| sent.range.start >= from && sent.range.end < from + LOG_FILE);
        sent.unwrap().range.start + BODY_AT
    };
    for (file, check_crc_on_recover, is_killed, count) in [
        (last_file - LOG_FILE, true, false, 1),
        (last_file - LOG_FILE, false, false, 0),
        (last_file - LOG_FILE, false, true, 1),
        (last_file, false, false, 1),
    ] {
        let mut patient = whole.copy();
        patient.settings.check_crc_on_recover = check_crc_on_recover;
        patient.flip(body_in(file), 1);
        if is_killed {
            patient.leave_open();
            // Without a checkpoint no record counts as durable.
            fs::write(patient.root.path().join("checkpoint"), [0; 4096]).unwrap();
        }
        let what = (file, check_crc_on_recover, is_killed);
        assert_eq!(repaired(&patient.open()), count, "{what:?}");
    }
    // Sizes and positions are checked with every setting.
    let mut patient = whole.copy();
    patient.settings.check_crc_on_recover = false;
    patient.flip(body_in(last_file - LOG_FILE) - BODY_AT + 30, 1);
    assert_eq!(repaired(&patient.open()), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// If the log is zeros from any byte on, only the messages there are lost.
    #[test]
    fn zeros_up_to_the_end_are_damage(place: prop::sample::Index) {
        let patient = closed();
        let (last, end) = (patient.last_file(), patient.end);
        let from = last + place.index((end - last) as usize) as u64;
        patient.write(from, &vec![0; (end - from) as usize]);
        let found = start(&patient, true);
        let before = (0..MESSAGES - 4).collect::<BTreeSet<_>>();
        prop_assert!(found.is_superset(&before), "{:?}", found);
        prop_assert!(!found.contains(&(MESSAGES - 1)));
        // The damage is repaired: the next start reports none.
        let store = patient.open();
        prop_assert_eq!(repaired(&store), 0);
        prop_assert_eq!(delivered(&store), found);
    }
}
