//! Anonymous memory of the process with many queues and with a growing store.

use std::time::Instant;

use serde_json::{Value, json};

use crate::common::{await_dispatch, directory, message, open, put, settings, sized};

const QUEUES_OF_TOPIC: u64 = 100;

pub fn figures() -> Value {
    let mut figures = many_queues();
    let grown = growing_store();
    figures
        .as_object_mut()
        .expect("an object")
        .extend(grown.as_object().expect("an object").clone());
    figures
}

/// Anonymous memory of a store with many queues of one message each, and the time to open it.
fn many_queues() -> Value {
    let count = sized(10_000, 200);
    let root = directory();
    let store = open(root.path(), settings(64 << 20));
    for number in 0..count {
        let topic = format!("Topic-{}", number / QUEUES_OF_TOPIC);
        let mut request = message(&topic, b"one", b"");
        request.queue_id = (number % QUEUES_OF_TOPIC) as i32;
        put(&store, &request);
    }
    await_dispatch(&store);
    let filled_mb = anonymous_mb();
    store.close().expect("a clean close");
    drop(store);
    let started = Instant::now();
    let store = open(root.path(), settings(64 << 20));
    let open_ms = started.elapsed().as_secs_f64() * 1e3;
    let reopened_mb = anonymous_mb();
    store.close().expect("a clean close");
    json!({
        "queues": count,
        "queues_filled_mb": filled_mb,
        "queues_reopened_mb": reopened_mb,
        "queues_open_ms": open_ms,
    })
}

/// Anonymous memory with a small store, and after it has grown many times larger.
fn growing_store() -> Value {
    let (small, large) = (sized(256 << 20, 1 << 20), sized(4 << 30, 4 << 20));
    let root = directory();
    let store = open(root.path(), settings(1 << 30));
    let mut measured = Vec::new();
    for bytes in [small, large] {
        let request = message("BenchmarkTest", &[b'x'; 1024], b"TAGS\x01TagA");
        while store.max_physical_offset() < i64::try_from(bytes).expect("a length") {
            put(&store, &request);
        }
        await_dispatch(&store);
        measured.push(anonymous_mb());
    }
    store.close().expect("a clean close");
    json!({
        "store_bytes": large,
        "small_store_mb": measured[0],
        "large_store_mb": measured[1],
        "growth_mb": measured[1] - measured[0],
    })
}

fn anonymous_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let kb = text
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"));
    let kb = kb.and_then(|kb| kb.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1024.0
}
