//! SYNC_FLUSH compared with the same writes on the raw disk.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_store::{Settings, Store};
use rustix::fs::{Advice, fadvise, fdatasync};
use serde_json::{Value, json};

use crate::common::{BODY, PROPERTIES, TOPIC, directory, flushing, open, settings, sized};

/// Bytes of a record.
const RECORD_BYTES: usize = 91 + BODY.len() + TOPIC.len() + PROPERTIES.len();
const PAGE_BYTES: usize = 4096;
const IN_FLIGHT: usize = 64;

pub fn figures() -> Value {
    let round = Duration::from_millis(sized(2_000, 50));
    let root = directory();
    let disk_before = Disk::measure(root.path(), round);
    let lone = with_store(root.path(), |store| flushing::lone(store, round));
    let parked = with_store(root.path(), |store| {
        flushing::parked(store, IN_FLIGHT, round)
    });
    let latched = with_store(root.path(), |store| {
        flushing::latched(store, IN_FLIGHT, round)
    });
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

/// The time of fdatasync after a write to blocks that have been written before. It writes whole
/// pages, as the page cache does, so that none must be read first.
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

/// Runs a case on a new store whose first file is prepared.
fn with_store<T>(root: &Path, case: impl FnOnce(&Arc<Store>) -> T) -> T {
    let root = root.join("store");
    let settings = Settings {
        sync_flush: true,
        ..settings(1 << 30)
    };
    let store = open(&root, settings);
    flushing::put_and_wait(&store);
    flushing::wait_until_flushed();
    let result = case(&store);
    store.close().expect("a clean close");
    std::fs::remove_dir_all(&root).expect("removed");
    result
}
