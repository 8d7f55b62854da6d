//! CPU time of a start with very many queues. Alone in its binary, because it measures the whole
//! process.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mq_base::clock::{Clock, ManualClock, SystemClock};
use mq_log::{IoHook, Operation, Target, watch};
use rustix::time::{ClockId, clock_gettime};

use mq_store::{
    GetRequest, GetStatus, MessageFilter, Put, PutRequest, PutStatus, ReadMode, Settings, Store,
    StoreError,
};
use mq_testing::stores::directory;

const MIB: u64 = 1 << 20;
const LOG_FILE: u64 = 16 * MIB;
const QUEUES: i32 = 8;

fn open(root: &Path, clock: Arc<dyn Clock>) -> Arc<Store> {
    try_open(root, clock).unwrap()
}

fn try_open(root: &Path, clock: Arc<dyn Clock>) -> Result<Arc<Store>, StoreError> {
    let settings = Settings {
        commit_log_file_bytes: Some(LOG_FILE),
        index_enabled: false,
        allocate_step_bytes: MIB,
        min_free_bytes: Some(0),
        ..Settings::default()
    };
    Store::open(root, settings, clock, true)
}

fn message<'a>(topic: &'a str, queue_id: i32, body: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        queue_id,
        ..common::request(topic, body)
    }
}

/// A closed store with `rounds` messages in each queue, all older than the part that a kill may
/// lose.
fn closed(root: &Path, topics: usize, rounds: usize) -> i64 {
    let clock = ManualClock::at(SystemClock::shared().wall_ms());
    let store = open(root, clock.clone());
    let put = |topic: &str, queue_id, body: &[u8]| {
        let Put::Done(result) = store.put(&message(topic, queue_id, body)) else {
            panic!("this put must not wait for a flush");
        };
        assert_eq!(result.status, PutStatus::Ok);
    };
    for _ in 0..rounds {
        for topic in 0..topics {
            (0..QUEUES)
                .for_each(|queue_id| put(&format!("TopicWithAName{topic}"), queue_id, b"a body"));
        }
    }
    // The start of the part that a kill may lose is known to 64 KiB of the log.
    (0..2).for_each(|_| put("Newest", 0, &[b'x'; 100_000]));
    clock.advance(10_000);
    put("Newest", 0, b"a body");
    store.close().unwrap();
    clock.wall_ms()
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        now.tv_sec.cast_unsigned(),
        u32::try_from(now.tv_nsec).unwrap(),
    )
}

fn cpu_of_start(root: &Path, now_ms: i64) -> Duration {
    let began = cpu();
    let store = open(root, ManualClock::at(now_ms));
    let took = cpu() - began;
    assert_eq!(
        store.max_offset("TopicWithAName0", 7),
        store.max_offset("TopicWithAName1", 0)
    );
    store.close().unwrap();
    took
}

fn leave_open(root: &Path) {
    fs::write(root.join("abort"), b"").unwrap();
    fs::remove_file(root.join("mqstack/closed.json")).unwrap();
}

/// Counts reads of queue files by path, and writes to them.
#[derive(Debug, Default)]
struct Counts(Mutex<(BTreeMap<PathBuf, usize>, usize)>);

impl IoHook for Counts {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let mut counts = self.0.lock().unwrap();
        let is_of_queue = target.path.iter().any(|part| part == "consumequeue");
        match operation {
            Operation::Read(..) if is_of_queue => {
                *counts.0.entry(target.path.to_owned()).or_default() += 1;
            }
            Operation::Write(..) | Operation::Zero(..) | Operation::Sync(..) if is_of_queue => {
                counts.1 += 1;
            }
            _ => {}
        }
        Ok(0)
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

#[test]
fn a_start_reads_each_queue_once_and_writes_none() {
    let root = directory();
    let now_ms = closed(root.path(), 20, 3);
    for is_killed in [false, true] {
        if is_killed {
            leave_open(root.path());
        }
        let counts = Arc::<Counts>::default();
        let watched = watch(root.path(), Arc::clone(&counts) as Arc<dyn IoHook>);
        let store = open(root.path(), ManualClock::at(now_ms));
        drop(watched);
        let (reads, writes) = counts.0.lock().unwrap().clone();
        // The newest message may not be on the disk.
        let written = usize::from(is_killed);
        assert!(
            writes <= 2 * written,
            "{writes} writes, killed: {is_killed}"
        );
        assert_eq!(reads.len(), 20 * QUEUES as usize + 1);
        let often = reads.iter().filter(|(_, count)| **count > 1).count();
        assert!(
            often <= usize::from(is_killed),
            "killed: {is_killed}, {reads:?}"
        );
        store.close().unwrap();
    }
}

/// Counts operations on the log and the queues, and permits a number of changes. Then all changes
/// fail, as if the process had been killed.
#[derive(Debug)]
struct Killed {
    changes_left: AtomicI64,
    changes: AtomicUsize,
    operations: AtomicUsize,
}

impl Killed {
    fn after(changes: usize) -> Arc<Self> {
        Arc::new(Self {
            changes_left: AtomicI64::new(changes as i64),
            changes: AtomicUsize::new(0),
            operations: AtomicUsize::new(0),
        })
    }

    fn never() -> Arc<Self> {
        Self::after(usize::MAX >> 1)
    }
}

impl IoHook for Killed {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let is_counted = |part: &std::ffi::OsStr| part == "consumequeue" || part == "commitlog";
        if target.path.iter().any(is_counted) {
            self.operations.fetch_add(1, Ordering::SeqCst);
        }
        let is_change = !matches!(operation, Operation::Open | Operation::Read(..));
        self.changes
            .fetch_add(usize::from(is_change), Ordering::SeqCst);
        if is_change && self.changes_left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Err(io::Error::other("killed"));
        }
        Ok(0)
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

/// Starts a store and checks its messages. Returns the numbers of operations and of changes of the
/// start; None if it was killed.
fn start_until(root: &Path, now_ms: i64, killed: &Arc<Killed>) -> Option<[usize; 2]> {
    let watched = watch(root, Arc::clone(killed) as Arc<dyn IoHook>);
    let opened = try_open(root, ManualClock::at(now_ms));
    drop(watched);
    let counts = [&killed.operations, &killed.changes].map(|count| count.load(Ordering::SeqCst));
    let store = opened.ok()?;
    for topic in 0..KILLED_TOPICS {
        let topic = format!("TopicWithAName{topic}");
        for (queue_id, offset) in (0..QUEUES).flat_map(|id| [(id, 0), (id, 1), (id, 2)]) {
            let request = GetRequest {
                topic: &topic,
                queue_id,
                offset,
                max_count: 1,
                filter: &MessageFilter::All,
                mode: ReadMode::Wait,
            };
            let got = store.get(&request, &mut Vec::new()).unwrap();
            let place = (&topic, queue_id, offset);
            assert_eq!(got.status, GetStatus::Found, "{place:?}");
            assert_eq!((got.message_count, got.max_offset), (1, 3), "{place:?}");
        }
    }
    Some(counts)
}

const KILLED_TOPICS: usize = 4;

/// A store that was killed and lost the queues of some topics, and the ends of others.
fn killed_with_lost_queues(root: &Path) -> i64 {
    let now_ms = closed(root, KILLED_TOPICS, 3);
    leave_open(root);
    fs::write(root.join("checkpoint"), [0; 4096]).unwrap();
    for topic in 0..2 {
        let queues = root.join(format!("consumequeue/TopicWithAName{topic}"));
        fs::remove_dir_all(queues).unwrap();
    }
    for queue_id in 0..QUEUES {
        let path = format!("consumequeue/TopicWithAName2/{queue_id}/{:020}", 0);
        let file = fs::File::options().write(true).open(root.join(path));
        std::os::unix::fs::FileExt::write_all_at(&file.unwrap(), &[0; 40], 20).unwrap();
    }
    now_ms
}

#[test]
fn a_kill_during_recovery_makes_the_next_start_no_slower() {
    let killed = || {
        let root = directory();
        let now_ms = killed_with_lost_queues(root.path());
        (root, now_ms)
    };
    let (root, now_ms) = killed();
    let [most, changes] = start_until(root.path(), now_ms, &Killed::never()).unwrap();
    assert!(changes > 50, "{changes}");
    let mut kills = 0;
    for killed_at in (0..changes).step_by(changes / 20) {
        let (root, now_ms) = killed();
        if start_until(root.path(), now_ms, &Killed::after(killed_at)).is_some() {
            // The recovery was over.
            break;
        }
        kills += 1;
        let [again, changed] = start_until(root.path(), now_ms, &Killed::never()).unwrap();
        assert!(
            changed <= changes,
            "{changed} changes, without a kill {changes}"
        );
        // It also lists the folders of two topics that the killed start created. For each of their
        // queues it lists the folder twice, measures the file twice, and opens and reads it up to
        // its hole.
        let more = 2 * (1 + 7 * QUEUES as usize);
        assert!(again <= most + more, "{again}, without a kill {most}");
    }
    assert!(kills > 15, "{kills}");
}

#[test]
#[ignore = "a measurement: run alone, in a release build"]
fn forty_thousand_queues_start_within_a_second_of_cpu() {
    let root = directory();
    let now_ms = closed(root.path(), 5_000, 2);
    let clean = cpu_of_start(root.path(), now_ms);
    leave_open(root.path());
    let killed = cpu_of_start(root.path(), now_ms);
    leave_open(root.path());
    fs::write(root.path().join("checkpoint"), [0; 4096]).unwrap();
    let unsafe_ = cpu_of_start(root.path(), now_ms);
    println!("clean {clean:?}, killed {killed:?}, killed without a checkpoint {unsafe_:?}");
}
