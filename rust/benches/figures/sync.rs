//! SYNC_FLUSH beside what the disk does by itself with the same bytes.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mqstack_core::store::{AckOutcome, Put, PutStatus, Settings, Store};
use rustix::fs::{Advice, fadvise, fdatasync};
use serde_json::{Value, json};

use crate::common::{directory, message, open, settings, sized};

const BODY: [u8; 1024] = [b'x'; 1024];
/// A record of that body, bytes.
const RECORD_BYTES: usize = 1024 + 91 + 13 + 9;
const PAGE_BYTES: usize = 4096;
const TOPIC: &str = "BenchmarkTest";
const PROPERTIES: &[u8] = b"TAGS\x01TagA";
const IN_FLIGHT: usize = 64;

pub fn figures() -> Value {
    let round = Duration::from_millis(sized(2_000, 50));
    let root = directory();
    let disk_before = Disk::measure(root.path(), round);
    let lone = with_store(root.path(), |store| lone(store, round));
    let parked = with_store(root.path(), |store| parked(store, round));
    let latched = with_store(root.path(), |store| latched(store, round));
    let disk_after = Disk::measure(root.path(), round);
    let lone_us = (disk_before.lone_us + disk_after.lone_us) / 2.0;
    let group = f64::midpoint(disk_before.group_per_s, disk_after.group_per_s);
    let limit = group * IN_FLIGHT as f64;
    json!({
        "disk_p50_us": lone_us,
        "disk_group_messages_per_s": limit.round(),
        "lone_p50_us": lone.p50_us,
        "lone_added_us": lone.p50_us - lone_us,
        "lone_disk_bytes_per_flush": lone.disk_bytes,
        "parked_per_s": parked.round(),
        "parked_of_disk": parked / limit,
        "latched_per_s": latched.round(),
        "latched_of_disk": latched / limit,
    })
}

/// What fdatasync costs after a write into blocks that were written before: whole pages, as that
/// is what reaches the disk, and none has to be read first.
struct Disk {
    lone_us: f64,
    group_per_s: f64,
}

impl Disk {
    fn measure(root: &Path, round: Duration) -> Self {
        let path = root.join("raw");
        let bytes = 64 << 20;
        let file = File::create(&path).expect("a file");
        file.write_all_at(&vec![0; bytes], 0).expect("a write");
        file.sync_all().expect("a sync");
        fadvise(file.as_fd(), 0, None, Advice::DontNeed).expect("advice");
        let mut lone = Self::flushes(&file, RECORD_BYTES, round);
        let group = Self::flushes(&file, RECORD_BYTES * IN_FLIGHT, round);
        std::fs::remove_file(&path).expect("removed");
        lone.sort_unstable();
        Self {
            lone_us: lone[lone.len() / 2].as_secs_f64() * 1e6,
            group_per_s: group.len() as f64 / group.iter().sum::<Duration>().as_secs_f64(),
        }
    }

    fn flushes(file: &File, bytes: usize, round: Duration) -> Vec<Duration> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let (data, started) = (vec![b'x'; bytes], Instant::now());
        let (mut at, mut took) = (0_u64, Vec::new());
        while started.elapsed() < round || took.is_empty() {
            let flush = Instant::now();
            file.write_all_at(&data, at).expect("a write");
            fdatasync(file).expect("a sync");
            took.push(flush.elapsed());
            at = (at + bytes as u64) % (56 << 20);
        }
        took
    }
}

/// Runs a case on a fresh store whose first file is prepared.
fn with_store<T>(root: &Path, case: impl FnOnce(&Arc<Store>) -> T) -> T {
    let root = root.join("store");
    let settings = Settings {
        sync_flush: true,
        ..settings(1 << 30)
    };
    let store = open(&root, settings);
    put_and_wait(&store);
    settle();
    let result = case(&store);
    store.close().expect("a clean close");
    std::fs::remove_dir_all(&root).expect("removed");
    result
}

fn put_and_wait(store: &Store) {
    let result = store.wait(store.put(&message(TOPIC, &BODY, PROPERTIES)));
    assert_eq!(result.status, PutStatus::Ok);
}

struct Lone {
    p50_us: f64,
    disk_bytes: u64,
}

/// One thread that waits for each flush.
fn lone(store: &Store, round: Duration) -> Lone {
    let (started, written, mut took) = (Instant::now(), written_bytes(), Vec::new());
    while started.elapsed() < round || took.is_empty() {
        let put = Instant::now();
        put_and_wait(store);
        took.push(put.elapsed());
    }
    let disk_bytes = (written_bytes() - written) / took.len() as u64;
    took.sort_unstable();
    Lone {
        p50_us: took[took.len() / 2].as_secs_f64() * 1e6,
        disk_bytes,
    }
}

/// Puts in flight as a server has them; acknowledgements per second.
fn parked(store: &Arc<Store>, round: Duration) -> f64 {
    let (sender, receiver) = mpsc::channel();
    let put_one = || {
        let Put::Parked(_, ticket) = store.put(&message(TOPIC, &BODY, PROPERTIES)) else {
            panic!("it does not wait");
        };
        let sender = sender.clone();
        let reply = move |outcome| {
            // The receiver is gone when the round is over.
            let _ = sender.send(outcome);
        };
        store.park(ticket, Box::new(reply));
    };
    (0..IN_FLIGHT).for_each(|_| put_one());
    let (started, mut count) = (Instant::now(), 0_u32);
    while started.elapsed() < round {
        assert_eq!(receiver.recv(), Ok(AckOutcome::Durable));
        count += 1;
        put_one();
    }
    f64::from(count) / started.elapsed().as_secs_f64()
}

/// Threads that each wait for their own put; puts per second.
fn latched(store: &Arc<Store>, round: Duration) -> f64 {
    let started = Instant::now();
    let threads: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let store = Arc::clone(store);
            std::thread::spawn(move || {
                let mut count = 0_u32;
                while started.elapsed() < round {
                    put_and_wait(&store);
                    count += 1;
                }
                count
            })
        })
        .collect();
    let counts = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"));
    let count: u32 = counts.sum();
    f64::from(count) / started.elapsed().as_secs_f64()
}

/// Waits until the first file's blocks are prepared, which is not what a flush costs.
fn settle() {
    let mut before = u64::MAX;
    for _ in 0..50 {
        let now = written_bytes();
        if now == before {
            return;
        }
        before = now;
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Bytes this process sent to the disk so far.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let bytes = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    bytes
        .and_then(|bytes| bytes.trim().parse().ok())
        .unwrap_or(0)
}
