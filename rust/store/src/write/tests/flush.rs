//! When the log is flushed, and who learns of it when.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::tests::test_rig::{FAR_MS, FILE_SIZE, Rig, java_rig, request, rig, rig_of_files};
use crate::types::{AckOutcome, Put, PutRequest, PutResult, PutStatus};
use crate::write::flush::{FlushThreads, Interval, Rounds};
use crate::write::put::Puts;
use mq_base::clock::{ManualClock, SystemClock};
use mq_log::testing::Kind;

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "still not: {what}");
        thread::yield_now();
    }
}

/// Parks a put; the outcome comes with the time it came.
fn park(rig: &Rig, result: &PutResult, deadline_ms: i64) -> mpsc::Receiver<(AckOutcome, Instant)> {
    let (sender, outcome) = mpsc::channel();
    let reply = move |outcome| sender.send((outcome, Instant::now())).unwrap();
    let ticket = Rig::ticket(result, deadline_ms);
    rig.flusher.acks.park(ticket, Box::new(reply));
    outcome
}

#[test]
fn who_comes_during_a_flush_shares_the_next_one() {
    let rig = rig(SystemClock::shared());
    let _threads = FlushThreads::group_commit(&rig.flusher).unwrap();
    rig.disk.tape.gate(Kind::Sync).close();
    let first = park(&rig, &rig.put(b"first"), FAR_MS);
    until("the first flush hangs", || {
        rig.disk.tape.gate(Kind::Sync).waiting() == 1
    });
    let later: Vec<_> = (0..64)
        .map(|_| park(&rig, &rig.put(b"x"), FAR_MS))
        .collect();
    assert!(first.try_recv().is_err());
    rig.disk.tape.gate(Kind::Sync).open();
    for outcome in [first].into_iter().chain(later) {
        assert_eq!(
            outcome.recv_timeout(PATIENCE).unwrap().0,
            AckOutcome::Durable
        );
    }
    // 65 records are three files of the log: the second flush syncs two of them.
    let spans = rig.flusher.log.max_offset().div_ceil(FILE_SIZE);
    assert!(
        rig.disk.tape.gate(Kind::Sync).passed() as u64 <= 1 + spans,
        "{spans}"
    );
}

#[test]
fn deadlines_are_noticed_on_time_while_a_flush_hangs() {
    let clock = SystemClock::shared();
    let rig = rig(Arc::clone(&clock));
    let threads = FlushThreads::group_commit(&rig.flusher).unwrap();
    rig.disk.tape.gate(Kind::Sync).close();
    let patient = park(&rig, &rig.put(b"x"), FAR_MS);
    until("the flush hangs", || {
        rig.disk.tape.gate(Kind::Sync).waiting() == 1
    });
    // The other thread sleeps by now, or will see these before it does.
    // 20 ms late on a quiet machine; without a call to the sleeper it would be up to 500. On a busy
    // one a thread wakes late now and then: the most punctual of some counts.
    let late = |timeout_ms| {
        let stored = rig.put(b"y");
        let deadline_ms = clock.monotonic_ms() + timeout_ms;
        let due = Instant::now() + Duration::from_millis(timeout_ms as u64);
        let outcome = park(&rig, &stored, deadline_ms);
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
    rig.disk.tape.gate(Kind::Sync).open();
    assert_eq!(
        patient.recv_timeout(PATIENCE).unwrap().0,
        AckOutcome::Durable
    );
    drop(threads);
}

#[test]
fn who_waits_for_the_next_flush_does_it_if_no_thread_is_there_for_that() {
    let rig = rig(SystemClock::shared());
    rig.disk.tape.gate(Kind::Sync).close();
    thread::scope(|scope| {
        let wait = || {
            let ticket = Rig::ticket(&rig.put(b"x"), FAR_MS);
            rig.flusher.wait(&ticket)
        };
        let mut waiting = vec![scope.spawn(wait)];
        until("the first flush hangs", || {
            rig.disk.tape.gate(Kind::Sync).waiting() == 1
        });
        waiting.extend((0..8).map(|_| scope.spawn(wait)));
        until("all are stored", || rig.appender.counters.messages() == 9);
        rig.disk.tape.gate(Kind::Sync).open();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), AckOutcome::Durable);
        }
    });
}

#[test]
fn who_does_not_wait_is_flushed_all_the_same() {
    let clock = SystemClock::shared();
    let rig = rig(Arc::clone(&clock));
    let _threads = FlushThreads::group_commit(&rig.flusher).unwrap();
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
    rig.disk.tape.gate(Kind::Sync).close();
    let Put::Done(result) = puts.one(&careless) else {
        panic!("WAIT=false waits");
    };
    assert_eq!(result.status, PutStatus::Ok);
    until("it is flushed unasked", || {
        rig.disk.tape.gate(Kind::Sync).waiting() == 1
    });
    let Put::Parked(result, ticket) = puts.one(&request("T", b"y")) else {
        panic!("a put of SYNC_FLUSH waits");
    };
    rig.disk.tape.gate(Kind::Sync).open();
    assert_eq!(puts.wait(Put::Parked(result, ticket)).status, PutStatus::Ok);
    assert!(puts.flusher.acks.flushed().cast_signed() >= ticket.end_offset);
}

const TENTH_OF_A_SECOND: Interval = Interval {
    every: Duration::from_millis(100),
    least_pages: 4,
    thorough_ms: 10_000,
};

/// Puts as much as is worth parts, flush after flush, until something holds.
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
fn the_disk_begins_between_two_flushes_while_much_comes() {
    let rig = rig_of_files(1 << 20, SystemClock::shared());
    let clock = SystemClock::shared();
    let _threads =
        FlushThreads::on_interval(&rig.flusher, TENTH_OF_A_SECOND, clock, &Arc::default()).unwrap();
    let begun = || rig.disk.tape.gate(Kind::BeginSync).passed() > 0;
    put_much_until(&rig, "something was begun", begun);
}

#[test]
fn a_disk_that_hangs_as_it_begins_is_flushed_next() {
    let rig = rig_of_files(64 << 20, SystemClock::shared());
    rig.disk.tape.gate(Kind::BeginSync).close();
    let clock = SystemClock::shared();
    let _threads =
        FlushThreads::on_interval(&rig.flusher, TENTH_OF_A_SECOND, clock, &Arc::default()).unwrap();
    let hangs = || rig.disk.tape.gate(Kind::BeginSync).waiting() == 1;
    put_much_until(&rig, "the beginning hangs", hangs);
    let hangs_since = Instant::now();
    rig.put(&[b'x'; 2_500]);
    until("the flush is late", || {
        hangs_since.elapsed() > TENTH_OF_A_SECOND.every
    });
    rig.disk.tape.gate(Kind::Sync).close();
    rig.disk.tape.gate(Kind::BeginSync).open();
    until("it flushes", || {
        rig.disk.tape.gate(Kind::Sync).waiting() == 1
    });
    let begun = rig.disk.tape.gate(Kind::BeginSync).passed();
    rig.disk.tape.gate(Kind::Sync).open();
    assert_eq!(begun, 1);
}

#[test]
fn the_interval_flushes_enough_pages_a_full_file_or_all_after_a_while() {
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
