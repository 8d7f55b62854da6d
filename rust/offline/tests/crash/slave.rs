//! A slave that loses power, or whose disk fails: after its next start its log is a prefix of its
//! master's, it has what was flushed, and it becomes equal again.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_format::message::{CheckCrc, RecordView};
use mq_log::{IoHook, watch};
use mq_offline::Scan;
use mq_store::{Role, Store};
use mq_testing::stores::directory;

use crate::disk::{Disk, Losses, Names};
use crate::failing::{Failing, Kind};
use crate::oracle::{Oracle, Verdict, close, content, ensure};
use crate::random::Random;
use crate::rig::{QUEUES, Rig, TOPICS};
use crate::tape::{Recorder, Recording};
use crate::workload::Worker;

const IMAGES: usize = 280;
const STEPS: usize = 160;
/// Connections that a failing slave makes.
const ATTEMPTS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// A record of the master's log, or the blank record at the end of a file.
#[derive(Clone, Copy)]
struct Record {
    end: u64,
    store_timestamp_ms: Option<i64>,
}

/// A master with a complete log.
struct Master {
    store: Arc<Store>,
    bytes: Vec<u8>,
    records: Vec<Record>,
    _root: tempfile::TempDir,
}

impl Master {
    fn new(rig: &Rig, seed: u64) -> Self {
        let root = directory();
        let store = rig.open(root.path());
        let (tape, watch) = Recorder::start(root.path());
        let mut worker = Worker {
            name: "m".into(),
            store: &store,
            tape: &tape,
            random: Random::new(seed),
            sync_flush: rig.sync_flush,
            oracle: Oracle::default(),
        };
        worker.run(STEPS);
        drop(watch);
        store.flush().unwrap();
        while store.runtime()["dispatchBehindBytes"] != "0" {
            std::thread::yield_now();
        }
        let bytes = log_of(&store);
        let records = records_of(&bytes);
        Self {
            store,
            bytes,
            records,
            _root: root,
        }
    }

    fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The end of the last message before `end`: a start overwrites a blank record at the end.
    fn end_of_messages(&self, end: u64) -> u64 {
        let known = self.records.iter().take_while(|record| record.end <= end);
        let messages = known.filter(|record| record.store_timestamp_ms.is_some());
        messages.last().map_or(0, |record| record.end)
    }

    /// The range and the last store time of at most `count` records from `from` on, in one file.
    fn piece(&self, from: u64, count: usize, file_bytes: u64) -> (&[u8], Option<i64>) {
        let first = self.records.partition_point(|record| record.end <= from);
        let file = from / file_bytes;
        let is_here = |record: &&Record| (record.end - 1) / file_bytes == file;
        let piece = self.records[first..].iter().take(count);
        let piece: Vec<_> = piece.take_while(is_here).collect();
        let to = piece.last().map_or(from, |last| last.end);
        let mut times = piece.iter().filter_map(|record| record.store_timestamp_ms);
        (&self.bytes[from as usize..to as usize], times.next_back())
    }
}

fn log_of(store: &Store) -> Vec<u8> {
    let (start, end) = store.raw_range();
    let mut bytes = vec![0; (end - start) as usize];
    let mut at = 0;
    while at < bytes.len() {
        at += store.read_raw(start + at as u64, &mut bytes[at..]).unwrap();
    }
    bytes
}

fn records_of(bytes: &[u8]) -> Vec<Record> {
    let (mut at, mut records) = (0, Vec::new());
    while at < bytes.len() {
        let size = u32::from_be_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
        let view = RecordView::parse(&bytes[at..at + size], CheckCrc::No).ok();
        at += size;
        records.push(Record {
            end: at as u64,
            store_timestamp_ms: view.map(|view| view.store_timestamp_ms),
        });
    }
    records
}

/// A slave's log is durable up to `end` from `position` on.
struct Promise {
    position: usize,
    end: u64,
}

/// Appends the master's bytes to a slave, in pieces as they come from the network.
struct Copying<'a> {
    rig: &'a Rig,
    master: &'a Master,
    random: Random,
}

impl Copying<'_> {
    /// Appends up to the offset `to`; calls `on_durable` with the end of the log after a flush.
    /// Begins as a new connection does.
    fn copy(&mut self, store: &Store, to: u64, mut on_durable: impl FnMut(u64)) -> Verdict {
        store.settle_raw().map_err(|error| error.to_string())?;
        loop {
            let (_, end) = store.raw_range();
            if end >= to {
                return Ok(());
            }
            let count = 1 + self.random.below(6);
            let (bytes, time) = self.master.piece(end, count, self.rig.log_file_bytes);
            let appended = store.append_raw(end, bytes, time);
            appended.map_err(|error| format!("append at {end}: {error}"))?;
            let settled = store.settle_raw().map_err(|error| error.to_string())?;
            if self.rig.sync_flush {
                on_durable(settled);
            } else if self.random.one_in(12) {
                store.flush().map_err(|error| error.to_string())?;
                on_durable(settled);
            }
        }
    }
}

/// A slave that copies, stops in order, copies again and loses power.
fn record(rig: &Rig, master: &Master, seed: u64) -> (Recording, Vec<Promise>) {
    let root = directory();
    let (tape, watch) = Recorder::start(root.path());
    let mut promises = Vec::new();
    let mut copying = Copying {
        rig,
        master,
        random: Random::new(seed),
    };
    for to in [master.end() / 2, master.end()] {
        let store = rig.open(root.path());
        let on_durable = |end| {
            let position = tape.position();
            promises.push(Promise { position, end });
        };
        copying.copy(&store, to, on_durable).unwrap();
        if to < master.end() {
            close(store).unwrap();
        }
    }
    let recording = tape.recording();
    drop(watch);
    (recording, promises)
}

/// Checks an image: its log is a prefix of the master's, with all that was durable; then it copies
/// the rest, and its queues are the master's.
fn judge(root: &std::path::Path, master: &Master, rig: &Rig, durable: u64) -> Verdict<u64> {
    let store = rig.try_open(root)?;
    let (start, end) = store.raw_range();
    ensure!(start == 0 && end <= master.end(), "it has {start} to {end}");
    ensure!(
        end >= durable,
        "it ends at {end}, {durable} bytes were durable"
    );
    let log = log_of(&store);
    let is_equal = log[..] == master.bytes[..log.len()];
    ensure!(is_equal, "its log up to {end} is not its master's");
    let mut copying = Copying {
        rig,
        master,
        random: Random::new(end),
    };
    copying.copy(&store, master.end(), |_| ())?;
    assert_equal_queues(&store, master)?;
    close(store)?;
    let text = |error: mq_store::StoreError| error.to_string();
    let scan = Scan::open(root).map_err(text)?;
    let report = scan.verify(&mut |_| true).map_err(text)?;
    ensure!(report.findings.is_empty(), "verify: {:?}", report.findings);
    Ok(end)
}

fn assert_equal_queues(store: &Store, master: &Master) -> Verdict {
    let deadline = Instant::now() + PATIENCE;
    for topic in TOPICS {
        for queue_id in 0..QUEUES {
            let end = master.store.max_offset(topic, queue_id);
            let state = || (store.max_offset(topic, queue_id), store.refusal());
            while store.max_offset(topic, queue_id) < end {
                ensure!(
                    Instant::now() < deadline,
                    "{topic}/{queue_id}: {:?}",
                    state()
                );
                std::thread::yield_now();
            }
            let entries = |store: &Store| store.entries(topic, queue_id, 0, end as usize);
            let is_equal = entries(store) == entries(&master.store);
            ensure!(
                is_equal && store.max_offset(topic, queue_id) == end,
                "{topic}/{queue_id} differs from the master's: {:?}",
                state()
            );
        }
    }
    Ok(())
}

fn power_loss(rig: &Rig, names: Names, seed: u64) {
    let master = Master::new(&rig.of(Role::Master), seed);
    let rig = rig.of(Role::Slave);
    let (recording, promises) = record(&rig, &master, seed);
    let mut random = Random::new(seed);
    let moment = |_| random.below(recording.events.len() + 1);
    let mut positions: Vec<_> = (0..IMAGES).map(moment).collect();
    positions.sort_unstable();
    let (mut disk, mut losses, mut at) = (Disk::new(&recording), Losses::default(), 0);
    let (mut shorter, mut kept) = (0, 0);
    for position in positions {
        for event in &recording.events[at..position] {
            disk.play(at, event);
            at += 1;
        }
        let root = directory();
        let lost = disk.image(root.path(), names, &mut random);
        let before = promises.iter().take_while(|one| one.position <= position);
        let durable = master.end_of_messages(before.last().map_or(0, |promise| promise.end));
        match judge(root.path(), &master, &rig, durable) {
            Ok(end) => {
                kept += usize::from(end > durable);
                shorter += usize::from(end < master.end());
            }
            Err(error) => panic!("{error}\nposition {position} of {}", recording.events.len()),
        }
        losses.pieces += lost.pieces;
        losses.torn_pages += lost.torn_pages;
    }
    eprintln!("{losses:?}, {shorter} shorter, {kept} with more than was durable");
    assert!(losses.pieces > IMAGES / 2 && losses.torn_pages > IMAGES / 20);
    assert!(shorter > IMAGES / 2);
}

/// Copies on a disk that fails, with new attempts as after a new connection, then checks the store
/// on a disk that works. Returns whether an operation failed.
fn copy_on_a_failing_disk(rig: &Rig, master: &Master, failing: Failing) -> Verdict<bool> {
    let root = directory();
    let failing = Arc::new(failing);
    let watched = watch(root.path(), Arc::clone(&failing) as Arc<dyn IoHook>);
    let mut durable = 0;
    if let Ok(store) = rig.try_open(root.path()) {
        let mut copying = Copying {
            rig,
            master,
            random: Random::new(1),
        };
        let mut copy = || copying.copy(&store, master.end(), |end| durable = end);
        let is_copied = (0..ATTEMPTS).any(|_| copy().is_ok());
        failing.succeed_again();
        if failing.is_of_room() {
            ensure!(
                is_copied || copy().is_ok(),
                "there is room again: {:?}",
                copy()
            );
            assert_equal_queues(&store, master)?;
        }
        // After a disk failure the clean stop fails, too; that is fine.
        let _ = store.close();
    }
    drop(watched);
    judge(root.path(), master, rig, master.end_of_messages(durable))?;
    Ok(failing.has_failed())
}

fn fail_from_each(sync_flush: bool, kind: Kind, stays: bool) {
    let rig = Rig::new(sync_flush, 16 << 10);
    let master = Master::new(&rig, 26);
    let rig = rig.of(Role::Slave);
    let mut failed = 0;
    for first in (0..).step_by(3) {
        let failing = Failing::new(kind, first, stays).in_log();
        match copy_on_a_failing_disk(&rig, &master, failing) {
            Ok(true) => failed += 1,
            Ok(false) => break,
            Err(error) => panic!("{kind:?} {first} fails, stays {stays}: {error}"),
        }
    }
    assert!(failed > 3, "only {failed} operations failed");
}

#[test]
fn a_slave_on_a_full_disk_goes_on_when_there_is_room() {
    for sync_flush in [false, true] {
        fail_from_each(sync_flush, Kind::Grow, true);
    }
}

#[test]
fn a_slave_whose_sync_fails_acknowledges_nothing_that_is_lost() {
    for stays in [false, true] {
        fail_from_each(true, Kind::Sync, stays);
        fail_from_each(false, Kind::Sync, stays);
    }
}

#[test]
fn a_slave_whose_write_fails_is_a_prefix_of_its_master() {
    for sync_flush in [false, true] {
        fail_from_each(sync_flush, Kind::Write, false);
    }
}

/// A page that was flushed long ago is gone. A start reads the file that its checkpoint is in.
#[test]
fn a_slave_with_a_hole_below_its_checkpoint_does_not_start() {
    let rig = Rig {
        tick_ms: 400,
        ..Rig::new(false, 256 << 10)
    };
    let master = Master::new(&rig, 25);
    let rig = rig.of(Role::Slave);
    let root = directory();
    let store = rig.open(root.path());
    let mut copying = Copying {
        rig: &rig,
        master: &master,
        random: Random::new(25),
    };
    copying.copy(&store, master.end(), |_| ()).unwrap();
    close(store).unwrap();
    fs::write(root.path().join("abort"), b"").unwrap();
    let first = root.path().join("commitlog").join(format!("{:020}", 0));
    let file = fs::OpenOptions::new().write(true).open(first).unwrap();
    file.write_all_at(&[0; 4096], 4096).unwrap();
    drop(file);
    let before = content(root.path());
    let refused = rig.try_open(root.path()).err().unwrap();
    assert!(refused.contains("mqstore cut"), "{refused}");
    assert!(before == content(root.path()), "it changed the store");
    // A master keeps what it can.
    let store = rig.of(Role::Master).open(root.path());
    assert_eq!(store.raw_range().1, master.end());
    close(store).unwrap();
}

#[test]
fn a_slave_that_loses_power_is_a_prefix_of_its_master() {
    power_loss(&Rig::new(false, 16 << 10), Names::Journal, 21);
    power_loss(&Rig::new(false, 64 << 10), Names::Loose, 22);
}

#[test]
fn a_slave_with_sync_flush_has_what_it_acknowledged() {
    power_loss(&Rig::new(true, 16 << 10), Names::Journal, 23);
}

#[test]
fn a_slave_with_a_moving_checkpoint_is_a_prefix_of_its_master() {
    let rig = Rig {
        tick_ms: 400,
        ..Rig::new(false, 8 << 10)
    };
    power_loss(&rig, Names::Journal, 24);
}
