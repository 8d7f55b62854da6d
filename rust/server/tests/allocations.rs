//! Counts the memory allocations of ordinary sends and pulls. It counts the whole process, so it is
//! the only test in its binary. If an assertion fails, decide whether the new allocation is worth
//! its time. Lower a limit whenever possible.

#![allow(clippy::unwrap_used)]

mod counted;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use counted::{await_count, broker_of, connect, frame, made, pull, small};
use mq_server::{Core, Server};
use mq_store as store;

/// Requests written at once.
const WINDOW: usize = 64;
const WARM_UP: usize = 20;
const WINDOWS: usize = 100;
/// Requests written one after another, each after the reply to the one before.
const ALONE: usize = 1_000;
/// Messages of a pull.
const PULLED: usize = 32;
/// Messages of a batch.
const BATCH: usize = 16;

// Allocations for a thousand requests. The allocations of a request itself are the same each time;
// files and buffers add up to 30 per thousand.
/// A JSON header takes one allocation for its list of fields, and one for a text with escapes.
const JSON_LIST: i64 = 1_000;
const JSON_LIST_AND_TEXT: i64 = 2_000;
/// No further allocations for the request itself.
const SENDS_MAX: i64 = 50;
/// Two for each batch: the positions of its messages, and their ids.
const BATCHES_MAX: i64 = 2_200;
/// Measured: 11,190 pulls of 32 messages each, one allocation for three messages.
const PULLS_MAX: i64 = 11_400;

// The same with SYNC_FLUSH, where replies wait in memory.
/// Six of eight belong to the flush.
const ALONE_SENDS_MAX: i64 = 8_200;
/// One more with the binary header.
const ALONE_BATCHES_MAX: [i64; 2] = [11_200, 12_200];
/// The disk decides how many replies share a flush. Measured: 2,700, and 3,100 with a disk that
/// takes no time. The tests with single requests show the allocations of a request itself.
const SHARED_SENDS_MAX: i64 = 5_000;
/// Measured: 6,700, and 7,700 with a disk that takes no time.
const SHARED_BATCHES_MAX: i64 = 10_000;

/// Reads replies into a buffer that is reused.
struct Client {
    connection: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    fn new(port: u16) -> Self {
        Self {
            connection: connect(port),
            buffer: vec![0; 1 << 20],
        }
    }

    /// Writes the requests and reads the same number of replies.
    fn exchange(&mut self, requests: &[u8], count: usize) {
        self.connection.write_all(requests).unwrap();
        for _ in 0..count {
            let mut length = [0; 4];
            self.connection.read_exact(&mut length).unwrap();
            let body = &mut self.buffer[..u32::from_be_bytes(length) as usize];
            self.connection.read_exact(body).unwrap();
            assert!(is_success(body), "{}", body.escape_ascii());
        }
    }

    /// Number of allocations for a thousand requests, after a warm-up.
    fn blocks(&mut self, what: &str, requests: &[u8]) -> i64 {
        (0..WARM_UP).for_each(|_| self.exchange(requests, WINDOW));
        let before = made();
        (0..WINDOWS).for_each(|_| self.exchange(requests, WINDOW));
        of_a_thousand(what, WINDOWS * WINDOW, made() - before)
    }

    /// The same, with each request sent after the reply to the one before.
    fn blocks_alone(&mut self, what: &str, request: &[u8]) -> i64 {
        (0..WARM_UP).for_each(|_| self.exchange(request, 1));
        let before = made();
        (0..ALONE).for_each(|_| self.exchange(request, 1));
        of_a_thousand(what, ALONE, made() - before)
    }
}

fn of_a_thousand(what: &str, requests: usize, blocks: i64) -> i64 {
    println!("{blocks} blocks for {requests} {what}");
    blocks * 1_000 / i64::try_from(requests).unwrap()
}

fn assert_few(blocks: i64, limit: i64, what: &str) {
    assert!(
        blocks <= limit,
        "{blocks} blocks for a thousand {what}, the limit is {limit}"
    );
}

/// `reply` has no length field; the header starts after the field with its own length.
fn is_success(reply: &[u8]) -> bool {
    const BINARY: u8 = 1;
    match reply[0] {
        BINARY => reply[4..6] == [0, 0],
        _ => contains(&reply[4..60.min(reply.len())], b"\"code\":0"),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Properties as Java's clients set them.
const PROPERTIES: &str = "UNIQ_KEY\u{1}7F0000010A2B18B4AAC2000000000001\u{2}WAIT\u{1}true\u{2}";

/// The fields of a send as Java's clients write them.
fn fields(is_batch: bool) -> [(&'static str, &'static str); 12] {
    let (properties, batch) = match is_batch {
        true => ("WAIT\u{1}true\u{2}", "true"),
        false => (PROPERTIES, "false"),
    };
    [
        ("a", "TheProducers"),
        ("b", "TheTopic"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("i", properties),
        ("j", "0"),
        ("k", "false"),
        ("m", batch),
    ]
}

/// A request with the header format ROCKETMQ.
fn binary(code: i16, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    const JAVA: u8 = 0;
    const VERSION: i16 = 401;
    let mut ext = Vec::new();
    for (name, value) in fields {
        ext.extend(i16::try_from(name.len()).unwrap().to_be_bytes());
        ext.extend(name.as_bytes());
        ext.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
        ext.extend(value.as_bytes());
    }
    let mut head = [&code.to_be_bytes()[..], &[JAVA], &VERSION.to_be_bytes()].concat();
    // Opaque, flag, no remark.
    for number in [7, 0, 0, i32::try_from(ext.len()).unwrap()] {
        head.extend(number.to_be_bytes());
    }
    head.extend(ext);
    let length = u32::try_from(head.len()).unwrap();
    let whole = length + 4 + u32::try_from(body.len()).unwrap();
    [
        &whole.to_be_bytes()[..],
        &(1 << 24 | length).to_be_bytes(),
        &head,
        body,
    ]
    .concat()
}

/// The messages of a batch, one after another.
fn batch() -> Vec<u8> {
    let body = [b'x'; 128];
    let rest = 20 + body.len() + 2 + PROPERTIES.len();
    let number = |number: usize| i32::try_from(number).unwrap().to_be_bytes();
    let message = [
        &number(rest)[..],
        &[0; 12], // magic, checksum and flag
        &number(body.len()),
        &body,
        &i16::try_from(PROPERTIES.len()).unwrap().to_be_bytes(),
        PROPERTIES.as_bytes(),
    ]
    .concat();
    message.repeat(BATCH)
}

/// The fields of a pull, like `counted::pull`, which writes JSON.
fn binary_pull(offset: usize) -> Vec<u8> {
    let fields = [
        ("consumerGroup", "TheGroup"),
        ("topic", "TheTopic"),
        ("queueId", "0"),
        ("queueOffset", &offset.to_string()),
        ("maxMsgNums", "32"),
        ("sysFlag", "6"),
        ("commitOffset", "0"),
        ("subVersion", "0"),
        ("suspendTimeoutMillis", "1000"),
        ("subscription", "*"),
    ];
    binary(11, &fields, b"")
}

fn stored(core: &Arc<Core>) -> usize {
    let store = core.state.store.as_ref().unwrap();
    usize::try_from(store.max_offset("TheTopic", 0)).unwrap()
}

/// A broker whose first log file is there and has room for all messages. A send that has to wait
/// for its room is declined, and here nobody answers what is declined: so each makes its own.
fn roomy_broker(root: &Path, settings: store::Settings) -> (Arc<Core>, Server) {
    const ROOM: u64 = 256 << 20;
    let settings = store::Settings {
        commit_log_file_bytes: Some(ROOM),
        allocate_step_bytes: ROOM,
        ..settings
    };
    let (core, server) = broker_of(root, 1, settings);
    let store = core.state.store.as_ref().unwrap();
    store::testing::without_allocation(store);
    let put = store.wait(store.put(&store::testing::request("Other", b"first")));
    assert_eq!(put.status, store::PutStatus::Ok);
    (core, server)
}

/// A broker that replies to a send after the flush.
fn syncing_broker(root: &Path) -> (Arc<Core>, Server) {
    let settings = store::Settings {
        sync_flush: true,
        sync_flush_timeout_ms: 60_000,
        ..small()
    };
    roomy_broker(root, settings)
}

/// A send with either header, and its name.
fn sends() -> [(&'static str, Vec<u8>); 2] {
    let body = [b'x'; 128];
    [
        ("sends, JSON", frame(310, &fields(false), &body)),
        ("sends, binary", binary(310, &fields(false), &body)),
    ]
}

fn batches() -> [(&'static str, Vec<u8>); 2] {
    [
        ("batches, JSON", frame(320, &fields(true), &batch())),
        ("batches, binary", binary(320, &fields(true), &batch())),
    ]
}

/// For a broker that replies at once.
fn what_is_written(client: &mut Client, core: &Arc<Core>) {
    for (requests, limit) in [(sends(), SENDS_MAX), (batches(), BATCHES_MAX)] {
        let limits = [limit + JSON_LIST_AND_TEXT, limit];
        for ((what, request), limit) in requests.into_iter().zip(limits) {
            let blocks = client.blocks(what, &request.repeat(WINDOW));
            assert_few(blocks, limit, what);
        }
    }
    let requests = (WARM_UP + WINDOWS) * WINDOW;
    let messages = 2 * requests * (1 + BATCH);
    await_count("messages in their queue", messages, || stored(core));
    let offsets = || (0..WINDOW).map(|turn| turn * PULLED);
    let json: Vec<u8> = offsets().flat_map(|at| pull(0, at, 1_000)).collect();
    let binary: Vec<u8> = offsets().flat_map(binary_pull).collect();
    for (what, requests, limit) in [
        ("pulls, JSON", json, PULLS_MAX + JSON_LIST),
        ("pulls, binary", binary, PULLS_MAX),
    ] {
        assert_few(client.blocks(what, &requests), limit, what);
    }
}

/// For a broker that replies after the flush.
fn what_is_flushed(client: &mut Client) {
    let of_sends = ([ALONE_SENDS_MAX; 2], SHARED_SENDS_MAX);
    let of_batches = (ALONE_BATCHES_MAX, SHARED_BATCHES_MAX);
    for (requests, (alone, shared)) in [(sends(), of_sends), (batches(), of_batches)] {
        let headers = [JSON_LIST_AND_TEXT, 0];
        for (((what, request), alone), header) in requests.into_iter().zip(alone).zip(headers) {
            assert_few(client.blocks_alone(what, &request), alone + header, what);
            let blocks = client.blocks(what, &request.repeat(WINDOW));
            assert_few(blocks, shared + header, what);
        }
    }
}

/// One test, so that nothing else runs in the process.
#[test]
fn sends_and_pulls_take_few_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let (core, server) = roomy_broker(&folder.path().join("written"), small());
    what_is_written(&mut Client::new(server.port), &core);
    server.stop(Duration::from_secs(5));

    let (_core, server) = syncing_broker(&folder.path().join("flushed"));
    what_is_flushed(&mut Client::new(server.port));
    server.stop(Duration::from_secs(5));
}
