//! Deadlines and settled watermarks without a flush.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::tests::test_rig::{FAR_MS, Rig, rig};
use crate::types::{AckOutcome, Ticket, Watermark};
use crate::write::deadlines::DeadlineThread;
use mq_base::clock::ManualClock;

const PATIENCE: Duration = Duration::from_secs(60);

/// A ticket for bytes that the log does not have yet.
fn beyond(rig: &Rig, needs: Watermark, deadline_ms: i64) -> Ticket {
    Ticket {
        end_offset: rig.flusher.log.max_offset().cast_signed() + 1,
        needs,
        deadline_ms,
    }
}

#[test]
fn deadlines_pass_without_flush_threads() {
    let clock = ManualClock::at(1);
    let rig = rig(Arc::clone(&clock) as _);
    let _deadlines = DeadlineThread::start(&rig.flusher.acks, &rig.services).unwrap();
    assert!(rig.flusher.acks.try_turn(), "a flush hangs");
    for (round, needs) in (1..).zip([Watermark::Flushed, Watermark::Written]) {
        let ticket = beyond(&rig, needs, 1_000 * round);
        let park = |ticket| {
            rig.parked
                .park(|token| rig.flusher.acks.park(ticket, token))
        };
        let (early, patient) = (park(ticket), park(beyond(&rig, needs, FAR_MS)));
        clock.advance(999);
        assert!(early.try_recv().is_err(), "{needs:?}");
        clock.advance(1);
        let outcome = early.recv_timeout(PATIENCE).unwrap().0;
        assert_eq!(outcome, AckOutcome::FlushTimeout, "{needs:?}");
        assert!(patient.try_recv().is_err(), "{needs:?}");
    }
}

#[test]
fn a_watermark_that_no_flush_moved_settles_its_waiters() {
    let rig = rig(ManualClock::at(1));
    let stored = rig.put(b"x");
    let acks = &rig.flusher.acks;
    assert!(acks.try_turn(), "a flush hangs");
    let parked = rig.park(&stored, FAR_MS);
    let ticket = Rig::ticket(&stored, FAR_MS);
    let later = rig
        .parked
        .park(|token| acks.park(beyond(&rig, Watermark::Flushed, FAR_MS), token));
    thread::scope(|scope| {
        let blocked = scope.spawn(|| rig.flusher.wait(&ticket));
        acks.settle_reached();
        assert!(parked.try_recv().is_err(), "nothing has moved");
        acks.watermarks
            .advance_flushed(ticket.end_offset.cast_unsigned());
        acks.settle_reached();
        assert_eq!(blocked.join().unwrap(), AckOutcome::Durable);
    });
    assert_eq!(parked.try_recv().unwrap().0, AckOutcome::Durable);
    assert!(later.try_recv().is_err(), "its bytes are not there");
}

#[test]
fn a_poisoned_store_settles_whatever_waits() {
    let rig = rig(ManualClock::at(1));
    let acks = &rig.flusher.acks;
    let parked = rig
        .parked
        .park(|token| acks.park(beyond(&rig, Watermark::Flushed, FAR_MS), token));
    acks.poison_silently("a disk error".into());
    acks.settle_reached();
    assert_eq!(parked.try_recv().unwrap().0, AckOutcome::Poisoned);
}
