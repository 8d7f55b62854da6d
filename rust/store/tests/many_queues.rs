//! Memory, disk use and opening of stores with very many queues. Alone in its binary, because it
//! measures the whole process.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_base::clock::SystemClock;
use rustix::process::{Resource, getrlimit};

use mq_store::{Put, PutRequest, PutStatus, Settings, Store};
use mq_testing::stores::directory;

const MIB: u64 = 1 << 20;
/// Names the store for the child process.
const ROOT: &str = "MANY_QUEUES_ROOT";

/// Resources of the process: anonymous memory, maps and descriptors.
struct Held {
    anonymous_bytes: u64,
    maps: usize,
    descriptors: usize,
}

impl Held {
    fn now() -> Self {
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let line = rollup.lines().find(|line| line.starts_with("Anonymous:"));
        let kib = line
            .and_then(|line| line.split_whitespace().nth(1))
            .unwrap();
        Self {
            anonymous_bytes: kib.parse::<u64>().unwrap() * 1024,
            maps: fs::read_to_string("/proc/self/maps")
                .unwrap()
                .lines()
                .count(),
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
        }
    }
}

fn open(root: &Path) -> Arc<Store> {
    let settings = Settings {
        commit_log_file_bytes: Some(16 * MIB),
        index_enabled: false,
        allocate_step_bytes: MIB,
        min_free_bytes: Some(0),
        ..Settings::default()
    };
    Store::open(root, settings, SystemClock::shared(), true).unwrap()
}

fn message(topic: &str, queue_id: i32) -> PutRequest<'_> {
    PutRequest {
        queue_id,
        ..common::request(topic, b"x")
    }
}

/// Puts one message into each of `queues` queues of each topic, in each round.
fn fill(store: &Store, topics: usize, queues: i32, rounds: usize) {
    for _ in 0..rounds {
        for topic in 0..topics {
            let topic = format!("TopicWithAName{topic}");
            for queue_id in 0..queues {
                let Put::Done(result) = store.put(&message(&topic, queue_id)) else {
                    panic!("this put must not wait for a flush");
                };
                assert_eq!(result.status, PutStatus::Ok);
            }
        }
    }
    let until = Instant::now() + Duration::from_secs(60);
    while store.runtime()["dispatchBehindBytes"] != "0" {
        assert!(Instant::now() < until, "dispatch hangs");
        std::thread::yield_now();
    }
}

fn disk_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap();
    let bytes = entries.map(|entry| {
        let path = entry.unwrap().path();
        let metadata = path.metadata().unwrap();
        let below = if metadata.is_dir() {
            disk_bytes(&path)
        } else {
            0
        };
        below + metadata.blocks() * 512
    });
    bytes.sum()
}

/// Checks all queues after opening the store again.
fn check(store: &Store, topics: usize, queues: i32, rounds: i64) {
    for topic in 0..topics {
        let topic = format!("TopicWithAName{topic}");
        for queue_id in [0, queues - 1] {
            assert_eq!(store.max_offset(&topic, queue_id), rounds);
            assert_eq!(store.min_offset(&topic, queue_id), 0);
        }
    }
}

/// One test, so that nothing else runs in the process.
#[test]
fn many_queues_cost_little() {
    ten_thousand_topics_fit_20_mb();
    fifty_thousand_queues_need_no_map_or_descriptor_each();
}

fn ten_thousand_topics_fit_20_mb() {
    let root = directory();
    let started = Instant::now();
    let store = open(root.path());
    fill(&store, 10_000, 1, 2);
    store.flush().unwrap();
    let filled = Held::now();
    let kib = filled.anonymous_bytes >> 10;
    println!(
        "10,000 topics: {kib} KiB anonymous, filled in {:?}",
        started.elapsed()
    );
    assert!(
        filled.anonymous_bytes < 20 * MIB,
        "{} bytes",
        filled.anonymous_bytes
    );
    store.close().unwrap();
    drop(store);
    // A new process, so that memory freed in this one is not counted.
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "opened_in_a_process_of_its_own", "--nocapture"])
        .env(ROOT, root.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    println!(
        "{}",
        said.lines().find(|line| line.contains("opened")).unwrap()
    );
}

#[test]
fn opened_in_a_process_of_its_own() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let started = Instant::now();
    let store = open(Path::new(&root));
    let elapsed = started.elapsed();
    let bytes = Held::now().anonymous_bytes;
    println!(
        "10,000 topics: {} KiB anonymous, opened in {elapsed:?}",
        bytes >> 10
    );
    assert!(bytes < 20 * MIB, "{bytes} bytes");
    check(&store, 10_000, 1, 2);
}

fn fifty_thousand_queues_need_no_map_or_descriptor_each() {
    const TOPICS: usize = 500;
    const QUEUES: i32 = 100;
    let root = directory();
    let started = Instant::now();
    let store = open(root.path());
    fill(&store, TOPICS, QUEUES, 1);
    store.flush().unwrap();
    println!("50,000 queues: filled in {:?}", started.elapsed());
    let held = Held::now();
    let (maps, descriptors) = (held.maps, held.descriptors);
    println!("50,000 queues: {maps} maps, {descriptors} descriptors");
    println!(
        "50,000 queues: {} KiB anonymous",
        held.anonymous_bytes >> 10
    );
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = (allowed / 4).min(16_384) as usize + 100;
    assert!(
        maps < 500 && descriptors < most,
        "{maps} maps, {descriptors} of {most} descriptors"
    );
    assert!(
        held.anonymous_bytes < 64 * MIB,
        "{} bytes",
        held.anonymous_bytes
    );
    let bytes = disk_bytes(&root.path().join("consumequeue"));
    println!("50,000 queues: {} KiB on the disk", bytes >> 10);
    assert!(bytes < 50_000 * 16 * 1024, "{bytes} bytes");
    store.close().unwrap();
    drop(store);
    let started = Instant::now();
    let store = open(root.path());
    println!("50,000 queues: opened in {:?}", started.elapsed());
    check(&store, TOPICS, QUEUES, 1);
    // The last write to a queue was long ago, so its file is opened again.
    fill(&store, 10, QUEUES, 1);
    check(&store, 10, QUEUES, 2);
}
