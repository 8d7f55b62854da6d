//! Batches put by one thread at full speed, and the dispatch of them.

use std::time::Instant;

use mq_store::{Put, PutStatus};
use serde_json::{Value, json};

use crate::common::{await_dispatch, directory, message, open, settings, sized};

const BATCH: u64 = 32;
const BODY_BYTES: usize = 128;

pub fn figures() -> Value {
    let messages = sized(2_000_000, 3_200) / BATCH * BATCH;
    let root = directory();
    let store = open(root.path(), settings(1 << 30));
    let body: Vec<u8> = (0..BATCH).flat_map(|_| item()).collect();
    let started = Instant::now();
    for number in 0..messages / BATCH {
        let mut request = message("BenchmarkTest", &body, b"");
        request.queue_id = (number % 8) as i32;
        match store.put_batch(&request) {
            Put::Done(result) if result.status == PutStatus::Ok => {}
            other => panic!("{other:?}"),
        }
    }
    let put = started.elapsed();
    await_dispatch(&store);
    let dispatched = started.elapsed();
    store.close().expect("a clean close");
    json!({
        "put_per_s": (messages as f64 / put.as_secs_f64()).round(),
        "dispatched_per_s": (messages as f64 / dispatched.as_secs_f64()).round(),
    })
}

/// One message of a batch body. The broker fills in sizes and CRC.
fn item() -> Vec<u8> {
    let properties = b"TAGS\x01TagA";
    let total = 4 + 4 + 4 + 4 + 4 + BODY_BYTES + 2 + properties.len();
    let mut item = Vec::with_capacity(total);
    for field in [total, 0, 0, 0, BODY_BYTES] {
        item.extend_from_slice(&(field as u32).to_be_bytes());
    }
    item.extend_from_slice(&[b'x'; BODY_BYTES]);
    item.extend_from_slice(&(properties.len() as u16).to_be_bytes());
    item.extend_from_slice(properties);
    item
}
