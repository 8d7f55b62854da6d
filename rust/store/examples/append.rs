//! Measures how fast the store appends. Prints one JSON object.
//!
//! `cargo run --profile fast --example append -- [--seconds N] [--root DIR] [--only CASE]`
//!
//! - `async`: one thread with ASYNC_FLUSH, while dispatch and flush run. `cpu_ns` is the CPU time
//!   of the appending thread per append.
//! - `prepared`: like `async`, in bursts of 10,000 into prepared blocks and pages, with pauses for
//!   dispatch and the next pages. The result is the rate of the median burst.
//! - `rolls`: one thread with ASYNC_FLUSH and log files of 16 MiB. The time of each put, and of the
//!   puts that continued in a new file.
//! - `sync_lone`: one thread that waits for each put, with SYNC_FLUSH. `disk_bytes_per_flush` is
//!   the number of bytes that the process sends to the disk per put.
//! - `sync_parked`, `sync_group`: 1 and 64 parked puts in flight, with SYNC_FLUSH.
//! - `sync_latched`: 64 threads that wait, with SYNC_FLUSH.

#[path = "../benches/common/mod.rs"]
mod common;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_base::clock::SystemClock;
use mq_store::{Put, PutRequest, PutStatus, Settings, Store};
use serde_json::{Map, Value, json};

use common::{BODY, PROPERTIES, TOPIC, flushing, message};

/// Puts measured together; less than the store keeps prepared.
const BURST: u32 = 10_000;
/// Length of the log files of the case `rolls`.
const SMALL_FILE_BYTES: u64 = 16 << 20;

type Case = fn(&Arc<Store>, Duration) -> Outcome<Value>;
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let (mut seconds, mut root, mut only) = (5.0, std::env::temp_dir(), String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("each option takes a value")?;
        match name.as_str() {
            "--seconds" => seconds = value.parse()?,
            "--root" => root = PathBuf::from(value),
            "--only" => only = value,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let limit = Duration::from_secs_f64(seconds);
    let cases: [(&str, bool, Case); 7] = [
        ("async", false, append),
        ("prepared", false, bursts),
        ("rolls", false, rolls),
        ("sync_lone", true, flush_each),
        ("sync_parked", true, |store, limit| parked(store, limit, 1)),
        ("sync_group", true, |store, limit| parked(store, limit, 64)),
        ("sync_latched", true, latched),
    ];
    let mut report = Map::new();
    report.insert("body_bytes".into(), BODY.len().into());
    for (name, sync_flush, case) in cases {
        if only.is_empty() || only == name {
            let file_bytes = (name == "rolls").then_some(SMALL_FILE_BYTES);
            let figures = measure(&root, (sync_flush, file_bytes), |store| case(store, limit))?;
            report.insert(name.into(), figures);
        }
    }
    println!("{}", Value::Object(report));
    Ok(())
}

/// Runs one case on a new store.
fn measure(
    root: &Path,
    (sync_flush, commit_log_file_bytes): (bool, Option<u64>),
    case: impl FnOnce(&Arc<Store>) -> Outcome<Value>,
) -> Outcome<Value> {
    let directory = root.join(format!("mqstack-append-{}", std::process::id()));
    let settings = Settings {
        sync_flush,
        commit_log_file_bytes,
        index_enabled: false,
        ..Settings::default()
    };
    let store = Store::open(&directory, settings, SystemClock::shared(), true)?;
    let figures = case(&store)?;
    store.close()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(figures)
}

/// One thread that does not wait. The best second is reported with the mean, because the disk
/// limits long runs.
fn append(store: &Arc<Store>, limit: Duration) -> Outcome<Value> {
    let request = message(TOPIC, &BODY, PROPERTIES);
    let started = Instant::now();
    let cpu_ns = thread_cpu_ns();
    let (mut count, mut best, mut slowest) = (0_u64, 0.0_f64, Duration::ZERO);
    while started.elapsed() < limit {
        let chunk = put_burst(store, &request)?;
        count += u64::from(BURST);
        best = best.max(f64::from(BURST) / chunk.as_secs_f64());
        slowest = slowest.max(chunk);
    }
    Ok(json!({
        "appends_per_s": rate(count, started),
        "best_10k_per_s": best.round(),
        "slowest_10k_ms": slowest.as_millis() as u64,
        "cpu_ns": (thread_cpu_ns() - cpu_ns) / count,
    }))
}

/// One thread that does not wait, and puts only into prepared blocks.
fn bursts(store: &Arc<Store>, limit: Duration) -> Outcome<Value> {
    let request = message(TOPIC, &BODY, PROPERTIES);
    let started = Instant::now();
    let (mut rates, mut cpu_ns) = (Vec::new(), Vec::new());
    while started.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(50));
        let before = thread_cpu_ns();
        rates.push(f64::from(BURST) / put_burst(store, &request)?.as_secs_f64());
        cpu_ns.push((thread_cpu_ns() - before) / u64::from(BURST));
    }
    rates.sort_unstable_by(f64::total_cmp);
    cpu_ns.sort_unstable();
    Ok(json!({
        "appends_per_s": rates[rates.len() / 2].round(),
        "best_burst_per_s": rates[rates.len() - 1].round(),
        "cpu_ns": cpu_ns[cpu_ns.len() / 2],
    }))
}

/// One thread that measures each put.
fn rolls(store: &Arc<Store>, limit: Duration) -> Outcome<Value> {
    let request = message(TOPIC, &BODY, PROPERTIES);
    let started = Instant::now();
    let (mut all_ns, mut rolls_ns, mut file) = (Vec::new(), Vec::new(), 0);
    while started.elapsed() < limit {
        let began = Instant::now();
        let put = store.put(&request);
        let took_ns = began.elapsed().as_nanos() as u64;
        let Put::Done(result) = put else {
            return Err("it waits".into());
        };
        if result.status != PutStatus::Ok {
            return Err(format!("{:?}: {:?}", result.status, store.refusal()).into());
        }
        let now_in = result.physical_offset.cast_unsigned() / SMALL_FILE_BYTES;
        if std::mem::replace(&mut file, now_in) != now_in {
            rolls_ns.push(took_ns);
        }
        all_ns.push(took_ns);
    }
    let at = |sorted: &[u64], part: f64| {
        let place = (sorted.len().saturating_sub(1)) as f64 * part;
        sorted
            .get(place as usize)
            .map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    all_ns.sort_unstable();
    rolls_ns.sort_unstable();
    Ok(json!({
        "puts_per_s": rate(all_ns.len() as u64, started),
        "p50_us": at(&all_ns, 0.5),
        "p99_9_us": at(&all_ns, 0.999),
        "longest_us": at(&all_ns, 1.0),
        "rolls": rolls_ns.len(),
        "roll_p50_us": at(&rolls_ns, 0.5),
        "roll_longest_us": at(&rolls_ns, 1.0),
    }))
}

/// The time of one burst.
fn put_burst(store: &Store, request: &PutRequest<'_>) -> Outcome<Duration> {
    let started = Instant::now();
    for _ in 0..BURST {
        let Put::Done(result) = store.put(request) else {
            return Err("it waits".into());
        };
        if result.status != PutStatus::Ok {
            return Err(format!("{:?}: {:?}", result.status, store.refusal()).into());
        }
    }
    Ok(started.elapsed())
}

/// One thread that waits for each flush.
fn flush_each(store: &Arc<Store>, limit: Duration) -> Outcome<Value> {
    flushing::put_and_wait(store);
    flushing::wait_until_flushed();
    let lone = flushing::lone(store, limit);
    Ok(json!({
        "flushes_per_s": lone.per_s.round(),
        "p50_us": lone.p50_us,
        "disk_bytes_per_flush": lone.disk_bytes,
    }))
}

/// Clients of a server with one put in flight each.
fn parked(store: &Arc<Store>, limit: Duration, clients: usize) -> Outcome<Value> {
    flushing::put_and_wait(store);
    flushing::wait_until_flushed();
    let per_s = flushing::parked(store, clients, limit);
    Ok(json!({ "in_flight": clients, "acknowledged_per_s": per_s.round() }))
}

/// Threads that wait for their own put.
fn latched(store: &Arc<Store>, limit: Duration) -> Outcome<Value> {
    flushing::put_and_wait(store);
    flushing::wait_until_flushed();
    let per_s = flushing::latched(store, 64, limit);
    Ok(json!({ "threads": 64, "acknowledged_per_s": per_s.round() }))
}

fn rate(count: u64, since: Instant) -> f64 {
    (count as f64 / since.elapsed().as_secs_f64()).round()
}

/// CPU time of this thread; 0 if the system does not say.
fn thread_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0)
}
