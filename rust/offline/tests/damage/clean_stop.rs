//! What a clean stop recorded must be there at the next start; before a thread of a store may
//! append, the store looks open.

use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;

use mq_format::message::{CheckCrc, RecordView};
use mq_store::inspect::layout::ABORT;
use mq_store::testing::request;
use mq_store::{GetRequest, GetStatus, PutStatus, ReadMode, Store, TagFilter};

use crate::rig::{BODY_AT, LOG_FILE, Patient, healed};

const MESSAGES: i64 = 12;

/// The body of a message tells its number, and no byte of it is zero.
fn body(at: i64) -> Vec<u8> {
    vec![b'A' + u8::try_from(at % 26).unwrap(); 4_000]
}

/// A store with these messages that was closed.
fn closed() -> Patient {
    Patient::filled(|store, _| {
        for at in 0..MESSAGES {
            let put = store.put(&request("T", &body(at)));
            assert_eq!(store.wait(put).queue_offset, at);
        }
        Vec::new()
    })
}

/// Queue offsets that are delivered; each must be the message that was sent there.
fn delivered(store: &Store) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    for offset in 0..MESSAGES {
        let (mut out, all) = (Vec::new(), TagFilter::All);
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
        // A hole leads to the record behind it.
        if record.queue_offset >= MESSAGES {
            continue;
        }
        assert_eq!(record.body, body(record.queue_offset));
        assert!(!record.properties.contains(&0), "{offset} has lost its end");
        found.insert(record.queue_offset);
    }
    found
}

/// Starts the store with the given damage undone by nobody; returns what is still delivered.
fn start(patient: &Patient, is_damaged: bool) -> BTreeSet<i64> {
    let store = patient.try_open();
    let store = store.unwrap();
    assert_eq!(healed(&store) > 0, is_damaged);
    let found = delivered(&store);
    let put = store.wait(store.put(&request("T", b"new")));
    assert_eq!((put.status, put.queue_offset), (PutStatus::Ok, MESSAGES));
    store.close().unwrap();
    found
}

#[test]
fn an_untouched_store_starts_as_it_was_left() {
    let patient = closed();
    assert_eq!(start(&patient, false).len() as i64, MESSAGES);
}

#[test]
fn a_last_file_that_is_gone_is_damage() {
    let patient = closed();
    fs::remove_file(patient.file(patient.last_file())).unwrap();
    assert!((start(&patient, true).len() as i64) < MESSAGES);
}

#[test]
fn a_store_with_another_checkpoint_opens_as_one_that_rocketmq_left() {
    let patient = closed();
    let path = patient.root.path().join("checkpoint");
    let mut bytes = fs::read(&path).unwrap();
    bytes[7] ^= 1;
    fs::write(path, bytes).unwrap();
    patient.write(patient.end - 100, &[0; 100]);
    assert_eq!(healed(&patient.open()), 0);
}

#[test]
fn a_policy_that_refuses_damage_refuses_a_log_that_was_cut() {
    let patient = closed();
    patient.write(patient.end - 2_000, &[0; 2_000]);
    for _ in 0..2 {
        let mut settings = patient.settings.clone();
        settings.heal_damage = false;
        let error = Store::open(patient.root.path(), settings, patient.clock.clone(), false).err();
        let error = error.unwrap().to_string();
        assert!(error.contains("when the store was closed"), "{error}");
        assert!(!patient.root.path().join(ABORT).exists());
    }
}

#[test]
fn a_consume_queue_file_shorter_than_a_unit_is_made_anew() {
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

/// As with RocketMQ, `checkCRCOnRecover` is of the check after a clean stop. The last bytes are
/// checked all the same: their checksum was recorded.
#[test]
fn without_checks_of_bodies_only_the_recorded_tail_and_a_kill_reveal_one() {
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
            // Nothing vouches for any record.
            fs::write(patient.root.path().join("checkpoint"), [0; 4096]).unwrap();
        }
        let what = (file, check_crc_on_recover, is_killed);
        assert_eq!(healed(&patient.open()), count, "{what:?}");
    }
    // Sizes and places are checked whatever is set.
    let mut patient = whole.copy();
    patient.settings.check_crc_on_recover = false;
    patient.flip(body_in(last_file - LOG_FILE) - BODY_AT + 30, 1);
    assert_eq!(healed(&patient.open()), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A log that is zeroed from any byte on loses no more than the messages there.
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
        // The finding is settled: the next start reports none.
        let store = patient.open();
        prop_assert_eq!(healed(&store), 0);
        prop_assert_eq!(delivered(&store), found);
    }
}
