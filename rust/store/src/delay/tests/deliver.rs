//! Which messages are delivered, when and in which order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::delay::deliver::{Delay, Next};
use crate::delay::redeliver::Delivery;
use crate::derive::dispatch::Dispatch;
use crate::derive::queues::table::ConsumeQueues;
use crate::scan::log_scanner::LogScanner;
use crate::settings::Settings;
use crate::tests::test_rig::{Rig, java_rig, request};
use crate::types::{PutRequest, PutResult, PutStatus};
use mq_base::clock::{Clock, ManualClock};
use mq_format::delay_levels::DelayLevels;
use mq_format::message::SCHEDULE_TOPIC;
use mq_statefile::StateFiles;

const START_MS: i64 = 1_800_000_000_000;

/// A log, its queues and the delay delivery, without threads.
struct Delayed {
    rig: Rig,
    clock: Arc<ManualClock>,
    levels: DelayLevels,
    queues: Arc<ConsumeQueues>,
    derived: Dispatch,
    scanner: LogScanner,
    delay: Delay,
    root: TempDir,
    /// Time and body of each delivered message.
    delivered: Mutex<Vec<(i64, Vec<u8>)>>,
    refusal: Mutex<Option<PutStatus>>,
    unreadable: AtomicU32,
}

impl Delivery for Delayed {
    fn read(&self, physical_offset: i64, out: &mut [u8]) -> io::Result<usize> {
        let fails = |left: u32| left.checked_sub(1);
        let failing = self
            .unreadable
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails);
        if failing.is_ok() {
            return Err(io::Error::other("bad sector"));
        }
        self.rig.flusher.log.read_at(physical_offset as u64, out)
    }

    fn put(&self, request: &PutRequest<'_>) -> PutResult {
        if let Some(status) = *self.refusal.lock() {
            return PutResult::refused(status);
        }
        let result = self.rig.put_one(request);
        let delivered = (self.clock.wall_ms(), request.body.to_vec());
        self.delivered.lock().push(delivered);
        result
    }
}

impl Delayed {
    fn new() -> Self {
        let clock = ManualClock::at(START_MS);
        let rig = java_rig(1 << 20, Arc::clone(&clock) as _);
        let root = tempfile::tempdir().unwrap();
        let settings = Settings::default();
        let levels = DelayLevels::parse(&settings.delay_levels).unwrap();
        let queues = Arc::new(ConsumeQueues::open(root.path(), &settings, false).unwrap());
        let state = StateFiles::new(root.path());
        let as_clock = Arc::clone(&clock) as _;
        let delay = Delay::load(levels.clone(), Arc::clone(&queues), as_clock, &state).unwrap();
        Self {
            rig,
            clock,
            derived: Dispatch::new(Arc::clone(&queues), None, levels.clone()),
            queues,
            levels,
            scanner: LogScanner::from(0),
            delay,
            root,
            delivered: Mutex::default(),
            refusal: Mutex::default(),
            unreadable: AtomicU32::new(0),
        }
    }

    fn put_delayed(&mut self, level: i32, body: &[u8]) -> PutResult {
        let properties = format!("DELAY\x01{level}");
        let result = self.rig.put_one(&PutRequest {
            delay_level: level,
            properties: properties.as_bytes(),
            ..request("T", body)
        });
        assert_eq!(result.status, PutStatus::Ok);
        self.dispatch();
        result
    }

    fn dispatch(&mut self) {
        let log = &*self.rig.flusher.log;
        let limit = log.max_offset();
        self.derived
            .follow(log, &mut self.scanner, limit, None)
            .unwrap();
    }

    /// Does the work of the thread until `end_ms`.
    fn run_until(&mut self, end_ms: i64) {
        loop {
            let next = self.delay.deliver_due(self);
            let left_ms = end_ms - self.clock.wall_ms();
            if left_ms <= 0 {
                return;
            }
            self.clock.advance(self.delay.sleep_ms(&next).min(left_ms));
        }
    }

    fn bodies(&self) -> Vec<String> {
        let text = |(_, body): &(i64, Vec<u8>)| String::from_utf8(body.clone()).unwrap();
        self.delivered.lock().iter().map(text).collect()
    }
}

#[test]
fn every_level_delivers_in_order_and_on_time() {
    let mut delayed = Delayed::new();
    let mut expected = Vec::new();
    for round in 0..3 {
        for level in 1..=18 {
            let stored = delayed.put_delayed(level, format!("{level}-{round}").as_bytes());
            let due_ms = delayed
                .levels
                .deliver_at_ms(level, stored.store_timestamp_ms);
            expected.push((due_ms, format!("{level}-{round}").into_bytes()));
            delayed.run_until(delayed.clock.wall_ms() + 37);
        }
    }
    delayed.run_until(START_MS + 7_300_000);
    let delivered = delayed.delivered.lock();
    expected.sort();
    assert_eq!(delivered.len(), expected.len());
    for ((at_ms, body), (due_ms, wanted)) in delivered.iter().zip(&expected) {
        assert_eq!(body, wanted);
        assert!(
            (0..=100).contains(&(at_ms - due_ms)),
            "{} ms",
            at_ms - due_ms
        );
    }
}

#[test]
fn a_clock_set_back_does_not_delay_later_messages() {
    let mut delayed = Delayed::new();
    let hour_ms = 3_600_000;
    delayed.put_delayed(17, b"first");
    delayed.clock.set_wall(START_MS + hour_ms / 2);
    for number in 0..1_000 {
        delayed.put_delayed(17, format!("ahead {number}").as_bytes());
    }
    delayed.clock.set_wall(START_MS + 60_000);
    delayed.put_delayed(17, b"behind");
    delayed.run_until(START_MS + hour_ms + 59_999);
    assert_eq!(delayed.bodies(), ["first"]);
    delayed.run_until(START_MS + hour_ms + 60_001);
    let bodies = delayed.bodies();
    assert_eq!(bodies.len(), 1_002);
    assert_eq!(bodies.last().unwrap(), "behind");
    delayed.put_delayed(17, b"later");
    delayed.run_until(delayed.clock.wall_ms() + hour_ms - 1);
    assert_eq!(delayed.bodies().len(), 1_002);
    delayed.run_until(delayed.clock.wall_ms() + 1);
    assert_eq!(delayed.bodies().last().unwrap(), "later");
}

#[test]
fn a_long_backlog_does_not_delay_other_levels() {
    let mut delayed = Delayed::new();
    for number in 0..2_000 {
        delayed.put_delayed(1, format!("{number}").as_bytes());
    }
    delayed.put_delayed(2, b"other level");
    delayed.clock.advance(5_000);
    let next = delayed.delay.deliver_due(&delayed);
    assert_eq!((next[0], next[2]), (Next::Now, Next::Beyond(0)));
    assert_eq!(delayed.bodies().last().unwrap(), "other level");
    delayed.run_until(START_MS + 5_001);
    let mut bodies = delayed.bodies();
    bodies.retain(|body| body != "other level");
    let numbers: Vec<_> = (0..2_000).map(|number| number.to_string()).collect();
    assert_eq!(bodies, numbers);
}

#[test]
fn only_missing_and_damaged_messages_are_skipped() {
    let mut delayed = Delayed::new();
    let bodies = [
        vec![b'a'; 100],
        vec![b'b'; 300_000],
        vec![b'c'; 100],
        vec![b'd'; 9_000],
    ];
    let first = delayed.put_delayed(1, &bodies[0]).physical_offset as u64;
    let second = delayed.put_delayed(1, &bodies[1]).physical_offset as u64;
    // A lost record: its queue offset has no entry.
    *delayed
        .rig
        .appender
        .tail
        .lock()
        .queue_offsets
        .entry(SCHEDULE_TOPIC, 0) += 1;
    delayed.put_delayed(1, &bodies[2]);
    delayed.put_delayed(1, &bodies[3]);
    let log = Arc::clone(&delayed.rig.flusher.log);
    log.overwrite(first + 100, b"X").unwrap();
    delayed.clock.advance(1_000);
    let next = delayed.delay.deliver_due(&delayed);
    assert_eq!(next[0], Next::Now);
    let delivered = |delayed: &Delayed| -> Vec<Vec<u8>> {
        delayed
            .delivered
            .lock()
            .iter()
            .map(|(_, body)| body.clone())
            .collect()
    };
    assert_eq!(delivered(&delayed), bodies[1..]);
    assert_eq!(delayed.delay.progress()[0], (5, 5));

    // An entry that points to a huge record, which does not exist.
    log.overwrite(second, &[0; 8]).unwrap();
    let state = StateFiles::new(delayed.root.path());
    let (levels, queues) = (delayed.levels.clone(), Arc::clone(&delayed.queues));
    let clock = Arc::clone(&delayed.clock) as _;
    delayed.delay = Delay::load(levels, queues, clock, &state).unwrap();
    delayed.delay.deliver_due(&delayed);
    assert_eq!(delivered(&delayed)[3..], bodies[2..]);
}

#[test]
fn a_refused_put_is_tried_again_and_an_illegal_one_is_not() {
    let mut delayed = Delayed::new();
    delayed.put_delayed(1, b"one");
    delayed.put_delayed(1, b"two");
    delayed.clock.advance(1_000);
    let now_ms = delayed.clock.wall_ms();
    for status in [
        PutStatus::OsPageCacheBusy,
        PutStatus::ServiceNotAvailable,
        PutStatus::CreateMappedFileFailed,
    ] {
        *delayed.refusal.lock() = Some(status);
        assert_eq!(
            delayed.delay.deliver_due(&delayed)[0],
            Next::At(now_ms + 100)
        );
        assert_eq!(delayed.delay.progress()[0], (0, 2));
    }
    *delayed.refusal.lock() = Some(PutStatus::MessageIllegal);
    delayed.delay.deliver_due(&delayed);
    assert_eq!(delayed.delay.progress()[0], (2, 2));
    assert_eq!(delayed.bodies(), [""; 0]);
}

#[test]
fn an_unreadable_message_is_skipped_after_many_tries() {
    let mut delayed = Delayed::new();
    delayed.put_delayed(1, b"one");
    delayed.put_delayed(1, b"two");
    delayed.clock.advance(1_000);
    delayed.unreadable.store(100, Ordering::SeqCst);
    for _ in 0..100 {
        delayed.delay.deliver_due(&delayed);
        assert_eq!(delayed.delay.progress()[0], (0, 2));
    }
    delayed.delay.deliver_due(&delayed);
    assert_eq!(delayed.bodies(), ["one", "two"]);

    delayed.put_delayed(1, b"lost");
    delayed.put_delayed(1, b"later");
    delayed.clock.advance(1_000);
    delayed.unreadable.store(101, Ordering::SeqCst);
    for _ in 0..102 {
        delayed.delay.deliver_due(&delayed);
    }
    assert_eq!(delayed.bodies(), ["one", "two", "later"]);
}
