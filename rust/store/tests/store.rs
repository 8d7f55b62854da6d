//! A store directory that is opened, closed and opened again.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mq_base::clock::SystemClock;
use mq_format::message::{CheckCrc, RecordView};
use mq_store::{
    AckOutcome, GetRequest, GetStatus, MessageFilter, Put, PutRequest, PutStatus, ReadMode,
    Settings, Settled, Store, StoreError,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings {
        commit_log_file_bytes: Some(1 << 20),
        consume_queue_file_bytes: Some(6_000),
        index_slots: Some(100),
        index_entries: Some(400),
        min_free_bytes: Some(0),
        delay_levels: "1s 2s".into(),
        ..Settings::default()
    }
}

fn open(root: &Path, settings: Settings) -> Arc<Store> {
    Store::open(root, settings, SystemClock::shared(), true).unwrap()
}

fn request<'a>(topic: &'a str, body: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        properties: b"KEYS\x01k1\x02TAGS\x01TagA",
        ..common::request(topic, body)
    }
}

/// A channel with the offsets that queues of `topic` reach.
fn arrivals(store: &Store, topic: &'static str) -> mpsc::Receiver<i64> {
    let (sender, receiver) = mpsc::channel();
    let sender = parking_lot::Mutex::new(sender);
    store
        .on_arrival(Box::new(move |arrivals| {
            for arrival in arrivals.iter().filter(|arrival| arrival.topic == topic) {
                // The test may have stopped listening.
                let _ = sender.lock().send(arrival.max_offset);
            }
        }))
        .unwrap();
    receiver
}

fn bodies(store: &Store, topic: &str) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let request = GetRequest {
        topic,
        queue_id: 0,
        offset: 0,
        max_count: 32,
        filter: &MessageFilter::All,
        mode: ReadMode::Wait,
    };
    let result = store.get(&request, &mut out).unwrap();
    let mut found = Vec::new();
    let mut rest = &out[..];
    while !rest.is_empty() {
        let record = RecordView::parse(rest, CheckCrc::Yes).unwrap();
        found.push(record.body.to_vec());
        rest = &rest[record.size()..];
    }
    assert_eq!(result.status == GetStatus::Found, !found.is_empty());
    found
}

#[test]
fn messages_are_read_before_and_after_a_clean_restart() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), settings());
    let arrived = arrivals(&store, "T");
    for number in 0..10_u8 {
        let result = store.wait(store.put(&request("T", &[number; 100])));
        assert_eq!(
            (result.status, result.queue_offset),
            (PutStatus::Ok, number.into())
        );
        assert_eq!(
            arrived.recv_timeout(PATIENCE).unwrap(),
            i64::from(number) + 1
        );
    }
    assert_eq!(bodies(&store, "T").len(), 10);
    store.commit("g", "T", 0, 7, usize::MAX);
    assert!(root.path().join("abort").exists());
    store.close().unwrap();
    store.close().unwrap();
    assert!(!root.path().join("abort").exists());
    let refused = store.wait(store.put(&request("T", b"late")));
    assert_eq!(refused.status, PutStatus::ServiceNotAvailable);

    // The sizes of an existing store are optional.
    let store = open(
        root.path(),
        Settings {
            min_free_bytes: Some(0),
            ..Settings::default()
        },
    );
    assert_eq!(
        bodies(&store, "T"),
        (0..10).map(|body| vec![body; 100]).collect::<Vec<_>>()
    );
    assert_eq!(store.committed("g", "T", 0), Some(7));
    let result = store.wait(store.put(&request("T", b"ten")));
    assert_eq!(result.queue_offset, 10);
    assert_eq!(store.runtime()["putMessageTimesTotal"], "1");
}

#[test]
fn delayed_messages_are_due_before_and_after_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), settings());
    let arrived = arrivals(&store, "T");
    let put = |store: &Store, level| {
        let delayed = PutRequest {
            delay_level: level,
            ..request("T", b"later")
        };
        let result = store.wait(store.put(&delayed));
        assert_eq!(result.status, PutStatus::Ok);
    };
    let put_at = Instant::now();
    put(&store, 1);
    assert_eq!(arrived.recv_timeout(PATIENCE).unwrap(), 1);
    let taken = put_at.elapsed(); // times of messages are whole milliseconds
    assert!(taken >= Duration::from_millis(999), "{taken:?}");

    put(&store, 2);
    store.close().unwrap();
    drop(store);
    let saved = std::fs::read_to_string(root.path().join("config/delayOffset.json")).unwrap();
    assert_eq!(saved, "{\n\t\"offsetTable\":{1:1,2:0\n\t}\n}");
    let store = open(root.path(), settings());
    let arrived = arrivals(&store, "T");
    assert_eq!(arrived.recv_timeout(PATIENCE).unwrap(), 2);
    assert_eq!(bodies(&store, "T"), [b"later", b"later"]);
    store.close().unwrap();
    assert_eq!(store.runtime()["scheduleMessageOffset_2"], "1,1");
}

#[test]
fn group_commit_answers_parked_puts() {
    let root = tempfile::tempdir().unwrap();
    let store = open(
        root.path(),
        Settings {
            sync_flush: true,
            ..settings()
        },
    );
    let (sender, outcomes) = mpsc::channel();
    let again = sender.clone();
    let listener = move |settled: &[Settled]| {
        let each = settled.iter();
        each.for_each(|settled| sender.send(*settled).unwrap());
    };
    store.on_settled(Box::new(listener)).unwrap();
    for token in 0..20 {
        let Put::Parked(_, ticket) = store.put(&request("T", b"x")) else {
            panic!("a put with SYNC_FLUSH waits");
        };
        if let Some(outcome) = store.park(ticket, token) {
            again.send(Settled { token, outcome }).unwrap();
        }
    }
    let settled = (0..20).map(|_| outcomes.recv_timeout(PATIENCE).unwrap());
    let mut tokens: Vec<_> = settled
        .inspect(|settled| assert_eq!(settled.outcome, AckOutcome::Durable))
        .map(|settled| settled.token)
        .collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..20).collect::<Vec<_>>(), "each once");
    let unwaited = PutRequest {
        wait_store_ok: false,
        ..request("T", b"x")
    };
    assert!(matches!(store.put(&unwaited), Put::Done(_)));
    assert_eq!(
        store.wait(store.put(&request("T", b"x"))).status,
        PutStatus::Ok
    );
}

#[test]
fn an_open_error_names_its_cause() {
    let root = tempfile::tempdir().unwrap();
    let fail = |path: &Path, settings: Settings, create| {
        Store::open(path, settings, SystemClock::shared(), create)
            .err()
            .unwrap()
    };
    let missing = fail(&root.path().join("none"), settings(), false);
    assert!(matches!(missing, StoreError::Io { .. }), "{missing}");
    let empty = fail(root.path(), settings(), false);
    assert!(matches!(empty, StoreError::UnknownLayout { .. }), "{empty}");
    let store = open(root.path(), settings());
    assert!(matches!(
        fail(root.path(), settings(), true),
        StoreError::Locked { .. }
    ));
    store.wait(store.put(&request("T", b"x")));
    store.close().unwrap();
    let other = Settings {
        commit_log_file_bytes: Some(2 << 20),
        ..settings()
    };
    let text = fail(root.path(), other, true).to_string();
    assert!(
        text.contains("have 1048576 bytes, mappedFileSizeCommitLog is 2097152"),
        "{text}"
    );
    let levels = Settings {
        delay_levels: "1x".into(),
        ..settings()
    };
    assert!(matches!(
        fail(root.path(), levels, true),
        StoreError::Setting { .. }
    ));
}
