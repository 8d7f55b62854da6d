//! Log files that were truncated.

use std::fs;

use mq_offline::{RebuildOptions, rebuild};
use mq_store::inspect::LogFacts;
use mq_store::{Settings, Store};

use crate::rig::{LOG_FILE, Patient, delivered, repaired};

const LENGTHS: [u64; 8] = [0, 1, 8, 19, 4_096, LOG_FILE / 2, LOG_FILE - 9, LOG_FILE - 1];

/// Messages before the cut of a file, or in other files.
pub fn spared(patient: &Patient, start: u64, length: u64) -> usize {
    let sent = patient.sent.iter();
    sent.filter(|sent| {
        let is_elsewhere = sent.range.end <= start || sent.range.start >= start + LOG_FILE;
        is_elsewhere || sent.range.end <= start + length
    })
    .count()
}

/// A start after a clean stop repairs any truncated file.
#[test]
fn a_short_file_loses_only_the_messages_it_lacks() {
    let whole = Patient::new();
    assert!(whole.last_file() >= 4 * LOG_FILE);
    for start in (0..=whole.last_file()).step_by(LOG_FILE as usize) {
        for length in LENGTHS {
            let patient = whole.copy();
            patient.cut(start, length);
            let store = patient.open();
            let found = delivered(&store, &patient);
            let kept = spared(&patient, start, length);
            assert_eq!(found.len(), kept, "{start} cut to {length}");
            let is_damaged = kept < patient.sent.len();
            assert!(
                repaired(&store) > 0 || !is_damaged,
                "{start} cut to {length}"
            );
            patient.assert_goes_on(&store);
            store.close().unwrap();
            patient.assert_verified();
            let store = patient.open();
            assert_eq!(repaired(&store), 0);
            assert_eq!(delivered(&store, &patient), found);
        }
    }
}

/// The length of the only log file is recorded only in mqstack's own file.
#[test]
fn the_only_file_keeps_its_length() {
    for length in [0, 1, 19, 4_095, 4_096, 5_000] {
        let patient = Patient::new();
        for start in (LOG_FILE..=patient.last_file()).step_by(LOG_FILE as usize) {
            fs::remove_file(patient.file(start)).unwrap();
        }
        patient.cut(0, length);
        let mut settings = patient.settings.clone();
        settings.commit_log_file_bytes = None;
        let patient = Patient {
            settings,
            ..patient
        };
        let store = patient.open();
        let file_bytes = fs::metadata(patient.file(0)).unwrap().len();
        assert_eq!(file_bytes, LOG_FILE, "cut to {length}");
        assert_eq!(
            delivered(&store, &patient).len(),
            spared(&patient, 0, length) - later(&patient)
        );
        patient.assert_goes_on(&store);
        store.close().unwrap();
        patient.assert_verified();
    }
}

/// Messages after the first file.
fn later(patient: &Patient) -> usize {
    let sent = patient.sent.iter();
    sent.filter(|sent| sent.range.start >= LOG_FILE).count()
}

#[test]
fn a_refused_short_file_is_named_with_sizes_and_repair_command() {
    let patient = Patient::new();
    patient.cut(LOG_FILE, 5_000);
    let mut settings = patient.settings.clone();
    settings.repair_damage = false;
    let patient = Patient {
        settings,
        ..patient
    };
    let error = patient.try_open().err().unwrap().to_string();
    let (file, root) = (patient.file(LOG_FILE), patient.root.path());
    let wanted = [
        format!("{} has 5000 bytes, expected {LOG_FILE}", file.display()),
        format!("`mqstore repair {} --to ", root.display()),
    ];
    for part in wanted {
        assert!(error.contains(&part), "{part} is not in {error}");
    }
    assert!(!error.contains('\n'));
    assert_eq!(fs::metadata(file).unwrap().len(), 5_000, "nothing changed");
    assert!(LogFacts::read(root).unwrap().is_complete());
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("repaired");
    let options = RebuildOptions {
        repairs: true,
        to: Some(&to),
        ..RebuildOptions::default()
    };
    let done = rebuild(root, &options, &mut |_, _, _| true).unwrap();
    assert!(!done.repaired.is_empty());
    let repaired = Patient {
        root: place,
        ..patient
    };
    let settings = Settings {
        index_slots: None,
        index_entries: None,
        ..repaired.settings.clone()
    };
    let store = Store::open(&to, settings, repaired.clock.clone(), false);
    let store = store.unwrap();
    let kept = spared(&repaired, LOG_FILE, 5_000);
    assert_eq!(delivered(&store, &repaired).len(), kept);
    repaired.assert_goes_on(&store);
}
