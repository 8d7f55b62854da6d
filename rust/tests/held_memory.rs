//! What an idle connection and a held pull take of memory, counted by the allocator. Alone in its
//! binary, because it counts the whole process.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use mqstack_core::clock::SystemClock;
use mqstack_core::server::{BrokerRow, Core, GroupRow, Server, Settings, TopicRow};
use mqstack_core::store;

const DEADLINE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
const CONNECTIONS: usize = 400;
const QUEUES: usize = 2_000;
/// Of different connections.
const HOLDS_OF_A_QUEUE: usize = 2;
const HOLDS: usize = QUEUES * HOLDS_OF_A_QUEUE;
/// 1,849 were measured.
const CONNECTION_BYTES_MAX: i64 = 2_000;
/// 165 were measured.
const HOLD_BYTES_MAX: i64 = 200;

static BYTES: AtomicI64 = AtomicI64::new(0);
static BLOCKS: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, and how much of it is in use. As glibc: 8 bytes before each block, in
/// steps of 16, 32 at least.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(layout: Layout, times: i64) {
    let taken = (layout.size() + 8).next_multiple_of(16).max(32);
    BYTES.fetch_add(times * i64::try_from(taken).unwrap_or(0), Ordering::Relaxed);
    BLOCKS.fetch_add(times, Ordering::Relaxed);
}

// SAFETY: it does what the system's allocator does.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Bytes and blocks in use.
fn in_use() -> (i64, i64) {
    (
        BYTES.load(Ordering::Relaxed),
        BLOCKS.load(Ordering::Relaxed),
    )
}

fn frame(code: i32, fields: &[(&str, &str)]) -> Vec<u8> {
    let fields: serde_json::Map<_, _> = fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    let head = serde_json::json!({
        "code": code, "flag": 0, "language": "JAVA", "opaque": 7, "version": 401,
        "extFields": fields,
    });
    let head = head.to_string();
    let length = u32::try_from(head.len()).unwrap();
    let words = [length + 4, length].map(u32::to_be_bytes).concat();
    [&words, head.as_bytes()].concat()
}

/// Each queue's pull, for a message that is not there, by tags that came with it.
fn pulls(queues: impl Iterator<Item = usize>) -> Vec<u8> {
    let pull = |queue: usize| {
        let fields = [
            ("consumerGroup", "TheGroup"),
            ("topic", "TheTopic"),
            ("queueId", &queue.to_string()),
            ("queueOffset", "0"),
            ("maxMsgNums", "32"),
            ("sysFlag", "6"),
            ("commitOffset", "0"),
            ("subVersion", "0"),
            ("suspendTimeoutMillis", "600000"),
            ("subscription", "*"),
        ];
        frame(11, &fields)
    };
    queues.flat_map(pull).collect()
}

/// A request that is answered at once, after all before it on its connection.
fn ask_end(connection: &mut TcpStream) {
    connection
        .write_all(&frame(30, &[("topic", "TheTopic"), ("queueId", "0")]))
        .unwrap();
    let mut length = [0; 4];
    connection.read_exact(&mut length).unwrap();
    let mut reply = vec![0; u32::from_be_bytes(length) as usize];
    connection.read_exact(&mut reply).unwrap();
}

fn broker_row() -> BrokerRow {
    BrokerRow {
        permission: 6,
        region_id: "DefaultRegion".into(),
        trace_on: true,
        cluster_name: "DefaultCluster".into(),
        broker_name: "broker-a".into(),
        long_polling: true,
        short_polling_ms: 1_000,
        max_message_bytes: 4_194_304,
        start_accept_ms: 0,
        reject_transaction: false,
        slave_read: false,
        property_filter: false,
        filter_retry: false,
        store_host: "127.0.0.1:10911".parse().unwrap(),
        accepting: true,
        stored: OnceLock::default(),
    }
}

/// A broker with one topic of many queues.
fn broker(root: &std::path::Path) -> (Arc<Core>, Server) {
    let settings = store::Settings {
        commit_log_file_bytes: Some(16 * MIB),
        allocate_step_bytes: MIB,
        min_free_bytes: Some(0),
        ..store::Settings::default()
    };
    let store = store::Store::open(root, settings, SystemClock::shared(), true).unwrap();
    let settings = Settings {
        host: "127.0.0.1".into(),
        port: 0,
        worker_threads: Some(1), // each has buffers, made with the first connection it serves
        ..Settings::default()
    };
    let core = Core::new(settings, Some(store), SystemClock::shared()).unwrap();
    let tables = &core.tables;
    tables.broker.publish(1, broker_row()).unwrap();
    let queues = i32::try_from(QUEUES).unwrap();
    let topic = TopicRow::new("TheTopic", 6, (queues, queues), false, false);
    let topics = vec![("TheTopic".to_owned(), Some(topic))];
    tables.topics.publish(1, topics, true).unwrap();
    let group = GroupRow {
        consume_enable: true,
        broadcast_enable: true,
        broker_id: 0,
        slow_broker_id: 1,
    };
    let groups = vec![("TheGroup".to_owned(), Some(group))];
    tables.groups.publish(1, groups, true).unwrap();
    let server = Server::start(Arc::clone(&core)).unwrap();
    (core, server)
}

fn await_count(what: &str, expected: usize, count: impl Fn() -> usize) {
    let until = Instant::now() + DEADLINE;
    while count() != expected {
        assert!(Instant::now() < until, "{} of {expected} {what}", count());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn connect(port: u16) -> TcpStream {
    let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_read_timeout(Some(DEADLINE)).unwrap();
    connection
}

/// In one test, so that nothing else runs in the process.
#[test]
fn connections_and_holds_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let (core, server) = broker(folder.path());
    let mut others: Vec<_> = (0..8).map(|_| connect(server.port)).collect();
    others.iter_mut().for_each(ask_end); // the worker has its buffers

    let before = in_use();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| connect(server.port)).collect();
    connections.iter_mut().for_each(ask_end);
    let (bytes, blocks) = in_use();
    let many = i64::try_from(CONNECTIONS).unwrap();
    let (bytes, blocks) = ((bytes - before.0) / many, (blocks - before.1) / many);
    println!("a connection: {bytes} bytes in {blocks} blocks");
    assert!(bytes <= CONNECTION_BYTES_MAX, "{bytes} bytes a connection");

    let before = in_use();
    for connection in connections.iter_mut().take(HOLDS_OF_A_QUEUE) {
        connection.write_all(&pulls(0..QUEUES)).unwrap();
        ask_end(connection);
    }
    await_count("pulls held", HOLDS, || core.holds.len());
    let (bytes, blocks) = in_use();
    let many = i64::try_from(HOLDS).unwrap();
    let bytes = (bytes - before.0) / many;
    println!(
        "a held pull: {bytes} bytes, {} blocks for {many}",
        blocks - before.1
    );
    assert!(bytes <= HOLD_BYTES_MAX, "{bytes} bytes a held pull");
    // A block for each queue's holds, none for a hold's own names.
    assert!(
        blocks - before.1 < many * 3 / 4,
        "{} blocks",
        blocks - before.1
    );
    server.stop(Duration::from_secs(5));
}
