//! Delay delivery in a whole store: after a restart, on time, and with a queue extension.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::filter::MessageFilter;
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
fn messages_pending_in_javas_store_are_delivered_once() {
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
    // On a busy machine a thread sometimes wakes up late, so one punctual round is enough.
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
    let entry = store
        .derived
        .queues
        .get(SCHEDULE_TOPIC, 0)
        .unwrap()
        .entry(0);
    assert!(entry.unwrap().is_extension_address());
    clock.advance(1_000);
    until("T", 1);
    for offset in 0..3 {
        with_message(&store, "T", 1, offset, |record| {
            assert_eq!(record.store_timestamp_ms, START_MS + 1_000);
        });
    }
}

fn small(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings {
        commit_log_file_bytes: Some(1 << 20),
        min_free_bytes: Some(0),
        ..Settings::default()
    };
    change(&mut settings);
    settings
}

fn put_delayed(store: &Store, level: i32, body: &[u8], properties: &str) {
    let request = PutRequest {
        delay_level: level,
        properties: properties.as_bytes(),
        ..request("T", body)
    };
    assert_eq!(store.wait(store.put(&request)).status, PutStatus::Ok);
}

fn until_delivered(store: &Store, end: i64) {
    let started = Instant::now();
    while store.max_offset("T", 1) < end {
        assert!(started.elapsed() < PATIENCE, "{}", store.max_offset("T", 1));
        std::thread::yield_now();
    }
}

#[test]
fn limits_lowered_while_messages_wait_drop_none() {
    let root = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_MS);
    let light = |most| {
        move |settings: &mut Settings| {
            settings.multi_dispatch.enabled = true;
            settings.multi_dispatch.lmq_enabled = true;
            settings.multi_dispatch.lmq_queues_max = most;
        }
    };
    let open = |settings| Store::open(root.path(), settings, Arc::clone(&clock) as _, true);
    let store = open(small(light(20))).unwrap();
    for name in ["a", "b", "c"] {
        let properties = format!("INNER_MULTI_DISPATCH\x01%LMQ%{name}");
        put_delayed(&store, 1, &[b'x'; 1_000], &properties);
    }
    put_delayed(&store, 1, &[b'y'; 1_000], "");
    store.close().unwrap();
    clock.advance(1_000);
    let mut lowered = small(light(1));
    lowered.max_message_bytes = 100;
    let store = open(lowered).unwrap();
    until_delivered(&store, 4);
    let refused = store.wait(store.put(&request("T", &[b'z'; 101])));
    assert_eq!(refused.status, PutStatus::MessageIllegal);
}

#[test]
fn removed_and_restored_levels_deliver_each_message_once() {
    let root = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_MS);
    let open = |levels: &str| {
        let settings = small(|settings| settings.delay_levels = levels.into());
        Store::open(root.path(), settings, Arc::clone(&clock) as _, true).unwrap()
    };
    let store = open("1s 2s 3s");
    put_delayed(&store, 3, b"before", "");
    clock.advance(3_000);
    until_delivered(&store, 1);
    put_delayed(&store, 3, b"waits", "");
    store.close().unwrap();
    let store = open("1s");
    assert_eq!(store.positions.delay.stranded(), [(3, 1)]);
    put_delayed(&store, 1, b"between", "");
    clock.advance(3_000);
    until_delivered(&store, 2);
    store.close().unwrap();
    let store = open("1s 2s 3s");
    assert_eq!(store.positions.delay.stranded(), []);
    until_delivered(&store, 3);
    put_delayed(&store, 1, b"after", "");
    clock.advance(3_000);
    until_delivered(&store, 4);
    for (offset, body) in ["before", "between", "waits", "after"].iter().enumerate() {
        with_message(&store, "T", 1, offset as i64, |record| {
            assert_eq!(record.body, body.as_bytes());
        });
    }
}

#[test]
fn messages_deleted_before_they_are_due_are_counted_once() {
    let root = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_MS);
    let settings = small(|settings| settings.cleaning.reserved_hours = 0);
    let store = Store::open(root.path(), settings, Arc::clone(&clock) as _, true).unwrap();
    for _ in 0..3 {
        put_delayed(&store, 18, &[b'x'; 300_000], "");
    }
    put_delayed(&store, 18, &[b'y'; 500_000], "");
    store.flush().unwrap();
    let started = Instant::now();
    while store.min_physical_offset() == 0 {
        assert!(started.elapsed() < PATIENCE);
        store.clean();
    }
    assert_eq!(store.positions.delay.deleted(), 3);
    assert_eq!(store.runtime()["delayedMessagesDeleted"], "3");
    clock.advance(7_200_000);
    until_delivered(&store, 1);
    store.clean();
    assert_eq!(store.positions.delay.deleted(), 3);
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
        filter: &MessageFilter::All,
        mode: ReadMode::Wait,
    };
    let mut bytes = Vec::new();
    store.get(&request, &mut bytes).unwrap();
    check(RecordView::parse(&bytes, CheckCrc::Yes).unwrap());
}
