//! Times of flushes, and outcomes of waiting puts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use crate::tests::test_rig::{FAR_MS, FILE_SIZE, Rig, java_rig, request, rig, rig_of_files};
use crate::types::{AckOutcome, Put, PutRequest, PutStatus};
use crate::write::deadlines::DeadlineThread;
use crate::write::flush::{FlushThreads, Interval, Rounds};
use crate::write::put::Puts;
use mq_base::clock::{ManualClock, SystemClock};
use mq_log::testing::Kind;

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "still not: {what}");
        thread::yield_now();
    }
}

#[test]
fn puts_during_a_flush_share_the_next_one() {
    let rig = rig(SystemClock::shared());
    let _threads = FlushThreads::group_commit(&rig.flusher, &rig.services).unwrap();
    rig.disk.hook.gate(Kind::Sync).close();
    let first = rig.park(&rig.put(b"first"), FAR_MS);
    until("the first flush hangs", || {
        rig.disk.hook.gate(Kind::Sync).waiting() == 1
    });
    let later: Vec<_> = (0..64).map(|_| rig.park(&rig.put(b"x"), FAR_MS)).collect();
    assert!(first.try_recv().is_err());
    rig.disk.hook.gate(Kind::Sync).open();
    for outcome in [first].into_iter().chain(later) {
        assert_eq!(
            outcome.recv_timeout(PATIENCE).unwrap().0,
            AckOutcome::Durable
        );
    }
    // 65 records take three log files: the second flush syncs two of them.
    let spans = rig.flusher.log.max_offset().div_ceil(FILE_SIZE);
    assert!(
        rig.disk.hook.gate(Kind::Sync).passed() as u64 <= 1 + spans,
        "{spans}"
    );
}

#[test]
fn waiters_time_out_punctually_while_a_flush_hangs() {
    let clock = SystemClock::shared();
    let rig = rig(Arc::clone(&clock));
    let threads = FlushThreads::group_commit(&rig.flusher, &rig.services).unwrap();
    let _deadlines = DeadlineThread::start(&rig.flusher.acks, &rig.services).unwrap();
    rig.disk.hook.gate(Kind::Sync).close();
    let patient = rig.park(&rig.put(b"x"), FAR_MS);
    until("the flush hangs", || {
        rig.disk.hook.gate(Kind::Sync).waiting() == 1
    });
    // A timeout comes 20 ms late on a quiet machine; if the thread that watches deadlines were not
    // woken, it would come up to 500 ms late. On a busy machine a thread sometimes wakes up late,
    // so the most punctual of several tries counts.
    let late = |timeout_ms| {
        let stored = rig.put(b"y");
        let deadline_ms = clock.monotonic_ms() + timeout_ms;
        let due = Instant::now() + Duration::from_millis(timeout_ms as u64);
        let outcome = rig.park(&stored, deadline_ms);
        let latch = rig.flusher.wait(&Rig::ticket(&stored, deadline_ms));
        let latch_at = Instant::now();
        let (parked, parked_at) = outcome.recv_timeout(PATIENCE).unwrap();
        assert_eq!(
            (latch, parked),
            (AckOutcome::FlushTimeout, AckOutcome::FlushTimeout)
        );
        latch_at.max(parked_at).saturating_duration_since(due)
    };
    for timeout_ms in [100, 40, 70] {
        assert!((0..20).any(|_| late(timeout_ms) < Duration::from_millis(200)));
    }
    assert!(patient.try_recv().is_err());
    rig.disk.hook.gate(Kind::Sync).open();
    assert_eq!(
        patient.recv_timeout(PATIENCE).unwrap().0,
        AckOutcome::Durable
    );
    drop(threads);
}

#[test]
fn a_listener_that_panics_at_deadlines_ends_no_flush_thread() {
    let clock = SystemClock::shared();
    let rig = rig(Arc::clone(&clock));
    let threads = FlushThreads::group_commit(&rig.flusher, &rig.services).unwrap();
    let _deadlines = DeadlineThread::start(&rig.flusher.acks, &rig.services).unwrap();
    rig.disk.hook.gate(Kind::Sync).close();
    let patient = rig.park(&rig.put(b"x"), FAR_MS);
    until("the flush hangs", || {
        rig.disk.hook.gate(Kind::Sync).waiting() == 1
    });
    for count in 1..=3 {
        // The listener knows no such token.
        let ticket = Rig::ticket(&rig.put(b"y"), clock.monotonic_ms() + 1);
        if rig.flusher.acks.park(ticket, u64::MAX).is_none() {
            until("it is noted", || {
                let noted = rig.services.all().remove("settled-listener");
                noted.is_some_and(|noted| noted.count == count)
            });
        }
    }
    let late = rig.park(&rig.put(b"z"), clock.monotonic_ms() + 1);
    let late = late.recv_timeout(PATIENCE).unwrap();
    assert_eq!(late.0, AckOutcome::FlushTimeout);
    rig.disk.hook.gate(Kind::Sync).open();
    let patient = patient.recv_timeout(PATIENCE).unwrap();
    assert_eq!(patient.0, AckOutcome::Durable);
    assert_eq!(rig.flusher.acks.poison(), None);
    drop(threads);
}

#[test]
fn a_waiter_flushes_if_no_other_thread_does() {
    let rig = rig(SystemClock::shared());
    rig.disk.hook.gate(Kind::Sync).close();
    thread::scope(|scope| {
        let wait = || {
            let ticket = Rig::ticket(&rig.put(b"x"), FAR_MS);
            rig.flusher.wait(&ticket)
        };
        let mut waiting = vec![scope.spawn(wait)];
        until("the first flush hangs", || {
            rig.disk.hook.gate(Kind::Sync).waiting() == 1
        });
        waiting.extend((0..8).map(|_| scope.spawn(wait)));
        until("all are stored", || rig.appender.counters.messages() == 9);
        rig.disk.hook.gate(Kind::Sync).open();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), AckOutcome::Durable);
        }
    });
}

#[test]
fn puts_that_do_not_wait_are_flushed_too() {
    let clock = SystemClock::shared();
    let rig = rig(Arc::clone(&clock));
    let _threads = FlushThreads::group_commit(&rig.flusher, &rig.services).unwrap();
    let puts = Puts {
        appender: rig.appender,
        flusher: rig.flusher,
        clock,
        sync_flush_timeout_ms: Some(5_000),
        failures: AtomicU64::new(0),
    };
    let careless = PutRequest {
        wait_store_ok: false,
        ..request("T", b"x")
    };
    rig.disk.hook.gate(Kind::Sync).close();
    let Put::Done(result) = puts.one(&careless) else {
        panic!("WAIT=false waits");
    };
    assert_eq!(result.status, PutStatus::Ok);
    until("the put is flushed", || {
        rig.disk.hook.gate(Kind::Sync).waiting() == 1
    });
    let Put::Parked(result, ticket) = puts.one(&request("T", b"y")) else {
        panic!("a put of SYNC_FLUSH waits");
    };
    rig.disk.hook.gate(Kind::Sync).open();
    assert_eq!(puts.wait(Put::Parked(result, ticket)).status, PutStatus::Ok);
    assert!(puts.flusher.acks.flushed().cast_signed() >= ticket.end_offset);
}

const TENTH_OF_A_SECOND: Interval = Interval {
    every: Duration::from_millis(100),
    least_pages: 4,
    thorough_ms: 10_000,
};

/// Puts enough bytes for several parts between flushes, until a condition holds.
fn put_much_until(rig: &Rig, what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "still not: {what}");
        let end = rig.flusher.log.max_offset() + (3 << 20);
        while rig.flusher.log.max_offset() < end {
            rig.put(&[b'x'; 2_500]);
        }
        until(what, || rig.flusher.acks.flushed() >= end || holds());
        rig.put(&[b'x'; 2_500]);
    }
}

#[test]
fn many_bytes_are_written_back_before_the_flush() {
    let rig = rig_of_files(1 << 20, SystemClock::shared());
    let clock = SystemClock::shared();
    let _threads =
        FlushThreads::on_interval(&rig.flusher, TENTH_OF_A_SECOND, clock, &Arc::default()).unwrap();
    let begun = || rig.disk.hook.gate(Kind::BeginSync).passed() > 0;
    put_much_until(&rig, "something was begun", begun);
}

#[test]
fn a_hanging_writeback_is_followed_by_a_flush() {
    let rig = rig_of_files(64 << 20, SystemClock::shared());
    rig.disk.hook.gate(Kind::BeginSync).close();
    let clock = SystemClock::shared();
    let _threads =
        FlushThreads::on_interval(&rig.flusher, TENTH_OF_A_SECOND, clock, &Arc::default()).unwrap();
    let hangs = || rig.disk.hook.gate(Kind::BeginSync).waiting() == 1;
    put_much_until(&rig, "the beginning hangs", hangs);
    let hangs_since = Instant::now();
    rig.put(&[b'x'; 2_500]);
    until("the flush is late", || {
        hangs_since.elapsed() > TENTH_OF_A_SECOND.every
    });
    rig.disk.hook.gate(Kind::Sync).close();
    rig.disk.hook.gate(Kind::BeginSync).open();
    until("the log is flushed", || {
        rig.disk.hook.gate(Kind::Sync).waiting() == 1
    });
    let begun = rig.disk.hook.gate(Kind::BeginSync).passed();
    rig.disk.hook.gate(Kind::Sync).open();
    assert_eq!(begun, 1);
}

#[test]
fn an_interval_flush_needs_pages_a_full_file_or_time() {
    let clock = ManualClock::at(1);
    let rig = java_rig(65_536, Arc::clone(&clock) as _);
    let interval = Interval {
        every: Duration::from_millis(500),
        least_pages: 4,
        thorough_ms: 10_000,
    };
    let mut rounds = Rounds::new(Arc::clone(&rig.flusher), interval, Arc::clone(&clock) as _);
    let mut is_flushed = || {
        rounds.next();
        rig.flusher.acks.flushed() == rig.flusher.log.max_offset()
    };
    let page = || rig.put(&[0; 4_096 - 91 - 1 - 9]);
    assert_eq!(page().size_bytes, 4_096);
    assert!(!is_flushed(), "one page is not enough");
    clock.advance(9_999);
    assert!(!is_flushed());
    clock.advance(1);
    assert!(is_flushed(), "it is time, whatever there is");
    for _ in 0..3 {
        page();
        assert!(!is_flushed());
    }
    page();
    assert!(is_flushed(), "four pages");
    for _ in 0..3 {
        page();
    }
    rig.put(&[0; 30_000]);
    assert!(is_flushed());
    page();
    assert_eq!(rig.flusher.log.max_offset(), 65_536 + 4_096);
    assert!(is_flushed(), "a full file goes at once");
}
