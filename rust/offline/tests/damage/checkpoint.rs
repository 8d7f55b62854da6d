//! How far a start after a kill trusts the checkpoint and store times.

use std::fs;

use mq_format::message::{CheckCrc, RecordView};
use mq_store::inspect::MARGIN_MS;

use crate::rig::{BODY_AT, LOG_FILE, Patient, Sent, delivered, repaired};
use crate::short_file::spared;

/// Position of the store time in a record.
const STORE_TIMESTAMP_AT: u64 = 56;

/// After a kill the end of the log is not recorded, but the checkpoint covers flushed records.
/// Their queue offsets must not be reused.
#[test]
fn a_short_last_file_reuses_no_queue_offset_after_a_kill() {
    let whole = Patient::new();
    whole.leave_open();
    for length in [1, 19, 4_096] {
        let patient = whole.copy();
        let start = patient.last_file();
        patient.cut(start, length);
        let store = patient.open();
        let kept = spared(&patient, start, length);
        assert_eq!(delivered(&store, &patient).len(), kept, "cut to {length}");
        for queue_id in [0, 1] {
            assert_eq!(store.max_offset("T", queue_id), patient.count(queue_id));
        }
        store.close().unwrap();
        patient.assert_verified();
    }
}

fn first_in(patient: &Patient, file: u64) -> &Sent {
    let mut sent = patient.sent.iter();
    sent.find(|sent| sent.range.start >= file).unwrap()
}

fn stored_at_ms(patient: &Patient, sent: &Sent) -> i64 {
    let log = patient.log();
    let range = sent.range.start as usize..sent.range.end as usize;
    RecordView::parse(&log[range], CheckCrc::Yes)
        .unwrap()
        .store_timestamp_ms
}

/// The header has no checksum, so a damaged store time could make all earlier records look durable.
#[test]
fn a_store_time_before_the_previous_files_is_not_trusted() {
    let whole = Patient::new();
    whole.leave_open();
    let last = whole.last_file();
    let durable_ms = stored_at_ms(&whole, first_in(&whole, LOG_FILE)) + MARGIN_MS;
    let mut checkpoint = vec![0; 4096];
    for at in [0, 8, 16] {
        checkpoint[at..at + 8].copy_from_slice(&durable_ms.to_be_bytes());
    }
    fs::write(whole.root.path().join("checkpoint"), checkpoint).unwrap();
    for is_flipped in [false, true] {
        let patient = whole.copy();
        if is_flipped {
            // Bit 40 of the milliseconds: about 35 years.
            patient.flip(
                first_in(&whole, last).range.start + STORE_TIMESTAMP_AT + 2,
                0,
            );
        }
        let damaged = first_in(&whole, last - LOG_FILE);
        patient.flip(damaged.range.start + BODY_AT, 1);
        let store = patient.open();
        assert_eq!(repaired(&store), 1, "flipped: {is_flipped}");
        assert_eq!(delivered(&store, &patient).len(), patient.sent.len() - 1);
    }
}
