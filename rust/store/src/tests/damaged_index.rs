//! Damage in index files that look-ups of an open store find.

use std::fs;
use std::time::Instant;

use super::store_rig::{PATIENCE, Rig, rig_with, settings};
use super::test_rig::request;
use crate::settings::Settings;
use crate::types::{PutRequest, PutStatus};

const KEYS: usize = 120;
const SLOTS_AT: usize = 40;
const SLOTS: usize = 2;
const ENTRY: usize = 20;

/// A store with two index files of 49 keys, and a third one with the rest.
fn filled() -> Rig {
    let rig = rig_with(Settings {
        index_slots: Some(2),
        index_entries: Some(50),
        ..settings()
    });
    for at in 0..KEYS {
        let key = format!("KEYS\x01k{at}");
        let put = rig.store.put(&PutRequest {
            properties: key.as_bytes(),
            ..request("T", b"x")
        });
        assert_eq!(rig.store.wait(put).status, PutStatus::Ok);
    }
    rig.wait_until_flushed();
    assert_eq!(hidden(&rig), [0; 0]);
    rig
}

/// The keys for which a look-up finds nothing.
fn hidden(rig: &Rig) -> Vec<usize> {
    let is_hidden = |at: &usize| {
        let key = format!("k{at}");
        let found = rig.store.query("T", &key, 4, 0, i64::MAX, &mut Vec::new());
        found.message_count != 1
    };
    (0..KEYS).filter(is_hidden).collect()
}

fn zero(rig: &Rig, file: usize, from: usize, count: usize) {
    let path = &rig.files("index")[file];
    let mut bytes = fs::read(path).unwrap();
    bytes[from..from + count].fill(0);
    // Written in place, because the store has the file open.
    let file = fs::File::options().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
}

fn until_whole(rig: &Rig) {
    let until = Instant::now() + PATIENCE;
    while !hidden(rig).is_empty() {
        assert!(Instant::now() < until, "keys stay hidden");
        rig.store.derived.repair_index(&*rig.store.log, false);
    }
}

#[test]
fn keys_of_a_zeroed_page_are_restored_in_the_open_store() {
    for (file, from, count) in [
        (0, SLOTS_AT, 4 * SLOTS),
        (1, SLOTS_AT, 4 * SLOTS),
        (1, SLOTS_AT + 4 * SLOTS + 20 * ENTRY, 10 * ENTRY),
    ] {
        let rig = filled();
        zero(&rig, file, from, count);
        assert!(!hidden(&rig).is_empty(), "the damage hides no key");
        until_whole(&rig);
        let rig = rig.reopen(false);
        assert_eq!(hidden(&rig), [0; 0]);
    }
}

#[test]
fn the_newest_file_is_rebuilt_at_the_next_stop() {
    let rig = filled();
    zero(&rig, 2, SLOTS_AT + 4 * SLOTS + 5 * ENTRY, 5 * ENTRY);
    assert!(!hidden(&rig).is_empty(), "the damage hides no key");
    let rig = rig.reopen(false);
    assert_eq!(hidden(&rig), [0; 0]);
}
