//! Opens an empty store, and a store whose log must be checked; rebuilds queues and index.

mod common;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use mq_base::clock::SystemClock;
use mq_store::{Settings, StoreError, derive};
use rustix::fs::{Advice, fadvise};
use tempfile::TempDir;

use common::{await_dispatch, directory, forget_close, message, open, put, settings, sized};

const QUEUES: u64 = 16;
const KEYS_PER_MESSAGE: u64 = 3;
const LARGE_FILE_BYTES: u64 = 1 << 30;

/// Time of one open. Closing and dropping the store is not measured.
fn timed_open(root: &Path, settings: &Settings) -> Duration {
    let started = Instant::now();
    let store = open(root, settings.clone());
    let took = started.elapsed();
    store.close().expect("a clean close");
    took
}

/// The sum of the times that `count` runs return.
fn sum(count: u64, mut run: impl FnMut() -> Duration) -> Duration {
    (0..count).map(|_| run()).sum()
}

fn empty(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("open");
    group.bench_function("create_empty", |bencher| {
        bencher.iter_custom(|count| {
            sum(count, || {
                timed_open(directory().path(), &Settings::default())
            })
        });
    });
    let root = directory();
    timed_open(root.path(), &Settings::default());
    group.bench_function("reopen_empty", |bencher| {
        bencher.iter_custom(|count| sum(count, || timed_open(root.path(), &Settings::default())));
    });
    group.finish();
}

/// A closed store with messages in several queues.
fn filled(messages: u64, body: &[u8], properties: impl Fn(u64) -> String) -> TempDir {
    let root = directory();
    let store = open(root.path(), settings(LARGE_FILE_BYTES));
    for number in 0..messages {
        let properties = properties(number);
        let mut request = message("BenchmarkTest", body, properties.as_bytes());
        request.queue_id = (number % QUEUES) as i32;
        put(&store, &request);
    }
    await_dispatch(&store);
    store.close().expect("a clean close");
    root
}

/// Properties with three keys for the index.
fn keys(number: u64) -> String {
    format!("UNIQ_KEY\x01C0A80001{number:016X}\x02KEYS\x01order-{number} item-{number}")
}

fn build(criterion: &mut Criterion) {
    let messages = sized(1_000_000, 2_000);
    let settings = settings(LARGE_FILE_BYTES);
    let built = |root: &TempDir, folder: &str, build: &dyn Fn(&Path) -> Result<u64, StoreError>| {
        let _ = std::fs::remove_dir_all(root.path().join(folder));
        let started = Instant::now();
        build(root.path()).expect("built");
        started.elapsed()
    };
    let queues = |root: &Path| derive::queues(root, &settings);
    let index = |root: &Path| derive::index(root, &settings, SystemClock::shared());
    let mut group = criterion.benchmark_group("build");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.throughput(Throughput::Elements(messages));
    let root = filled(messages, &[b'x'; 1024], |_| "TAGS\x01TagA".into());
    group.bench_function("consume_queues_1k", |bencher| {
        bencher.iter_custom(|count| sum(count, || built(&root, "consumequeue", &queues)));
    });
    let root = filled(messages, &[b'x'; 32], keys);
    group.bench_function("consume_queues", |bencher| {
        bencher.iter_custom(|count| sum(count, || built(&root, "consumequeue", &queues)));
    });
    group.throughput(Throughput::Elements(messages * KEYS_PER_MESSAGE));
    group.bench_function("index", |bencher| {
        bencher.iter_custom(|count| sum(count, || built(&root, "index", &index)));
    });
    group.finish();
}

/// A closed store of 1 KiB messages.
fn large_store(bytes: u64) -> TempDir {
    let root = directory();
    let store = open(root.path(), settings(LARGE_FILE_BYTES));
    let request = message("BenchmarkTest", &[b'x'; 1024], b"TAGS\x01TagA");
    while store.max_physical_offset() < i64::try_from(bytes).unwrap_or(i64::MAX) {
        put(&store, &request);
    }
    await_dispatch(&store);
    store.close().expect("a clean close");
    root
}

/// Drops the log from the page cache.
fn chill(root: &Path) {
    for entry in std::fs::read_dir(root.join("commitlog")).expect("a log") {
        let file = File::open(entry.expect("a file").path()).expect("a readable file");
        file.sync_all().expect("a sync");
        fadvise(file.as_fd(), 0, None, Advice::DontNeed).expect("advice");
    }
}

/// Whether the record of the clean stop is kept for the next open, which checks the last three
/// files in either case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Note {
    Kept,
    Forgotten,
}

fn recover(criterion: &mut Criterion) {
    let bytes = sized(2 << 30, 4 << 20);
    let root = large_store(bytes);
    let settings = settings(LARGE_FILE_BYTES);
    let mut group = criterion.benchmark_group("recover");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.throughput(Throughput::Bytes(bytes));
    for (name, note, is_cold) in [
        ("warm", Note::Forgotten, false),
        ("cold", Note::Forgotten, true),
        ("closed_warm", Note::Kept, false),
        ("closed_cold", Note::Kept, true),
    ] {
        let timed = || {
            if note == Note::Forgotten {
                forget_close(root.path());
            }
            if is_cold {
                chill(root.path());
            }
            timed_open(root.path(), &settings)
        };
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| sum(count, timed));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(3));
    targets = empty, build, recover
}
criterion_main!(benches);
