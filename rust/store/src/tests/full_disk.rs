//! A disk that is full while the log, its queues or its index are written. Writes wait for room,
//! and the store continues. Any other failure, and every failed sync, stops the store until a
//! restart; a failed sync of a new file's name is repeated with another file.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use super::store_rig::{PATIENCE, Rig, Told, rig_with, settings};
use super::test_rig::request;
use crate::settings::{QueueExt, Settings};
use crate::types::{AckOutcome, GetStatus, Put, PutRequest, PutStatus, Settled, StoreError};
use mq_log::{IoHook, Operation, Target, Watch, watch};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

type Fails = fn(&Path, &Operation<'_>) -> bool;

/// A disk that fails the selected operations with an error number, unless it is 0.
#[derive(Debug)]
struct Disk {
    fails: Fails,
    errno: AtomicI32,
    failures: AtomicUsize,
}

impl IoHook for Disk {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let errno = self.errno.load(Ordering::SeqCst);
        if errno == 0 || !(self.fails)(target.path, operation) {
            return Ok(0);
        }
        if let Operation::Write(offset, slices) = operation {
            // Half of the bytes are written.
            let bytes = slices.concat();
            let file = std::fs::OpenOptions::new().write(true).open(target.path);
            let half = &bytes[..bytes.len() / 2];
            file.and_then(|file| file.write_all_at(half, *offset))?;
        }
        self.failures.fetch_add(1, Ordering::SeqCst);
        Err(io::Error::from_raw_os_error(errno))
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

fn is_in(path: &Path, directory: &str) -> bool {
    path.components()
        .any(|part| part.as_os_str().to_string_lossy().starts_with(directory))
}

/// Operations that need free blocks, except those of the log. The index is written through a map.
fn needs_room(path: &Path, operation: &Operation<'_>) -> bool {
    let is_log = is_in(path, "commitlog") || path.extension().is_some_and(|of| of == "new");
    let needs = match operation {
        Operation::Create | Operation::CreateDirectory | Operation::Allocate(..) => true,
        Operation::Write(..) => is_in(path, "consumequeue"),
        _ => false,
    };
    needs && !is_log
}

/// Only the next file of the index, which is created in another directory.
fn index_needs_room(_path: &Path, operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Rename(to) if is_in(to, "index"))
}

fn is_queue_sync(path: &Path, operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Sync(..)) && is_in(path, "consumequeue")
}

fn is_index_sync(path: &Path, operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::SyncDirectory) && is_in(path, "index")
}

fn with_ext(enabled: bool) -> Settings {
    Settings {
        queue_ext: QueueExt {
            enabled,
            file_bytes: Some(100),
            ..QueueExt::default()
        },
        ..settings()
    }
}

/// A store with three messages on such a disk.
struct Scene {
    rig: Rig,
    disk: Arc<Disk>,
    told: Told,
    _watch: Watch,
}

fn scene(settings: Settings, fails: Fails) -> Scene {
    let rig = rig_with(settings);
    for number in 0..3 {
        assert_eq!(put(&rig, number), PutStatus::Ok);
    }
    rig.wait_until_flushed();
    let disk = Arc::new(Disk {
        fails,
        errno: AtomicI32::new(0),
        failures: AtomicUsize::new(0),
    });
    let watch = watch(rig.root.path(), Arc::clone(&disk) as Arc<dyn IoHook>);
    // Files that are already open are not watched.
    let rig = rig.reopen(false);
    let told = rig.tell();
    rig.clock.advance(10_000);
    Scene {
        rig,
        disk,
        told,
        _watch: watch,
    }
}

fn put(rig: &Rig, number: usize) -> PutStatus {
    let key = format!("KEYS\x01k{number}");
    let request = PutRequest {
        properties: key.as_bytes(),
        ..request("T", b"x")
    };
    rig.store.wait(rig.store.put(&request)).status
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "still not: {what}");
        std::thread::yield_now();
    }
}

impl Scene {
    /// Puts until puts are refused; returns the number of messages.
    fn fill(&self, errno: i32) -> usize {
        self.disk.errno.store(errno, Ordering::SeqCst);
        let until = Instant::now() + PATIENCE;
        for number in 3.. {
            if put(&self.rig, number) != PutStatus::Ok {
                return number;
            }
            // The dispatcher finds the full disk while the log continues.
            while number > 20 && self.rig.store.refusal().is_none() {
                assert!(
                    Instant::now() < until,
                    "the dispatcher did not find the full disk"
                );
                std::thread::yield_now();
            }
        }
        unreachable!()
    }

    fn make_room(&self) {
        self.disk.errno.store(0, Ordering::SeqCst);
    }

    fn refusal(&self) -> String {
        self.rig.store.refusal().unwrap_or_default()
    }
}

/// Checks that all messages are stored in order, and each key once.
fn check(rig: &Rig, count: usize) {
    let end = i64::try_from(count).unwrap();
    assert_eq!(rig.bounds(), (0, end));
    let index = rig.store.reader.index.as_ref().unwrap();
    let queue = rig.store.reader.queues.get("T", 1).unwrap();
    for offset in 0..end {
        assert_eq!(rig.get(offset), (GetStatus::Found, offset + 1));
        let at = queue.entry(offset).unwrap().physical_offset;
        let hits = index.look_up("T", &format!("k{offset}"), 64, 0, i64::MAX);
        assert_eq!(hits.physical_offsets, [at], "k{offset}");
    }
}

fn goes_on_with_room(has_ext: bool) {
    let scene = scene(with_ext(has_ext), needs_room);
    let rig = &scene.rig;
    let vouched_ms = rig.store.positions.checkpoint.safe_timestamp_ms();
    let count = scene.fill(ENOSPC);
    wait_until("dispatch waits", || {
        scene.refusal().contains("dispatch waits for room")
            && scene.disk.failures.load(Ordering::SeqCst) > 2
    });
    assert!(
        scene.refusal().contains("No space left"),
        "{}",
        scene.refusal()
    );
    assert_eq!(put(rig, count), PutStatus::ServiceNotAvailable);
    assert_eq!(rig.get(0), (GetStatus::Found, 1), "reads continue");
    // Neither an upkeep round nor a flush ends the wait or marks messages as dispatched.
    rig.store.upkeep.round();
    rig.store.upkeep.round();
    assert_eq!(put(rig, count), PutStatus::ServiceNotAvailable);
    assert!(rig.store.puts.flusher.acks.poison().is_none());
    assert!(rig.store.dispatcher.progress().dispatched() < rig.store.log.max_offset());
    assert_eq!(
        rig.store.positions.checkpoint.safe_timestamp_ms(),
        vouched_ms
    );

    scene.make_room();
    wait_until("puts are accepted again", || rig.store.refusal().is_none());
    for number in count..count + 20 {
        wait_until("puts succeed again", || put(rig, number) == PutStatus::Ok);
    }
    rig.wait_until_flushed();
    let count = count + 20;
    check(rig, count);
    let told = scene.told.lock().clone();
    let ends: Vec<i64> = told.iter().map(|(end, _)| *end).collect();
    assert_eq!(
        ends,
        (4..=i64::try_from(count).unwrap()).collect::<Vec<_>>()
    );
    assert!(told.iter().all(|(end, readable_to)| end <= readable_to));
    let workshop = std::fs::read_dir(rig.root.path().join("mqstack")).unwrap();
    let left = workshop.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert_eq!(left.filter(|name| name.starts_with("new-")).count(), 0);

    // A crash leaves at most the usual damage.
    let Scene { rig, .. } = scene;
    let rig = rig.reopen(true);
    check(&rig, count);
    check(&rig.reopen(false), count);
}

#[test]
fn dispatch_continues_when_the_index_has_room() {
    goes_on_with_room(false);
}

#[test]
fn dispatch_continues_when_extended_queues_have_room() {
    goes_on_with_room(true);
}

#[test]
fn a_store_that_waits_for_room_closes_and_is_recovered() {
    let without_room: [(bool, Fails); 3] = [
        // Queues and offsets can be saved.
        (false, index_needs_room),
        (false, needs_room),
        (true, needs_room),
    ];
    for (has_ext, fails) in without_room {
        let scene = scene(with_ext(has_ext), fails);
        let count = scene.fill(ENOSPC);
        wait_until("dispatch waits", || {
            scene.refusal().contains("dispatch waits for room")
        });
        let began = Instant::now();
        let error = scene.rig.store.close().unwrap_err();
        let StoreError::Poisoned(why) = &error else {
            panic!("{error}");
        };
        assert!(why.starts_with("dispatch: "), "{why}");
        assert!(why.contains("No space left"), "{why}");
        assert!(began.elapsed() < PATIENCE);
        assert!(scene.rig.root.path().join("abort").exists());
        scene.make_room();
        let Scene { rig, .. } = scene;
        check(&rig.reopen(false), count);
    }
}

#[test]
fn another_failure_stops_dispatch_until_a_restart() {
    let scene = scene(with_ext(true), needs_room);
    let count = scene.fill(EIO);
    assert!(
        scene.refusal().starts_with("dispatch: "),
        "{}",
        scene.refusal()
    );
    scene.make_room();
    scene.rig.store.upkeep.round();
    assert_eq!(put(&scene.rig, count), PutStatus::ServiceNotAvailable);
    assert!(scene.rig.store.puts.flusher.acks.poison().is_some());
}

#[test]
fn a_sync_failed_for_room_stops_until_a_restart() {
    let scene = scene(settings(), is_queue_sync);
    scene.disk.errno.store(ENOSPC, Ordering::SeqCst);
    assert_eq!(put(&scene.rig, 3), PutStatus::Ok);
    wait_until("a flush fails", || scene.rig.store.refusal().is_some());
    scene.make_room();
    scene.rig.store.upkeep.round();
    let why = scene.refusal();
    assert!(why.starts_with("flush of the consume queues: "), "{why}");
    assert!(scene.rig.store.puts.flusher.acks.poison().is_some());
    assert!(scene.rig.store.flush().is_err());
}

#[test]
fn a_name_that_was_not_synced_for_room_is_made_again() {
    let scene = scene(settings(), is_index_sync);
    let rig = &scene.rig;
    let count = scene.fill(ENOSPC);
    wait_until("dispatch waits", || {
        scene.refusal().contains("dispatch waits for room")
            && scene.disk.failures.load(Ordering::SeqCst) > 2
    });
    assert!(rig.store.puts.flusher.acks.poison().is_none());
    scene.make_room();
    wait_until("puts are accepted again", || rig.store.refusal().is_none());
    assert_eq!(put(rig, count), PutStatus::Ok);
    rig.wait_until_flushed();
    check(rig, count + 1);
    let Scene { rig, .. } = scene;
    check(&rig.reopen(true), count + 1);
}

#[test]
fn a_name_that_the_disk_cannot_sync_stops_dispatch() {
    let scene = scene(settings(), is_index_sync);
    let count = scene.fill(EIO);
    assert!(
        scene.refusal().starts_with("dispatch: "),
        "{}",
        scene.refusal()
    );
    scene.make_room();
    assert_eq!(put(&scene.rig, count), PutStatus::ServiceNotAvailable);
    assert!(scene.rig.store.puts.flusher.acks.poison().is_some());
}

fn is_log_write(path: &Path, operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Write(..)) && is_in(path, "commitlog")
}

fn is_log_sync(path: &Path, operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Sync(..)) && is_in(path, "commitlog")
}

fn with_sync_flush() -> Settings {
    Settings {
        sync_flush: true,
        ..settings()
    }
}

/// Parks a put like a server; the outcome arrives later.
fn park(rig: &Rig, number: usize) -> mpsc::Receiver<AckOutcome> {
    let key = format!("KEYS\x01k{number}");
    let request = PutRequest {
        properties: key.as_bytes(),
        ..request("T", b"x")
    };
    let Put::Parked(_, ticket) = rig.store.put(&request) else {
        panic!("a put of SYNC_FLUSH waits");
    };
    let (sender, outcome) = mpsc::channel();
    let listener = move |settled: &[Settled]| {
        let outcomes = settled.iter().map(|settled| settled.outcome);
        outcomes.for_each(|outcome| sender.send(outcome).unwrap());
    };
    rig.store.on_settled(Box::new(listener)).unwrap();
    assert_eq!(rig.store.park(ticket, 0), None);
    outcome
}

#[test]
fn a_log_write_without_room_is_repeated_with_room() {
    let scene = scene(with_sync_flush(), is_log_write);
    let rig = &scene.rig;
    scene.disk.errno.store(ENOSPC, Ordering::SeqCst);
    let waiting = park(rig, 3);
    wait_until("the write is tried again", || {
        scene.disk.failures.load(Ordering::SeqCst) > 2
    });
    let why = scene.refusal();
    assert!(why.contains("the commit log waits for room"), "{why}");
    assert!(why.contains("No space left"), "{why}");
    assert_eq!(put(rig, 4), PutStatus::ServiceNotAvailable);
    assert_eq!(rig.get(0), (GetStatus::Found, 1), "reads continue");
    rig.store.upkeep.round();
    assert_eq!(put(rig, 4), PutStatus::ServiceNotAvailable);
    assert!(rig.store.flush().is_err());
    assert!(waiting.try_recv().is_err());
    scene.make_room();
    assert_eq!(waiting.recv_timeout(PATIENCE), Ok(AckOutcome::Durable));
    wait_until("puts are accepted again", || rig.store.refusal().is_none());
    assert_eq!(put(rig, 4), PutStatus::Ok);
    assert!(rig.store.puts.flusher.acks.poison().is_none());
    rig.wait_until_flushed();
    check(rig, 5);
    let Scene { rig, .. } = scene;
    let rig = rig.reopen(true);
    check(&rig, 5);
    check(&rig.reopen(false), 5);
}

#[test]
fn without_room_a_put_that_does_not_wait_gets_a_timeout() {
    let scene = scene(with_sync_flush(), is_log_write);
    scene.disk.errno.store(ENOSPC, Ordering::SeqCst);
    let careless = PutRequest {
        wait_store_ok: false,
        properties: b"KEYS\x01k3",
        ..request("T", b"x")
    };
    let Put::Done(result) = scene.rig.store.put(&careless) else {
        panic!("WAIT=false waits");
    };
    assert_eq!(result.status, PutStatus::FlushDiskTimeout);
    assert_eq!(result.queue_offset, 3);
    scene.make_room();
    wait_until("puts are accepted again", || {
        scene.rig.store.refusal().is_none()
    });
    scene.rig.wait_until_flushed();
    check(&scene.rig, 4);
}

#[test]
fn a_store_whose_log_waits_for_room_closes_and_says_so() {
    let scene = scene(with_sync_flush(), is_log_write);
    scene.disk.errno.store(ENOSPC, Ordering::SeqCst);
    let waiting = park(&scene.rig, 3);
    wait_until("the log waits", || scene.rig.store.refusal().is_some());
    let began = Instant::now();
    let error = scene.rig.store.close().unwrap_err().to_string();
    assert!(error.contains("the commit log waits for room"), "{error}");
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(waiting.recv_timeout(PATIENCE), Ok(AckOutcome::FlushTimeout));
    assert!(scene.rig.root.path().join("abort").exists());
    scene.make_room();
    let Scene { rig, .. } = scene;
    // Half of the page was written; the record is in it.
    check(&rig.reopen(false), 4);
}

#[test]
fn a_log_sync_failed_for_room_stops_until_a_restart() {
    let scene = scene(with_sync_flush(), is_log_sync);
    scene.disk.errno.store(ENOSPC, Ordering::SeqCst);
    let outcome = park(&scene.rig, 3);
    assert_eq!(outcome.recv_timeout(PATIENCE), Ok(AckOutcome::Poisoned));
    scene.make_room();
    scene.rig.store.upkeep.round();
    assert_eq!(put(&scene.rig, 4), PutStatus::ServiceNotAvailable);
    let why = scene.refusal();
    assert!(why.starts_with("flush of the commit log"), "{why}");
}
