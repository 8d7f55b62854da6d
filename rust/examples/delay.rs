//! How fast and how punctually delayed messages are delivered. Prints one JSON object.
//!
//! `cargo run --profile fast --example delay -- [--pending N] [--root DIR]`
//!
//! - `drain`: N messages (1,000,000 by default) of one level are due when the store is opened;
//!   the rate at which they arrive in their topic.
//! - `punctual`: with N messages pending in a level that is due much later, messages of another
//!   level are stored for two seconds; how late each is delivered.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mqstack_core::clock::{ManualClock, SystemClock};
use mqstack_core::store::{Put, PutRequest, PutStatus, Settings, Store};
use serde_json::{Value, json};

const BODY: [u8; 128] = [b'x'; 128];
const TOPIC: &str = "Delayed";
const PATIENCE: Duration = Duration::from_secs(120);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let (mut pending, mut root) = (1_000_000, std::env::temp_dir());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("each option takes a value")?;
        match name.as_str() {
            "--pending" => pending = value.parse()?,
            "--root" => root = PathBuf::from(value),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let directory = root.join(format!("mqstack-delay-{}", std::process::id()));
    let drained = drain(&directory, pending);
    std::fs::remove_dir_all(&directory)?;
    let punctual = punctual(&directory, pending);
    std::fs::remove_dir_all(&directory)?;
    let report = json!({ "pending": pending, "drain": drained?, "punctual": punctual? });
    println!("{report}");
    Ok(())
}

fn settings() -> Settings {
    Settings {
        index_enabled: false,
        ..Settings::default()
    }
}

fn put(store: &Store, level: i32) -> Outcome<i64> {
    let properties = format!("DELAY\x01{level}\x02TAGS\x01TagA");
    let request = PutRequest {
        topic: TOPIC,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: "127.0.0.1:50000".parse()?,
        store_host: "127.0.0.1:10911".parse()?,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &BODY,
        properties: properties.as_bytes(),
        wait_store_ok: true,
        delay_level: level,
    };
    match store.put(&request) {
        Put::Done(result) if result.status == PutStatus::Ok => Ok(result.store_timestamp_ms),
        other => Err(format!("{other:?}: {:?}", store.refusal()).into()),
    }
}

/// Waits until so many messages were delivered.
fn wait_for(store: &Store, count: i64) -> Outcome<()> {
    let started = Instant::now();
    while store.max_offset(TOPIC, 0) < count {
        if started.elapsed() > PATIENCE {
            return Err(format!("only {} were delivered", store.max_offset(TOPIC, 0)).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The whole backlog is due at once.
fn drain(root: &Path, pending: i64) -> Outcome<Value> {
    let clock = ManualClock::at(SystemClock::shared().wall_ms());
    let open = || Store::open(root, settings(), Arc::clone(&clock) as _, true);
    let store = open()?;
    (0..pending).try_for_each(|_| put(&store, 2).map(drop))?;
    store.close()?;
    clock.advance(60_000);
    let store = open()?;
    let started = Instant::now();
    wait_for(&store, pending)?;
    let seconds = started.elapsed().as_secs_f64();
    store.close()?;
    Ok(json!({ "delivered_per_s": (pending as f64 / seconds).round() }))
}

/// A few messages are due while many wait.
fn punctual(root: &Path, pending: i64) -> Outcome<Value> {
    let store = Store::open(root, settings(), SystemClock::shared(), true)?;
    (0..pending).try_for_each(|_| put(&store, 18).map(drop))?;
    let mut stored_ms = Vec::new();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        stored_ms.push(put(&store, 2)?);
        std::thread::sleep(Duration::from_millis(2));
    }
    let count = i64::try_from(stored_ms.len())?;
    wait_for(&store, count)?;
    let mut late_ms: Vec<i64> = (0..count)
        .map(|offset| store.store_time_at(TOPIC, 0, offset))
        .zip(&stored_ms)
        .map(|(delivered_ms, stored_ms)| delivered_ms - stored_ms - 5_000)
        .collect();
    late_ms.sort_unstable();
    store.close()?;
    Ok(json!({
        "messages": count,
        "late_ms_p50": late_ms[late_ms.len() / 2],
        "late_ms_max": late_ms[late_ms.len() - 1],
    }))
}
