//! Acknowledgement and flush over a disk that records operations, fails and crashes.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::tests::test_rig::{FAR_MS, FILE_SIZE, Rig, rig, rig_on};
use crate::types::{AckOutcome, PutStatus};
use crate::write::deadlines::DeadlineThread;
use crate::write::flush::FlushThreads;
use mq_base::clock::SystemClock;
use mq_log::testing::{Event, Kind};

const PATIENCE: Duration = Duration::from_secs(60);
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EMFILE: i32 = 24;

#[test]
fn a_full_disk_refuses_and_recovers() {
    let rig = rig(SystemClock::shared());
    rig.disk.hook.fail(Kind::Room, ENOSPC);
    assert_eq!(rig.put(b"x").status, PutStatus::ServiceNotAvailable);
    assert!(
        rig.appender
            .space
            .refusal()
            .is_some_and(|why| why.contains("No space left"))
    );
    rig.disk.hook.repair();
    assert_eq!(rig.put(b"x").status, PutStatus::ServiceNotAvailable);
    rig.appender.space.refresh();
    let stored = rig.put(b"x");
    assert_eq!((stored.status, stored.physical_offset), (PutStatus::Ok, 0));
    // No room for the next file: nothing is written, not even the blank record.
    assert_eq!(rig.put(&[0; 2900]).queue_offset, 1);
    let end = rig.flusher.log.max_offset();
    rig.disk.hook.fail(Kind::Room, ENOSPC);
    assert_eq!(rig.put(&[0; 2900]).status, PutStatus::ServiceNotAvailable);
    assert_eq!(rig.flusher.log.max_offset(), end);
    rig.disk.hook.repair();
    rig.appender.space.refresh();
    assert_eq!(rig.put(&[0; 2900]).queue_offset, 2);
}

#[test]
fn a_file_that_cannot_be_made_is_not_a_full_disk() {
    let rig = rig(SystemClock::shared());
    rig.disk.hook.fail(Kind::Room, EMFILE);
    assert_eq!(rig.put(b"x").status, PutStatus::CreateMappedFileFailed);
    assert_eq!(rig.appender.space.refusal(), None);
    rig.disk.hook.repair();
    assert_eq!(rig.put(b"x").physical_offset, 0);
}

#[test]
fn a_failed_write_stops_the_log() {
    let rig = rig(SystemClock::shared());
    let stored = rig.put(b"x");
    rig.disk.hook.fail(Kind::Write, EIO);
    assert_eq!(rig.put(b"y").status, PutStatus::ServiceNotAvailable);
    rig.disk.hook.repair();
    assert_eq!(rig.put(b"z").status, PutStatus::ServiceNotAvailable);
    let ticket = Rig::ticket(&stored, FAR_MS);
    assert_eq!(rig.flusher.wait(&ticket), AckOutcome::Poisoned);
    assert!(!rig.flusher.flush_all());
    rig.with_record(0, |record| assert_eq!(record.body, b"x"));
}

#[test]
fn a_failed_fsync_stops_the_log_and_is_not_retried() {
    let rig = rig(SystemClock::shared());
    let threads = FlushThreads::group_commit(&rig.flusher, &rig.services).unwrap();
    let stored = rig.put(b"x");
    rig.disk.hook.fail(Kind::Sync, EIO);
    for _ in 0..3 {
        let outcome = rig.park(&stored, FAR_MS).recv_timeout(PATIENCE);
        assert_eq!(outcome.unwrap().0, AckOutcome::Poisoned);
        rig.disk.hook.repair();
    }
    assert_eq!(
        rig.flusher.wait(&Rig::ticket(&stored, FAR_MS)),
        AckOutcome::Poisoned
    );
    assert_eq!(rig.put(b"y").status, PutStatus::ServiceNotAvailable);
    assert!(!rig.flusher.acks.try_turn());
    assert_eq!(rig.flusher.acks.flushed(), 0);
    drop(threads);
}

#[test]
fn one_sync_releases_every_waiter_it_covers() {
    let rig = rig(SystemClock::shared());
    let parked = (0..64).map(|_| rig.park(&rig.put(b"x"), FAR_MS));
    let outcomes: Vec<_> = parked.collect();
    let threads = FlushThreads::group_commit(&rig.flusher, &rig.services).unwrap();
    for outcome in outcomes {
        let outcome = outcome.recv_timeout(PATIENCE).unwrap();
        assert_eq!(outcome.0, AckOutcome::Durable);
    }
    let is_sync = |event: &Event| event.0 == Kind::Sync;
    let events = rig.disk.hook.take();
    assert!(
        rig.flusher.log.max_offset() > FILE_SIZE,
        "the group spans two files"
    );
    assert_eq!(events.iter().filter(|event| is_sync(event)).count(), 2);
    assert!(
        events.iter().rev().take(2).all(is_sync),
        "syncs come after the writes: {events:?}"
    );
    drop(threads);
}

#[test]
fn a_lone_waiter_flushes_on_its_own_thread() {
    let rig = rig(SystemClock::shared());
    let ticket = Rig::ticket(&rig.put(b"x"), FAR_MS);
    assert_eq!(rig.flusher.wait(&ticket), AckOutcome::Durable);
    assert_eq!(rig.flusher.acks.flushed().cast_signed(), ticket.end_offset);
}

#[test]
fn a_waiter_times_out_while_a_flush_hangs() {
    let clock = SystemClock::shared();
    let rig = rig(Arc::clone(&clock));
    assert!(
        rig.flusher.acks.try_turn(),
        "another thread hangs in its flush"
    );
    let threads = FlushThreads::group_commit(&rig.flusher, &rig.services).unwrap();
    let _deadlines = DeadlineThread::start(&rig.flusher.acks, &rig.services).unwrap();
    let (stored, deadline_ms) = (rig.put(b"x"), clock.monotonic_ms() + 20);
    let outcome = rig.park(&stored, deadline_ms);
    let ticket = Rig::ticket(&stored, deadline_ms);
    assert_eq!(rig.flusher.wait(&ticket), AckOutcome::FlushTimeout);
    let outcome = outcome.recv_timeout(PATIENCE).unwrap();
    assert_eq!(outcome.0, AckOutcome::FlushTimeout);
    drop(threads);
}

#[test]
fn acknowledged_puts_survive_a_crash_after_any_sync() {
    for limit in 0..8 {
        let crashing = rig(SystemClock::shared());
        crashing.disk.hook.freeze_after(limit);
        let mut acknowledged = Vec::new();
        for body in [[1; 900], [2; 900], [3; 900], [4; 900], [5; 900]] {
            let stored = crashing.put(&body);
            crashing.flusher.wait(&Rig::ticket(&stored, FAR_MS));
            if crashing.disk.hook.syncs() <= limit {
                acknowledged.push((stored.physical_offset, body));
            }
        }
        // The fifth put opens a new file: its flush syncs the blank record of one file and the
        // start of the next.
        assert_eq!(acknowledged.len(), [0, 1, 2, 3, 4, 4, 5, 5][limit]);
        let survivor = rig_on(
            crashing.disk.after_crash(),
            FILE_SIZE,
            SystemClock::shared(),
        );
        for (offset, body) in acknowledged {
            survivor.with_record(offset, |record| assert_eq!(record.body, body));
        }
    }
}

#[test]
fn a_put_that_poisons_settles_the_others_after_the_put_lock() {
    let rig = Arc::new(rig(SystemClock::shared()));
    let waiting = rig.park(&rig.put(b"x"), FAR_MS);
    let (sender, locks) = mpsc::channel();
    let appender = Arc::downgrade(&rig);
    let look = move || {
        let rig = appender.upgrade().unwrap();
        sender.send(rig.appender.tail.is_locked()).unwrap();
    };
    assert!(rig.parked.hook.set(Box::new(look)).is_ok());
    rig.disk.hook.fail(Kind::Write, EIO);
    assert_eq!(rig.put(b"y").status, PutStatus::ServiceNotAvailable);
    assert_eq!(locks.try_recv(), Ok(false));
    assert_eq!(waiting.try_recv().unwrap().0, AckOutcome::Poisoned);
}
