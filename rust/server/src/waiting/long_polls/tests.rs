//! How a group of messages wakes the long polls that wait for them.

use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use super::*;
use crate::clients::peers::Peer;
use crate::core::Core;
use crate::dispatch::arrival;
use crate::dispatch::routing::{self, PULLS_AT_ONCE};
use crate::limits::{HOLD_FILTER_BYTES_FREE, HOLD_FILTER_BYTES_MAX, HOLD_MS_MAX, UNREAD_BYTES_MAX};
use crate::requests::context::Whole;
use crate::settings::Settings;
use crate::tables::GroupRow;
use crate::tables::TopicRow;
use crate::tables::broker_row::BrokerRow;
use mq_base::clock::SystemClock;
use mq_format::remoting::Frame;
use mq_net::connection::Connection;
use mq_store::testing::request;
use mq_store::{Put, PutRequest, Settings as StoreSettings, Store};

const DEADLINE: Duration = Duration::from_secs(60);
const QUEUES: i32 = 8;
/// Long polls of each queue.
const PULLS: i32 = 3;
/// Messages of each queue.
const MESSAGES: i32 = 10;

struct Fixture {
    core: Arc<Core>,
    store: Arc<Store>,
    peer: Arc<Peer>,
    far: TcpStream,
    /// Number of calls of the store's listener.
    calls: Arc<AtomicUsize>,
    _root: tempfile::TempDir,
}

impl Fixture {
    /// A broker with one topic. Its store makes messages readable when it is flushed.
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let settings = StoreSettings {
            commit_log_file_bytes: Some(1 << 20),
            min_free_bytes: Some(0),
            sync_flush: true,
            sync_flush_timeout_ms: i64::MAX / 4,
            ..StoreSettings::default()
        };
        let store = Store::open(root.path(), settings, SystemClock::shared(), true).unwrap();
        let shared = Some(Arc::clone(&store));
        let core = Core::new(Settings::default(), shared, SystemClock::shared()).unwrap();
        publish(&core);
        core.waiting.run_on(Handle::current());
        let calls = Arc::<AtomicUsize>::default();
        let (listening, counted) = (Arc::downgrade(&core), Arc::clone(&calls));
        store
            .on_arrival(Box::new(move |arrivals| {
                counted.fetch_add(1, Ordering::SeqCst);
                let core = listening.upgrade().unwrap();
                routing::wake(&core, core.waiting.long_polls.arrived(arrivals));
            }))
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let outbound_bytes = Arc::clone(&core.clients.peers.outbound_bytes);
        let connection =
            Connection::with_shared_count(near.unwrap(), UNREAD_BYTES_MAX, outbound_bytes);
        let peer = Arc::new(Peer::new(1, address, false, connection.unwrap().0, 0));
        Self {
            core,
            store,
            peer,
            far: far.unwrap().0,
            calls,
            _root: root,
        }
    }

    fn hold(&self, queue_id: i32) {
        self.hold_with(queue_id, "*");
    }

    fn hold_with(&self, queue_id: i32, subscription: &str) {
        let text = format!(
            r#"{{"code":11,"flag":0,"language":"JAVA","opaque":{queue_id},"version":401,
            "extFields":{{"consumerGroup":"G","topic":"T","queueId":"{queue_id}","queueOffset":"0",
            "maxMsgNums":"32","sysFlag":"6","commitOffset":"0","subVersion":"0",
            "suspendTimeoutMillis":"600000","subscription":"{subscription}"}}}}"#
        );
        let length = u32::try_from(text.len()).unwrap();
        let words = [length + 4, length].map(u32::to_be_bytes).concat();
        let frame = [&words, text.as_bytes()].concat();
        let mut out = Vec::new();
        arrival::frame(&self.core, &self.peer, Whole::among(&frame), &mut out).unwrap();
        assert!(out.is_empty(), "{}", out.escape_ascii());
    }

    /// Puts the same number of messages to each queue; they are readable only after a flush.
    fn put_all(&self) -> Put {
        let numbers = (0..MESSAGES).flat_map(|_| 0..QUEUES);
        let puts = numbers.map(|queue_id| {
            self.store.put(&PutRequest {
                queue_id,
                ..request("T", b"x")
            })
        });
        puts.last().unwrap()
    }

    /// Reads `count` replies; returns the queue of each and its number of messages.
    async fn answers(&mut self, count: usize) -> Vec<(i32, usize)> {
        let mut answers = Vec::new();
        while answers.len() < count {
            while self.peer.outbound_bytes() > 0 {
                self.peer.write_some().await;
            }
            let length = self.far.read_u32().await.unwrap();
            let mut frame = length.to_be_bytes().to_vec();
            frame.resize(length as usize + 4, 0);
            self.far.read_exact(&mut frame[4..]).await.unwrap();
            let frame = Frame::decode(&frame).unwrap();
            assert_eq!(frame.code, 0);
            let mut records = frame.body;
            let mut messages = 0;
            while let Some(size) = records.first_chunk::<4>() {
                records = &records[u32::from_be_bytes(*size) as usize..];
                messages += 1;
            }
            answers.push((frame.opaque, messages));
        }
        answers
    }
}

fn publish(core: &Core) {
    let tables = &core.state.tables;
    tables.broker.publish(1, BrokerRow::default()).unwrap();
    let topic = TopicRow::new("T", 6, (QUEUES, QUEUES), false, false);
    let topics = vec![("T".to_owned(), Some(topic))];
    tables.topics.publish(1, topics, true).unwrap();
    let groups = vec![("G".to_owned(), Some(GroupRow::default()))];
    tables.groups.publish(1, groups, true).unwrap();
}

#[tokio::test]
async fn one_client_leaves_room_for_others() {
    let fixture = Fixture::new().await;
    (0..HOLDS_OF_CLIENT_MAX).for_each(|_| fixture.hold(0));
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    fixture.hold(1);
    assert_eq!(fixture.core.waiting.long_polls.len(), HOLDS_OF_CLIENT_MAX);
    assert_eq!(tasks() - before, 1, "one more is answered at once");
    let core = &fixture.core;
    routing::wake(
        core,
        core.waiting
            .long_polls
            .take_queue(hash_of("T", 0), |_| true),
    );
    assert_eq!(fixture.peer.held_count(), 0);
    fixture.hold(1);
    assert_eq!(core.waiting.long_polls.len(), 1, "it has room again");
}

#[tokio::test]
async fn only_long_filters_of_long_polls_are_limited() {
    let fixture = Fixture::new().await;
    let core = &fixture.core;
    let tags = |count: usize| vec!["t"; count].join("||");
    fixture.hold_with(0, &tags(HOLD_FILTER_BYTES_FREE / 4));
    assert_eq!(
        core.waiting.long_polls.filter_bytes.load(Ordering::Relaxed),
        0
    );
    let long = tags(16 << 10);
    let fitting = HOLD_FILTER_BYTES_MAX / (4 * (16 << 10));
    (0..=fitting).for_each(|_| fixture.hold_with(0, &long));
    assert_eq!(
        core.waiting.long_polls.len(),
        1 + fitting,
        "the last is answered at once"
    );
    fixture.hold_with(0, "t");
    assert_eq!(core.waiting.long_polls.len(), 2 + fitting);
    routing::wake(
        core,
        core.waiting
            .long_polls
            .take_queue(hash_of("T", 0), |_| true),
    );
    assert_eq!(
        core.waiting.long_polls.filter_bytes.load(Ordering::Relaxed),
        0
    );
}

#[tokio::test]
async fn no_long_poll_lasts_longer_than_the_limit() {
    let fixture = Fixture::new().await;
    fixture.hold(0); // its timeout is ten minutes
    let (core, now_ms) = (&fixture.core, fixture.core.clock.monotonic_ms());
    routing::wake(
        core,
        core.waiting
            .long_polls
            .expired(now_ms + HOLD_MS_MAX - 10_000),
    );
    assert_eq!(core.waiting.long_polls.len(), 1);
    routing::wake(
        core,
        core.waiting
            .long_polls
            .expired(now_ms + HOLD_MS_MAX + TICK_MS),
    );
    assert!(core.waiting.long_polls.is_empty());
    let shards = core.waiting.long_polls.shards.iter().map(Mutex::lock);
    assert_eq!(shards.map(|shard| shard.wheel.len()).sum::<usize>(), 0);
}

#[tokio::test]
async fn the_server_sleeps_until_the_first_deadline() {
    let fixture = Fixture::new().await;
    let polls = &fixture.core.waiting.long_polls;
    let now_ms = fixture.core.clock.monotonic_ms();
    polls.expired(now_ms);
    assert_eq!(polls.deadline.at_ms(), i64::MAX, "there is no long poll");
    fixture.hold(0);
    let deadline_ms = polls.deadline.at_ms();
    assert!(deadline_ms >= now_ms + HOLD_MS_MAX, "{deadline_ms}");
    fixture.hold(1);
    assert_eq!(polls.expired(deadline_ms - 1).len(), 0);
    assert_eq!(polls.deadline.at_ms(), deadline_ms, "it is kept");
    polls.deadline.sleep(now_ms, DEADLINE).await; // the polls woke the task once
    polls.expired(now_ms);
    let sleep = polls.deadline.sleep(now_ms, DEADLINE);
    let slept = tokio::time::timeout(Duration::ZERO, sleep).await;
    assert!(slept.is_err(), "the task does not wake itself");
    let late = polls.expired(deadline_ms + TICK_MS);
    assert_eq!((late.len(), polls.deadline.at_ms()), (2, i64::MAX));
    routing::wake(&fixture.core, late);
}

/// Spawned tasks run only when the test waits, so they can be counted before.
#[tokio::test]
async fn a_group_of_messages_wakes_its_long_polls_at_once() {
    let mut fixture = Fixture::new().await;
    let holds = PULLS * QUEUES;
    (0..holds).for_each(|number| fixture.hold(number % QUEUES));
    let holds = usize::try_from(holds).unwrap();
    assert!(holds <= PULLS_AT_ONCE);
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();

    let last = fixture.put_all();
    assert_eq!(
        fixture.core.waiting.long_polls.len(),
        holds,
        "nothing is readable yet"
    );
    fixture.store.wait(last);
    let until = Instant::now() + DEADLINE;
    while !fixture.core.waiting.long_polls.is_empty() || tasks() == before {
        assert!(
            Instant::now() < until,
            "{} wait",
            fixture.core.waiting.long_polls.len()
        );
        std::thread::yield_now();
    }
    assert_eq!(
        fixture.calls.load(Ordering::SeqCst),
        1,
        "one call of the listener"
    );
    assert_eq!(tasks() - before, 1, "one task for the pulls of all queues");

    tokio::task::yield_now().await;
    let mut answers = fixture.answers(holds).await;
    answers.sort_unstable();
    let messages = usize::try_from(MESSAGES).unwrap();
    let expected = (0..QUEUES).flat_map(|queue_id| (0..PULLS).map(move |_| (queue_id, messages)));
    assert_eq!(
        answers,
        expected.collect::<Vec<_>>(),
        "one reply per queue, with all messages"
    );
    assert_eq!((tasks(), fixture.peer.outbound_bytes()), (before, 0));
}
