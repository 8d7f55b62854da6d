//! Entries that readers see before they are in a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::derive::queues::flush::FEW_QUEUES;
use crate::derive::queues::queue::{Appended, ConsumeQueue};
use crate::derive::queues::queue_buffer::{ALL_BYTES_MAX, KEPT_BYTES_MAX};
use crate::derive::queues::table::ConsumeQueues;
use crate::settings::{QueueExt, Settings};
use crate::tests::store_rig::{PATIENCE, Rig, rig_with, settings};
use crate::tests::test_rig::request;
use crate::types::{GetStatus, Put, PutStatus, ReadMode, StoreError};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::consume_queue_ext::ExtUnit;
use mq_format::message::SCHEDULE_TOPIC;
use mq_log::{IoHook, Operation, Target, watch};

/// Entries of a queue file.
const ENTRIES: i64 = 5;

pub(crate) fn open(root: &Path, entries: i64, has_ext: bool) -> ConsumeQueues {
    let settings = Settings {
        consume_queue_file_bytes: Some(entries.unsigned_abs() * ENTRY_BYTES as u64),
        queue_ext: QueueExt {
            enabled: has_ext,
            ..QueueExt::default()
        },
        ..Settings::default()
    };
    ConsumeQueues::open(root, &settings, false).unwrap()
}

fn entry_at(offset: i64) -> QueueEntry {
    QueueEntry {
        physical_offset: offset * 100,
        size_bytes: 100,
        tags_code: offset,
    }
}

pub(crate) fn append(queue: &ConsumeQueue, range: std::ops::Range<i64>) {
    for offset in range {
        let appended = queue.append(offset, entry_at(offset), None);
        assert_eq!(appended, Appended::New);
    }
}

/// Reads every range of a queue, up to the end of a file.
fn check_ranges(queue: &ConsumeQueue, end: i64) {
    assert_eq!(queue.max_offset(), end);
    for from in 0..end {
        for count in 1..=end - from {
            let mut out = vec![7];
            let length = count.unsigned_abs() as usize * ENTRY_BYTES;
            assert_eq!(queue.read(from, length, ReadMode::Wait, &mut out), Ok(true));
            let to = (from + count).min(queue.next_file_offset(from));
            let read: Vec<_> = QueueEntry::decode_all(&out[1..]).collect();
            assert_eq!(
                read,
                (from..to).map(entry_at).collect::<Vec<_>>(),
                "{from} {count}"
            );
        }
    }
}

fn pending(queue: &ConsumeQueue) -> i64 {
    queue.files.shared.pending.load(Ordering::Relaxed) / ENTRY_BYTES as i64
}

#[test]
fn published_entries_are_read_and_flushed_ones_are_written() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), ENTRIES, false);
    let queue = queues.for_record("T", 0).unwrap();
    let directory = root.path().join("consumequeue/T/0");
    append(&queue, 0..7);
    assert_eq!(queue.max_offset(), 0, "not published yet");
    queues.publish(&[Arc::clone(&queue)]).unwrap();
    assert!(!directory.exists() && pending(&queue) == 7);
    check_ranges(&queue, 7);
    for behind in [7, 8, 1 << 40] {
        assert_eq!(queue.stored_entry(behind), None);
    }
    queues.flush().unwrap();
    assert_eq!(pending(&queue), 0);
    check_ranges(&queue, 7);
    // Some are in the file, some after its end, some in a file that does not exist yet.
    append(&queue, 7..13);
    assert_eq!(queue.max_offset(), 7);
    queues.publish(&[Arc::clone(&queue)]).unwrap();
    assert!(!directory.join("00000000000000000200").exists());
    check_ranges(&queue, 13);
    queues.flush().unwrap();
    check_ranges(&queue, 13);
    let again = open(root.path(), ENTRIES, false).get("T", 0).unwrap();
    check_ranges(&again, 13);
}

#[test]
fn a_range_not_in_memory_does_not_hide_the_other_entries() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), 1_000, false);
    let queue = queues.for_record("T", 0).unwrap();
    append(&queue, 0..4);
    queue.publish().unwrap();
    queue.flush().unwrap();
    append(&queue, 4..6);
    queue.publish().unwrap();
    queue.files.open(0).unwrap().set_len(50).unwrap();
    let mut out = Vec::new();
    // The file ends early. The entries that it lacks must not be replaced by later ones.
    assert_eq!(queue.read(0, 1_000, ReadMode::NoWait, &mut out), Ok(true));
    assert_eq!(
        QueueEntry::decode_all(&out).collect::<Vec<_>>(),
        [entry_at(0), entry_at(1)]
    );
    assert_eq!(queue.read(0, 1_000, ReadMode::Wait, &mut out), Ok(false));
    assert_eq!(out.len(), 2 * ENTRY_BYTES);
    out.clear();
    assert_eq!(queue.read(4, 1_000, ReadMode::NoWait, &mut out), Ok(true));
    assert_eq!(
        QueueEntry::decode_all(&out).collect::<Vec<_>>(),
        [entry_at(4), entry_at(5)]
    );
}

#[test]
fn pending_bytes_of_all_queues_together_are_limited() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), 1_000_000, false);
    let one = queues.for_record("T", 0).unwrap();
    let entries = (KEPT_BYTES_MAX / ENTRY_BYTES) as i64;
    append(&one, 0..entries);
    queues.publish(&[Arc::clone(&one)]).unwrap();
    assert_eq!(pending(&one), entries);
    queues.write_pending().unwrap();
    assert_eq!(pending(&one), 0);

    let enough = ALL_BYTES_MAX / entries / ENTRY_BYTES as i64;
    for queue_id in 1..=i32::try_from(enough).unwrap() + 1 {
        let queue = queues.for_record("T", queue_id).unwrap();
        append(&queue, 0..entries);
        queues.publish(&[queue]).unwrap();
        assert!(pending(&one) * ENTRY_BYTES as i64 <= ALL_BYTES_MAX);
        assert_eq!(
            pending(&one) > 0,
            i64::from(queue_id) <= enough,
            "{queue_id}"
        );
    }
    let last = queues.get("T", 2).unwrap();
    assert_eq!(last.written_to.load(Ordering::Relaxed), entries);
    let room = |queue: &ConsumeQueue| queue.tail.lock().pending.capacity();
    assert!(room(&last) >= KEPT_BYTES_MAX / 2);
    queues.flush().unwrap();
    queues.flush().unwrap();
    assert!(room(&last) < 1_000, "an idle queue keeps no room");
}

#[test]
fn few_queues_are_written_between_two_flushes_and_many_are_not() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), ENTRIES, false);
    let put = |queue_id: usize, offset| {
        let queue_id = i32::try_from(queue_id).unwrap();
        let queue = queues.for_record("T", queue_id).unwrap();
        append(&queue, offset..offset + 1);
        queues.publish(&[Arc::clone(&queue)]).unwrap();
        queue
    };
    let last = (0..FEW_QUEUES)
        .map(|queue_id| put(queue_id, 0))
        .reduce(|_, last| last)
        .unwrap();
    queues.write_few().unwrap();
    assert_eq!(pending(&last), 0);
    put(0, 1);
    put(FEW_QUEUES, 0);
    queues.write_few().unwrap();
    assert_eq!(pending(&last), 2);
    queues.flush().unwrap();
    assert_eq!(pending(&last), 0);
    put(0, 2);
    queues.write_few().unwrap();
    assert_eq!(pending(&last), 0);
}

#[test]
fn a_queue_with_an_extension_is_written_at_once() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), ENTRIES, true);
    let queue = queues.for_record("T", 0).unwrap();
    let ext = ExtUnit {
        tags_code: 5,
        store_timestamp_ms: 6,
        bitmap: &[7],
    };
    queue.append(0, entry_at(0), Some(&ext));
    queues.publish(&[Arc::clone(&queue)]).unwrap();
    assert_eq!((pending(&queue), queue.max_offset()), (0, 1));
    let again = open(root.path(), ENTRIES, true).get("T", 0).unwrap();
    let found = again.entry(0).unwrap();
    let mut codes = again.tags_codes(ReadMode::Wait);
    assert_eq!(codes.tags_code(&found), Ok(Some(5)));
}

#[test]
fn delayed_messages_and_light_queues_are_written_at_once() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), ENTRIES, false);
    for (topic, expected) in [(SCHEDULE_TOPIC, 0), ("%LMQ%alice", 0), ("alice", 3)] {
        let queue = queues.for_record(topic, 0).unwrap();
        append(&queue, 0..3);
        queues.publish(&[Arc::clone(&queue)]).unwrap();
        assert_eq!(pending(&queue), expected, "{topic}");
        check_ranges(&queue, 3);
    }
}

#[test]
fn a_removed_queue_drops_its_pending_entries() {
    let root = tempfile::tempdir().unwrap();
    let queues = open(root.path(), ENTRIES, false);
    let queue = queues.for_record("T", 0).unwrap();
    append(&queue, 0..7);
    queues.publish(&[Arc::clone(&queue)]).unwrap();
    queues.remove(&queue).unwrap();
    assert_eq!(pending(&queue), 0);
    let anew = queues.for_record("T", 0).unwrap();
    append(&anew, 0..2);
    queues.publish(&[Arc::clone(&anew)]).unwrap();
    queues.flush().unwrap();
    check_ranges(&open(root.path(), ENTRIES, false).get("T", 0).unwrap(), 2);
}

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// A disk that fails writes to consume queues with an error number, unless it is 0.
#[derive(Debug, Default)]
struct Failing {
    errno: AtomicI32,
}

impl IoHook for Failing {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let is_write = matches!(operation, Operation::Write(..));
        let is_queue = target
            .path
            .components()
            .any(|part| part.as_os_str() == "consumequeue");
        // A new file is written under its temporary name.
        let is_new = target.path.to_string_lossy().contains("mqstack/new-");
        let errno = self.errno.load(Ordering::SeqCst);
        match is_write && (is_queue || is_new) && errno != 0 {
            true => Err(io::Error::from_raw_os_error(errno)),
            false => Ok(0),
        }
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

#[test]
fn a_failed_write_keeps_its_entries_pending() {
    let root = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let _watch = watch(root.path(), Arc::clone(&disk) as Arc<dyn IoHook>);
    let queues = open(root.path(), ENTRIES, false);
    let queue = queues.for_record("T", 0).unwrap();
    append(&queue, 0..7);
    queues.publish(&[Arc::clone(&queue)]).unwrap();
    disk.errno.store(EIO, Ordering::SeqCst);
    let failed = queues.flush().unwrap_err().to_string();
    assert!(failed.contains("consumequeue/T/0"), "{failed}");
    assert_eq!(pending(&queue), 7);
    check_ranges(&queue, 7);
    disk.errno.store(0, Ordering::SeqCst);
    let again = queues.flush().unwrap_err().to_string();
    assert!(again.contains(&failed), "{again}");
    queue.flush().unwrap();
    check_ranges(&open(root.path(), ENTRIES, false).get("T", 0).unwrap(), 7);
}

#[test]
fn entries_wait_on_a_full_disk_and_are_flushed_later() {
    let root = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let _watch = watch(root.path(), Arc::clone(&disk) as Arc<dyn IoHook>);
    let queues = open(root.path(), 10_000, false);
    let [first, second] = [0, 1].map(|queue_id| queues.for_record("T", queue_id).unwrap());
    let both = [Arc::clone(&first), Arc::clone(&second)];
    append(&first, 0..7);
    first.write_pending().unwrap();
    append(&second, 0..1);
    queues.publish(&both).unwrap();
    disk.errno.store(ENOSPC, Ordering::SeqCst);
    // More entries than a queue buffers: the write is tried and waits.
    append(&second, 1..8_000);
    queues.publish(&both).unwrap();
    assert_eq!((second.max_offset(), pending(&second)), (8_000, 8_000));
    for _ in 0..2 {
        assert!(matches!(queues.flush(), Err(StoreError::Full { .. })));
        assert!(matches!(queues.write_few(), Err(StoreError::Full { .. })));
    }
    assert_eq!((pending(&second), queues.noted.lock().len()), (8_000, 2));
    check_ranges(&first, 7);
    disk.errno.store(0, Ordering::SeqCst);
    queues.flush().unwrap();
    let again = queues.noted.lock().len();
    assert_eq!((pending(&second), again), (0, 1), "for its room");
    for queue in both {
        let [dirty, _] = queue.take_dirty().unwrap();
        assert_eq!(dirty.count(), 0, "what was written before is synced, too");
    }
    let again = open(root.path(), 10_000, false);
    check_ranges(&again.get("T", 0).unwrap(), 7);
    let last = again.get("T", 1).unwrap();
    assert_eq!(
        (last.max_offset(), last.stored_entry(7_999)),
        (8_000, Some(entry_at(7_999)))
    );
}

/// A disk that can be set to have no file descriptors left for queues. Notes the synced files.
#[derive(Debug, Default)]
struct NoDescriptor {
    is_out: AtomicBool,
    synced: Mutex<Vec<PathBuf>>,
}

impl IoHook for NoDescriptor {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let is_queue = target.path.to_string_lossy().contains("consumequeue");
        let is_open = matches!(operation, Operation::Open);
        match is_queue && is_open && self.is_out.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            false => Ok(0),
        }
    }

    fn after(&self, target: Target<'_>, operation: &Operation<'_>, _began: u64) {
        if matches!(operation, Operation::Sync(..) | Operation::SyncDirectory) {
            self.synced.lock().push(target.path.to_owned());
        }
    }
}

#[test]
fn a_flush_without_a_descriptor_is_repeated_completely() {
    let root = tempfile::tempdir().unwrap();
    let disk = Arc::new(NoDescriptor::default());
    let _watch = watch(root.path(), Arc::clone(&disk) as Arc<dyn IoHook>);
    let queues = open(root.path(), ENTRIES, false);
    let [first, second] = [0, 1].map(|queue_id| queues.for_record("T", queue_id).unwrap());
    for queue in [&first, &second] {
        append(queue, 0..4);
    }
    queues
        .publish(&[Arc::clone(&first), Arc::clone(&second)])
        .unwrap();
    queues.write_pending().unwrap();
    // The first file is still open: it can be synced without a new descriptor, the other cannot.
    second.files.shared.open.forget(second.files.number, 0);
    disk.is_out.store(true, Ordering::SeqCst);
    disk.synced.lock().clear();
    for _ in 0..2 {
        let error = queues.flush().unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
    }
    append(&first, 4..5);
    queues.publish(&[Arc::clone(&first)]).unwrap();
    disk.is_out.store(false, Ordering::SeqCst);
    disk.synced.lock().clear();
    queues.flush().unwrap();
    let of = |queue: &ConsumeQueue| queue.files.directory.clone();
    let mut expected = vec![root.path().to_owned(), root.path().join("consumequeue")];
    expected.push(root.path().join("consumequeue/T"));
    expected.extend([&first, &second].map(|queue| of(queue)));
    expected.extend([&first, &second].map(|queue| of(queue).join("00000000000000000000")));
    // A file is listed by the name under which it was opened.
    let name = |path: &PathBuf| match path.to_string_lossy().contains("mqstack/new-") {
        true => of(&first).join("00000000000000000000"),
        false => path.clone(),
    };
    let mut synced: Vec<_> = disk.synced.lock().iter().map(name).collect();
    expected.sort();
    synced.sort();
    assert_eq!(synced, expected);
    check_ranges(&open(root.path(), ENTRIES, false).get("T", 0).unwrap(), 5);
    check_ranges(&open(root.path(), ENTRIES, false).get("T", 1).unwrap(), 4);
}

fn put(rig: &Rig, body: &[u8]) -> PutStatus {
    match rig.store.put(&request("T", body)) {
        Put::Done(result) => result.status,
        other @ Put::Parked(..) => rig.store.wait(other).status,
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "still not: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_failed_write_stops_the_store_and_loses_no_message() {
    let rig = rig_with(settings());
    assert_eq!(put(&rig, b"written"), PutStatus::Ok);
    rig.wait_until_flushed();
    let vouched_ms = rig.store.positions.checkpoint.safe_timestamp_ms();
    let disk = Arc::new(Failing::default());
    let _watch = watch(rig.root.path(), Arc::clone(&disk) as Arc<dyn IoHook>);
    // Files that are already open are not watched.
    let rig = rig.reopen(false);
    disk.errno.store(EIO, Ordering::SeqCst);
    let told = rig.tell();
    rig.clock.advance(10_000);
    assert_eq!(put(&rig, b"pending"), PutStatus::Ok);
    // The listener gets the message's arrival and can read it.
    wait_until("the arrival is reported", || told.lock().len() == 1);
    assert_eq!(*told.lock(), [(2, 2)]);
    assert_eq!(rig.get(1), (GetStatus::Found, 2));

    // The upkeep thread fails to write it: puts are refused, stored messages can be read.
    wait_until("puts are refused", || rig.store.refusal().is_some());
    let why = rig.store.refusal().unwrap();
    assert!(
        why.contains(" of the consume queues") && why.contains("consumequeue/T/1"),
        "{why}"
    );
    assert_eq!(put(&rig, b"refused"), PutStatus::ServiceNotAvailable);
    assert_eq!(rig.get(1), (GetStatus::Found, 2));
    assert_eq!(
        rig.store.positions.checkpoint.safe_timestamp_ms(),
        vouched_ms
    );

    let rig = rig.reopen(true);
    assert_eq!(rig.bounds(), (0, 2));
    assert_eq!(rig.get(1), (GetStatus::Found, 2));
}
