//! A broker in this process, and an allocator that counts the memory of the whole process. A test
//! that counts must be the only one in its binary.

#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use mq_base::clock::SystemClock;
use mq_server::{Admission, BrokerRow, Core, GroupRow, Server, Settings, TopicRow};
use mq_store as store;

pub const DEADLINE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
const LOG_FILE_BYTES: u64 = 16 * MIB;

static BYTES: AtomicI64 = AtomicI64::new(0);
static BLOCKS: AtomicI64 = AtomicI64::new(0);
static MADE: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, and the memory in use. It counts as glibc does: 8 bytes before each
/// block, steps of 16, at least 32.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(layout: Layout, times: i64) {
    let taken = (layout.size() + 8).next_multiple_of(16).max(32);
    BYTES.fetch_add(times * i64::try_from(taken).unwrap_or(0), Ordering::Relaxed);
    BLOCKS.fetch_add(times, Ordering::Relaxed);
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        MADE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Bytes and blocks in use.
pub fn in_use() -> (i64, i64) {
    (
        BYTES.load(Ordering::Relaxed),
        BLOCKS.load(Ordering::Relaxed),
    )
}

/// Number of allocations so far, including freed ones; a block that grows counts as a new one.
pub fn made() -> i64 {
    MADE.load(Ordering::Relaxed)
}

/// Encodes a request as Java's clients do.
pub fn frame(code: i32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
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
    let whole = length + 4 + u32::try_from(body.len()).unwrap();
    let words = [whole, length].map(u32::to_be_bytes).concat();
    [&words, head.as_bytes(), body].concat()
}

/// A pull with its own tag filter, which may become a long poll.
pub fn pull(queue: usize, offset: usize, suspend_ms: u32) -> Vec<u8> {
    let fields = [
        ("consumerGroup", "TheGroup"),
        ("topic", "TheTopic"),
        ("queueId", &queue.to_string()),
        ("queueOffset", &offset.to_string()),
        ("maxMsgNums", "32"),
        ("sysFlag", "6"),
        ("commitOffset", "0"),
        ("subVersion", "0"),
        ("suspendTimeoutMillis", &suspend_ms.to_string()),
        ("subscription", "*"),
    ];
    frame(11, &fields, b"")
}

/// Sends a request that is answered at once and after all earlier ones, and waits for the reply.
pub fn ask_end(connection: &mut TcpStream) {
    connection
        .write_all(&frame(30, &[("topic", "TheTopic"), ("queueId", "0")], b""))
        .unwrap();
    let mut length = [0; 4];
    connection.read_exact(&mut length).unwrap();
    let mut reply = vec![0; u32::from_be_bytes(length) as usize];
    connection.read_exact(&mut reply).unwrap();
}

/// Settings of a store with small files.
pub fn small() -> store::Settings {
    store::Settings {
        commit_log_file_bytes: Some(LOG_FILE_BYTES),
        allocate_step_bytes: MIB,
        min_free_bytes: Some(0),
        ..store::Settings::default()
    }
}

/// A broker with this many queues of "TheTopic", and "TheGroup".
pub fn broker(root: &Path, queues: usize) -> (Arc<Core>, Server) {
    broker_of(root, queues, small())
}

/// The same, with these settings of the store.
pub fn broker_of(root: &Path, queues: usize, settings: store::Settings) -> (Arc<Core>, Server) {
    let store = store::Store::open(root, settings, SystemClock::shared(), true).unwrap();
    let settings = Settings {
        host: "127.0.0.1".into(),
        port: 0,
        worker_threads: Some(1), // each worker has buffers, allocated with its first connection
        ..Settings::default()
    };
    let core = Core::new(settings, Some(store), SystemClock::shared()).unwrap();
    let tables = &core.state.tables;
    tables.broker.publish(1, BrokerRow::default()).unwrap();
    let queues = i32::try_from(queues).unwrap();
    let topic = TopicRow::new("TheTopic", 6, (queues, queues), false, false);
    let topics = vec![("TheTopic".to_owned(), Some(topic))];
    tables.topics.publish(1, topics, true).unwrap();
    let groups = vec![("TheGroup".to_owned(), Some(GroupRow::default()))];
    tables.groups.publish(1, groups, true).unwrap();
    let admission = Arc::new(Admission::new(&core.settings));
    let server = Server::start(Arc::clone(&core), admission).unwrap();
    (core, server)
}

pub fn connect(port: u16) -> TcpStream {
    let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_read_timeout(Some(DEADLINE)).unwrap();
    connection
}

pub fn await_count(what: &str, expected: usize, count: impl Fn() -> usize) {
    let until = Instant::now() + DEADLINE;
    while count() != expected {
        assert!(Instant::now() < until, "{} of {expected} {what}", count());
        std::thread::sleep(Duration::from_millis(2));
    }
}
