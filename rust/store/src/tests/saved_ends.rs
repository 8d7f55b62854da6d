//! How often the ends of the queues are saved while a store is open.

use super::store_rig::{Rig, rig_with, settings};
use super::test_rig::request;
use crate::directory::queue_ends::{Found, QueueEnds};
use crate::settings::Settings;
use crate::types::PutStatus;

const MINUTE_MS: i64 = 60_000;

/// A store whose log only the test flushes.
fn unflushed() -> Rig {
    rig_with(Settings {
        flush_interval_ms: u64::from(u32::MAX),
        ..settings()
    })
}

fn put(rig: &Rig) {
    let put = rig.store.put(&request("T", b"a body"));
    assert_eq!(rig.store.wait(put).status, PutStatus::Ok);
    rig.wait_until_dispatched();
}

/// The saved end of queue 1 of topic T.
fn saved(rig: &Rig) -> Option<i64> {
    match QueueEnds::read(rig.root.path()).unwrap() {
        Found::Ends(ends) => Some(ends.of("T", 1)?.end),
        Found::Missing => None,
        Found::Damaged => panic!("the file is damaged"),
    }
}

fn round_after(rig: &Rig, milliseconds: i64) {
    rig.clock.advance(milliseconds);
    rig.store.upkeep.round();
}

#[test]
fn the_ends_of_queues_are_saved_once_a_minute() {
    let rig = unflushed();
    put(&rig);
    rig.store.flush().unwrap();
    round_after(&rig, MINUTE_MS - 1);
    assert_eq!(saved(&rig), None);
    round_after(&rig, 1);
    assert_eq!(saved(&rig), Some(1));
    put(&rig);
    rig.store.flush().unwrap();
    round_after(&rig, MINUTE_MS - 1);
    assert_eq!(saved(&rig), Some(1));
    round_after(&rig, 1);
    assert_eq!(saved(&rig), Some(2));
}

/// A recorded end whose record a crash took would look like damage.
#[test]
fn the_ends_of_queues_are_saved_after_their_records_are_flushed() {
    let rig = unflushed();
    put(&rig);
    round_after(&rig, MINUTE_MS);
    assert_eq!(saved(&rig), None);
    rig.store.flush().unwrap();
    round_after(&rig, 0);
    assert_eq!(saved(&rig), Some(1));
}

#[test]
fn the_ends_of_an_idle_store_are_not_saved_again() {
    let rig = unflushed();
    put(&rig);
    rig.store.flush().unwrap();
    round_after(&rig, MINUTE_MS);
    std::fs::remove_file(rig.root.path().join("mqstack/queue_ends")).unwrap();
    round_after(&rig, MINUTE_MS);
    assert_eq!(saved(&rig), None);
}
