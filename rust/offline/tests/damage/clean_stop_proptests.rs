//! Damage in the last three files of a closed log is found, saved in quarantine and overwritten up
//! to the recorded end. Nothing else is lost, and no queue offset is reused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use proptest::sample::Index;

use mq_log::{IoHook, Operation, Target, watch};
use mq_testing::stores::snapshot;

use crate::rig::{BODY_AT, LOG_FILE, Patient, Sent, delivered, repaired};

/// Files that a start checks after a clean stop.
const CHECKED_FILES: u64 = 3;

/// One damage of a log.
#[derive(Debug, Clone)]
enum Hit {
    /// A bit flip in size, magic, checksum, position, body length or body of a record.
    Flip(Index, usize, Index),
    /// Zeros from a position on, within its file.
    Zeros(Index, u64),
    /// A truncated file.
    Cut(Index, Index),
}

fn hits() -> impl Strategy<Value = Hit> {
    let index = || any::<Index>();
    prop_oneof![
        3 => (index(), 0..6_usize, index()).prop_map(|(a, b, c)| Hit::Flip(a, b, c)),
        2 => (index(), 1..9_000_u64).prop_map(|(place, bytes)| Hit::Zeros(place, bytes)),
        1 => (index(), index()).prop_map(|(file, length)| Hit::Cut(file, length)),
    ]
}

/// Fields of a record whose damage is revealed by its checksum or position.
fn revealing(sent: &Sent) -> [std::ops::Range<u64>; 6] {
    let from = sent.range.start;
    [
        (0, 4),
        (4, 8),
        (8, 12),
        (28, 36),
        (84, 88),
        (BODY_AT, BODY_AT + sent.body.len() as u64),
    ]
    .map(|(begin, end)| from + begin..from + end)
}

fn damage(patient: &Patient, hit: &Hit) {
    let first_file = patient
        .last_file()
        .saturating_sub((CHECKED_FILES - 1) * LOG_FILE);
    let in_range = |sent: &&Sent| sent.range.start >= first_file;
    match hit {
        Hit::Flip(record, region, at) => {
            let records: Vec<_> = patient.sent.iter().filter(in_range).collect();
            let range = revealing(records[record.index(records.len())])[*region].clone();
            let bit = at.index((range.end - range.start) as usize * 8) as u64;
            patient.flip(range.start + bit / 8, (bit % 8) as u8);
        }
        Hit::Zeros(place, bytes) => {
            let from = first_file + place.index((patient.end - first_file) as usize) as u64;
            let to = (from + bytes)
                .min(patient.end)
                .min(from - from % LOG_FILE + LOG_FILE);
            patient.write(from, &vec![0; (to - from) as usize]);
        }
        Hit::Cut(file, length) => {
            let start = first_file + file.index(CHECKED_FILES as usize) as u64 * LOG_FILE;
            let length = length.index(LOG_FILE as usize) as u64;
            let path = patient.file(start);
            if std::fs::metadata(path).is_ok_and(|found| found.len() > length) {
                patient.cut(start, length);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 60, ..Default::default() })]

    #[test]
    fn damage_before_the_recorded_end_loses_only_what_it_hit(
        hits in prop::collection::vec(hits(), 1..4),
    ) {
        static WHOLE: std::sync::LazyLock<Patient> = std::sync::LazyLock::new(Patient::new);
        let patient = WHOLE.copy();
        let before = patient.log();
        hits.iter().for_each(|hit| damage(&patient, hit));
        let after = patient.log();
        let differs = |range: std::ops::Range<u64>| {
            let range = range.start as usize..range.end as usize;
            before[range.clone()] != after[range]
        };
        let store = patient.open();
        let found = delivered(&store, &patient);
        let quarantine = patient.quarantine();
        let (mut revealed, mut hidden) = (0, 0);
        for sent in patient.sent.iter() {
            let is_found = found.contains_key(&(sent.queue_id, sent.queue_offset));
            if revealing(sent).into_iter().any(differs) {
                revealed += 1;
                prop_assert!(!is_found, "{:?} is delivered", sent.range);
                let is_kept = quarantine.iter().any(|kept| {
                    kept.start <= sent.range.start && sent.range.end <= kept.end
                });
                prop_assert!(is_kept, "{:?} is not in {:?}", sent.range, quarantine);
            } else if differs(sent.range.clone()) {
                hidden += 1;
            } else {
                prop_assert!(is_found, "{:?} is lost", sent.range);
            }
        }
        prop_assert!(revealed == 0 || repaired(&store) > 0);
        patient.assert_goes_on(&store);
        store.close().unwrap();
        if hidden == 0 {
            patient.assert_verified();
            let store = patient.open();
            prop_assert_eq!(repaired(&store), 0);
            prop_assert_eq!(delivered(&store, &patient), found);
            store.close().unwrap();
        }
    }
}

/// Permits a number of changes; then all fail, as if the process had been killed.
#[derive(Debug)]
struct Killed(AtomicI64);

impl IoHook for Killed {
    fn before(&self, _target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let is_change = !matches!(
            operation,
            Operation::Open | Operation::Read(..) | Operation::BeginSync(..)
        );
        if is_change && self.0.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Err(io::Error::other("killed"));
        }
        Ok(0)
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

/// The log and the queues after the store was opened and closed.
fn outcome(patient: &Patient) -> Vec<(String, Vec<u8>)> {
    let store = patient.open();
    let found = delivered(&store, patient);
    assert!(found.len() < patient.sent.len(), "nothing was damaged");
    patient.assert_goes_on(&store);
    store.close().unwrap();
    patient.assert_verified();
    let mut files: Vec<_> = snapshot(patient.root.path()).into_iter().collect();
    files.retain(|(name, _)| name.starts_with("commitlog/") || name.starts_with("consumequeue/"));
    files
}

fn killed_at_every_change(whole: &Patient, damage: impl Fn(&Patient)) -> i64 {
    let damaged = || {
        let patient = whole.copy();
        damage(&patient);
        patient
    };
    let expected = outcome(&damaged());
    for changes in 0.. {
        let patient = damaged();
        let watched = watch(
            patient.root.path(),
            Arc::new(Killed(AtomicI64::new(changes))),
        );
        let opened = patient.try_open();
        let is_alive = opened.is_ok();
        drop(opened);
        drop(watched);
        if is_alive {
            return changes;
        }
        let found = outcome(&patient);
        let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
            files.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&found), names(&expected), "after {changes} changes");
        let differing = found
            .iter()
            .zip(&expected)
            .find(|(one, other)| one != other);
        let name = differing.map(|((name, _), _)| name);
        assert_eq!(name, None, "after {changes} changes");
    }
    0
}

/// Damages a body, the end of the log, and a whole file.
#[test]
fn the_next_start_finishes_a_killed_repair() {
    let whole = Patient::new();
    let changes = killed_at_every_change(&whole, |patient| {
        let last = patient.last_file();
        let body = patient
            .sent
            .iter()
            .find(|sent| sent.range.start > last - 2 * LOG_FILE);
        patient.flip(body.unwrap().range.start + BODY_AT + 7, 3);
        let half = (last + patient.end) / 2;
        patient.write(half, &vec![0; (patient.end - half) as usize]);
    });
    assert!(changes > 20, "{changes}");
}

#[test]
fn the_next_start_finishes_a_killed_repair_of_a_short_file() {
    let whole = Patient::new();
    let changes = killed_at_every_change(&whole, |patient| patient.cut(0, LOG_FILE / 2));
    assert!(changes > 20, "{changes}");
}

#[test]
fn the_next_start_finishes_a_killed_repair_of_the_last_file() {
    let whole = Patient::new();
    let changes = killed_at_every_change(&whole, |patient| {
        std::fs::remove_file(patient.file(patient.last_file())).unwrap();
    });
    assert!(changes > 20, "{changes}");
}
