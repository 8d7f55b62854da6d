//! How fast consume queues and index follow the log. Prints one JSON object.
//!
//! `cargo run --profile fast --example derive -- [--messages N] [--root DIR]`
//!
//! - `put_batched`: messages put in batches of 100 with everything beside it, until dispatched.
//! - `queue_units`, `index_keys`: built anew from the whole log, one without the other; per second
//!   of the clock, and of the processor.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mqstack_core::clock::SystemClock;
use mqstack_core::store::{Put, PutRequest, Settings, Store, StoreError, derive};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Messages of a batch, and keys of a message.
const BATCH: u64 = 100;
const KEYS: u64 = 2;
const QUEUES: u64 = 8;

fn main() -> Outcome<()> {
    let (mut messages, mut root) = (1_000_000, std::env::temp_dir());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("each option takes a value")?;
        match name.as_str() {
            "--messages" => messages = value.parse()?,
            "--root" => root = PathBuf::from(value),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let root = root.join(format!("derive-{}", std::process::id()));
    let report = measure(&root, messages);
    fs::remove_dir_all(&root)?;
    println!("{}", report?);
    Ok(())
}

fn measure(root: &Path, messages: u64) -> Outcome<Value> {
    let settings = Settings {
        min_free_bytes: Some(0),
        ..Settings::default()
    };
    let messages = messages / BATCH * BATCH;
    let elapsed = put(root, &settings, messages)?;
    fs::remove_dir_all(root.join("consumequeue"))?;
    fs::remove_dir_all(root.join("index"))?;
    let (log_bytes, queues) = timed(|| derive::queues(root, &settings))?;
    let clock = SystemClock::shared();
    let (_, index) = timed(|| derive::index(root, &settings, clock))?;
    let keys = messages * KEYS;
    Ok(json!({
        "record_bytes": log_bytes / messages,
        "put_batched_messages_per_s": per_second(messages, elapsed),
        "queue_units_per_s": per_second(messages, queues.0),
        "queue_units_per_cpu_s": per_second(messages, queues.1),
        "index_keys_per_s": per_second(keys, index.0),
        "index_keys_per_cpu_s": per_second(keys, index.1),
    }))
}

/// Time by the clock, and of the processor.
fn timed<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Outcome<(T, (Duration, Duration))> {
    let (start, cpu) = (Instant::now(), cpu_time());
    let done = work()?;
    Ok((done, (start.elapsed(), cpu_time().saturating_sub(cpu))))
}

/// Processor time of the process.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live value of the right type.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

fn put(root: &Path, settings: &Settings, messages: u64) -> Outcome<Duration> {
    let store = Store::open(root, settings.clone(), SystemClock::shared(), true)?;
    let start = Instant::now();
    for batch in 0..messages / BATCH {
        let body = batch_body(batch);
        let queue_id = i32::try_from(batch % QUEUES)?;
        match store.put_batch(&request(&body, queue_id)) {
            Put::Done(result) if result.physical_offset >= 0 => {}
            other => return Err(format!("put failed: {other:?}").into()),
        }
    }
    while store.runtime()["dispatchBehindBytes"] != "0" {
        std::thread::yield_now();
    }
    let elapsed = start.elapsed();
    store.close()?;
    Ok(elapsed)
}

fn request(body: &[u8], queue_id: i32) -> PutRequest<'_> {
    let host = std::net::SocketAddr::from(([127, 0, 0, 1], 10_911));
    PutRequest {
        topic: "TopicTest",
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 0,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: b"",
        wait_store_ok: true,
        delay_level: 0,
    }
}

/// Messages of 100 bytes with a tag, a key and a unique key.
fn batch_body(batch: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for at in 0..BATCH {
        let number = batch * BATCH + at;
        let unique = format!("C000020A1F2C18B4AAC2{number:012X}");
        let properties = format!("KEYS\x01order-{number}\x02UNIQ_KEY\x01{unique}\x02TAGS\x01TagA");
        let bytes = 22 + 100 + properties.len() as u32;
        body.extend_from_slice(&bytes.to_be_bytes());
        body.extend_from_slice(&[0; 12]);
        body.extend_from_slice(&100_u32.to_be_bytes());
        body.extend_from_slice(&[b'x'; 100]);
        body.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        body.extend_from_slice(properties.as_bytes());
    }
    body
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    (count as f64 / elapsed.as_secs_f64()).round()
}
