//! Delay delivery in a whole store: after a restart, on time, with a queue extension.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::filter::TagFilter;
use crate::settings::{QueueExt, Settings};
use crate::store::Store;
use crate::tests::test_rig::request;
use crate::types::{GetRequest, PutRequest, PutStatus, ReadMode};
use mq_base::clock::{Clock, ManualClock, SystemClock};
use mq_format::message::{CheckCrc, RecordView, SCHEDULE_TOPIC};
use mq_testing::stores::unpack;

const START_MS: i64 = 1_800_000_000_000;
const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: i64 = 20;

#[test]
fn messages_that_java_left_pending_come_after_a_restart_and_no_others() {
    let root = unpack("store");
    let settings = Settings {
        min_free_bytes: Some(0),
        ..Settings::default()
    };
    // Two hours after the last of them was stored.
    let clock = ManualClock::at(1_795_246_270_383 + 10_000_000);
    let open = || {
        Store::open(
            root.path(),
            settings.clone(),
            Arc::clone(&clock) as _,
            false,
        )
    };
    let ends = |store: &Store| [0, 1, 2, 3].map(|queue| store.max_offset("TopicDelay", queue));
    for _ in 0..2 {
        let store = open().unwrap();
        let started = Instant::now();
        while ends(&store) != [1, 1, 2, 1] {
            assert!(started.elapsed() < PATIENCE, "{:?}", ends(&store));
            std::thread::yield_now();
        }
        with_message(&store, "TopicDelay", 2, 1, |record| {
            let text = String::from_utf8_lossy(record.properties);
            assert!(text.contains("REAL_TOPIC\x01TopicDelay") && text.contains("WAIT\x01true"));
            assert!(text.contains("TAGS\x01Lvl99") && text.contains("DELAY\x0118"));
            assert_eq!((record.sys_flag, record.reconsume_times), (0, 0));
            assert_eq!(record.store_timestamp_ms, clock.wall_ms());
        });
        store.close().unwrap();
        assert_eq!(ends(&store), [1, 1, 2, 1], "each message came once");
    }
}

#[test]
fn the_thread_delivers_on_time() {
    let root = tempfile::tempdir().unwrap();
    let settings = Settings {
        commit_log_file_bytes: Some(1 << 20),
        min_free_bytes: Some(0),
        ..Settings::default()
    };
    let store = Store::open(root.path(), settings, SystemClock::shared(), true).unwrap();
    let delayed = PutRequest {
        delay_level: 1,
        ..request("T", b"later")
    };
    // On a busy machine a thread wakes late now and then: the most punctual round counts.
    let on_time = (0..ROUNDS).any(|round| {
        let stored: Vec<_> = (0..10).map(|_| store.wait(store.put(&delayed))).collect();
        let first = 10 * round;
        let started = Instant::now();
        while store.max_offset("T", 1) < first + 10 {
            assert!(started.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        let mut latest_ms = 0;
        for (offset, stored) in (first..).zip(&stored) {
            with_message(&store, "T", 1, offset, |record| {
                let late_ms = record.store_timestamp_ms - stored.store_timestamp_ms - 1_000;
                assert!(late_ms >= 0, "{late_ms} ms late");
                latest_ms = late_ms.max(latest_ms);
            });
        }
        latest_ms <= 100
    });
    assert!(on_time, "over 100 ms late each time");
}

#[test]
fn delivery_times_are_found_in_the_queue_extension() {
    let root = tempfile::tempdir().unwrap();
    let settings = Settings {
        commit_log_file_bytes: Some(1 << 20),
        min_free_bytes: Some(0),
        queue_ext: QueueExt {
            enabled: true,
            file_bytes: Some(2_048),
            ..QueueExt::default()
        },
        ..Settings::default()
    };
    let clock = ManualClock::at(START_MS);
    let store = Store::open(root.path(), settings, Arc::clone(&clock) as _, true).unwrap();
    let delayed = PutRequest {
        delay_level: 1,
        properties: b"DELAY\x011",
        ..request("T", b"later")
    };
    for _ in 0..3 {
        assert_eq!(store.wait(store.put(&delayed)).status, PutStatus::Ok);
    }
    let until = |topic, queue_id| {
        let started = Instant::now();
        while store.max_offset(topic, queue_id) < 3 {
            assert!(started.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
    };
    until(SCHEDULE_TOPIC, 0);
    let unit = store.upkeep.queues.get(SCHEDULE_TOPIC, 0).unwrap().entry(0);
    assert!(unit.unwrap().is_extension_address());
    clock.advance(1_000);
    until("T", 1);
    for offset in 0..3 {
        with_message(&store, "T", 1, offset, |record| {
            assert_eq!(record.store_timestamp_ms, START_MS + 1_000);
        });
    }
}

fn with_message(
    store: &Store,
    topic: &str,
    queue_id: i32,
    offset: i64,
    check: impl FnOnce(RecordView<'_>),
) {
    let request = GetRequest {
        topic,
        queue_id,
        offset,
        max_count: 1,
        filter: &TagFilter::All,
        mode: ReadMode::Wait,
    };
    let mut bytes = Vec::new();
    store.get(&request, &mut bytes).unwrap();
    check(RecordView::parse(&bytes, CheckCrc::Yes).unwrap());
}
