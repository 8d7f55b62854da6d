//! How many blocks of memory an ordinary send and an ordinary pull take, counted over the whole
//! process. Alone in its binary, because of that. An assertion that fails asks whether the new
//! block is worth its time; a limit that could be lower should be.

#![allow(clippy::unwrap_used)]

mod counted;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use counted::{await_count, broker, connect, frame, made, pull};
use mqstack_core::server::Core;

/// Requests written at once.
const WINDOW: usize = 64;
const WARM_UP: usize = 20;
const WINDOWS: usize = 100;
/// Messages of a pull.
const PULLED: usize = 32;
/// Of ten requests, with Java's JSON header: what files and buffers take once in a while.
const OF_TEN_SENDS_MAX: i64 = 1;
/// 111 were measured, of 32 messages each: less than one for two messages.
const OF_TEN_PULLS_MAX: i64 = 160;

/// Reads replies into a buffer that is there already.
struct Client {
    connection: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Writes the requests and reads as many replies.
    fn exchange(&mut self, requests: &[u8], count: usize) {
        self.connection.write_all(requests).unwrap();
        for _ in 0..count {
            let mut length = [0; 4];
            self.connection.read_exact(&mut length).unwrap();
            let body = &mut self.buffer[..u32::from_be_bytes(length) as usize];
            self.connection.read_exact(body).unwrap();
            // The header begins after its length; every reply here is a success.
            let head = &body[4..60.min(body.len())];
            assert!(contains(head, b"\"code\":0"), "{}", head.escape_ascii());
        }
    }

    /// Blocks taken for ten requests, when all that is made once has been made.
    fn blocks_of_ten(&mut self, requests: &[u8]) -> i64 {
        (0..WARM_UP).for_each(|_| self.exchange(requests, WINDOW));
        let before = made();
        (0..WINDOWS).for_each(|_| self.exchange(requests, WINDOW));
        let blocks = made() - before;
        println!("{blocks} blocks for {} requests", WINDOWS * WINDOW);
        blocks * 10 / i64::try_from(WINDOWS * WINDOW).unwrap()
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A message as Java's clients send it, with its properties.
fn send() -> Vec<u8> {
    let fields = [
        ("a", "TheProducers"),
        ("b", "TheTopic"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        (
            "i",
            "UNIQ_KEY\u{1}7F0000010A2B18B4AAC2000000000001\u{2}WAIT\u{1}true\u{2}",
        ),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
    ];
    frame(310, &fields, &[b'x'; 128])
}

fn stored(core: &Arc<Core>) -> usize {
    let store = core.store.as_ref().unwrap();
    usize::try_from(store.max_offset("TheTopic", 0)).unwrap()
}

/// In one test, so that nothing else runs in the process.
#[test]
fn a_send_and_a_pull_take_few_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let (core, server) = broker(folder.path(), 1);
    let mut client = Client {
        connection: connect(server.port),
        buffer: vec![0; 1 << 20],
    };
    let sends = send().repeat(WINDOW);
    let of_sends = client.blocks_of_ten(&sends);
    assert!(
        of_sends <= OF_TEN_SENDS_MAX,
        "{of_sends} blocks for ten sends"
    );

    let messages = (WARM_UP + WINDOWS) * WINDOW;
    await_count("messages in their queue", messages, || stored(&core));
    let pulls: Vec<u8> = (0..WINDOW)
        .flat_map(|turn| pull(0, turn * PULLED, 1_000))
        .collect();
    let of_pulls = client.blocks_of_ten(&pulls);
    assert!(
        of_pulls <= OF_TEN_PULLS_MAX,
        "{of_pulls} blocks for ten pulls"
    );
    server.stop(Duration::from_secs(5));
}
