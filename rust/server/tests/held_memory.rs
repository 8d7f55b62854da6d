//! Memory of an idle connection and of a long poll, counted by the allocator. The only test in its
//! binary, because it counts the whole process.

#![allow(clippy::unwrap_used)]

mod counted;

use std::io::Write;
use std::time::Duration;

use counted::{ask_end, await_count, broker, connect, in_use, pull};

const CONNECTIONS: usize = 400;
const QUEUES: usize = 2_000;
/// From different connections.
const HOLDS_OF_A_QUEUE: usize = 2;
const HOLDS: usize = QUEUES * HOLDS_OF_A_QUEUE;
/// Measured: 1,849.
const CONNECTION_BYTES_MAX: i64 = 2_000;
/// Longer than the test.
const HELD_MS: u32 = 600_000;
/// Measured: 165.
const HOLD_BYTES_MAX: i64 = 200;

/// One test, so that nothing else runs in the process.
#[test]
fn connections_and_holds_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let (core, server) = broker(folder.path(), QUEUES);
    let mut others: Vec<_> = (0..8).map(|_| connect(server.port)).collect();
    others.iter_mut().for_each(ask_end); // allocates the buffers of the worker

    let before = in_use();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| connect(server.port)).collect();
    connections.iter_mut().for_each(ask_end);
    let (bytes, blocks) = in_use();
    let many = i64::try_from(CONNECTIONS).unwrap();
    let (bytes, blocks) = ((bytes - before.0) / many, (blocks - before.1) / many);
    println!("a connection: {bytes} bytes in {blocks} blocks");
    assert!(bytes <= CONNECTION_BYTES_MAX, "{bytes} bytes a connection");

    let pulls: Vec<u8> = (0..QUEUES)
        .flat_map(|queue| pull(queue, 0, HELD_MS))
        .collect();
    let before = in_use();
    for connection in connections.iter_mut().take(HOLDS_OF_A_QUEUE) {
        connection.write_all(&pulls).unwrap();
        ask_end(connection);
    }
    await_count("pulls held", HOLDS, || core.waiting.long_polls.len());
    let (bytes, blocks) = in_use();
    let many = i64::try_from(HOLDS).unwrap();
    let bytes = (bytes - before.0) / many;
    println!(
        "a held pull: {bytes} bytes, {} blocks for {many}",
        blocks - before.1
    );
    assert!(bytes <= HOLD_BYTES_MAX, "{bytes} bytes a held pull");
    // One block for the long polls of each queue, none for the names of one long poll.
    assert!(
        blocks - before.1 < many * 3 / 4,
        "{} blocks",
        blocks - before.1
    );
    server.stop(Duration::from_secs(5));
}
