//! Append, acknowledge and flush together, over disks that record, fail and crash.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;

use super::ack::Acks;
use super::append::{Appender, QueueOffsets, Tail};
use super::encode::Encoder;
use super::flush::{FlushThreads, Flusher};
use super::space::Space;
use super::types::{AckOutcome, PutRequest, PutResult, PutStatus, Ticket};
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::format::delay_levels::DelayLevels;
use crate::format::message::{BLANK_BYTES, CheckCrc, Head, RecordView, blank};
use crate::format::properties;
use crate::log::{Event, Faulting, Faults, Files, Memory, Recording, Segments, Writer};

const FILE_SIZE: u64 = 4096;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const FAR_MS: i64 = i64::MAX;

struct Rig<F: Files> {
    appender: Appender<F>,
    flusher: Arc<Flusher<F>>,
}

fn rig<F: Files>(files: F, clock: Arc<dyn Clock>) -> Rig<F> {
    let log = Arc::new(Segments::open(files, FILE_SIZE).unwrap());
    let acks = Arc::new(Acks::new(Arc::clone(&clock), 0));
    let last_store_timestamp_ms = Arc::new(AtomicI64::new(0));
    let appender = Appender {
        encoder: Encoder {
            max_message_bytes: 3000,
            levels: DelayLevels::parse("1s 5s").unwrap(),
        },
        clock,
        acks: Arc::clone(&acks),
        space: Arc::new(Space::new("/".as_ref(), Some(0))),
        last_store_timestamp_ms: Arc::clone(&last_store_timestamp_ms),
        locked_at_ms: AtomicI64::new(0),
        tail: Mutex::new(Tail {
            writer: Writer::new(Arc::clone(&log), 1024),
            queue_offsets: QueueOffsets::default(),
            is_closed: false,
        }),
    };
    let on_flushed = Box::new(|_| ());
    let flusher = Arc::new(Flusher {
        log,
        acks,
        last_store_timestamp_ms,
        on_flushed,
    });
    Rig { appender, flusher }
}

fn request<'a>(topic: &'a str, body: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        topic,
        queue_id: 1,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 5,
        born_host: "127.0.0.1:50000".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: b"TAGS\x01TagA",
        wait_store_ok: true,
        delay_level: 0,
    }
}

impl<F: Files> Rig<F> {
    fn put(&self, body: &[u8]) -> PutResult {
        self.appender.put_one(&request("T", body))
    }

    fn ticket(result: &PutResult, deadline_ms: i64) -> Ticket {
        Ticket {
            end_offset: result.physical_offset + i64::from(result.size_bytes),
            deadline_ms,
        }
    }

    fn with_record<R>(&self, offset: i64, check: impl FnOnce(RecordView<'_>) -> R) -> R {
        let mut bytes = vec![0; FILE_SIZE as usize];
        self.flusher
            .log
            .read_at(offset.cast_unsigned(), &mut bytes)
            .unwrap();
        check(RecordView::parse(&bytes, CheckCrc::Yes).unwrap())
    }
}

#[test]
fn records_of_a_queue_are_numbered_and_stamped() {
    let clock = ManualClock::at(1_000_000);
    let rig = rig(Memory::default(), clock.clone());
    let first = rig.put(b"one");
    assert_eq!(
        (first.status, first.physical_offset, first.queue_offset),
        (PutStatus::Ok, 0, 0)
    );
    assert_eq!(first.store_timestamp_ms, 1_000_000);
    clock.set_wall(999_000);
    let second = rig.put(b"two");
    assert_eq!(second.physical_offset, i64::from(first.size_bytes));
    assert_eq!(
        (second.queue_offset, second.store_timestamp_ms),
        (1, 1_000_000)
    );
    clock.set_wall(900_000);
    assert_eq!(rig.put(b"three").store_timestamp_ms, 900_000);
    rig.with_record(second.physical_offset, |record| {
        assert_eq!(
            (record.topic, record.body, record.queue_id),
            ("T", &b"two"[..], 1)
        );
        assert_eq!(
            (record.queue_offset, record.store_timestamp_ms),
            (1, 1_000_000)
        );
        assert_eq!(record.physical_offset, second.physical_offset);
    });
    assert_eq!(
        rig.appender.put_one(&request("Other", b"x")).queue_offset,
        0
    );
}

#[test]
fn half_messages_take_no_queue_offset() {
    let rig = rig(Memory::default(), ManualClock::at(1));
    rig.put(b"one");
    for sys_flag in [0x4, 0xC] {
        let half = PutRequest {
            sys_flag,
            ..request("T", b"half")
        };
        assert_eq!(rig.appender.put_one(&half).queue_offset, 0);
    }
    let commit = PutRequest {
        sys_flag: 0x8,
        ..request("T", b"commit")
    };
    assert_eq!(rig.appender.put_one(&commit).queue_offset, 1);
}

#[test]
fn a_record_that_does_not_fit_leaves_a_filler_and_opens_the_next_file() {
    let rig = rig(Memory::default(), ManualClock::at(1));
    let overhead = rig.put(b"").size_bytes as usize;
    // Exactly 8 bytes must stay: this one fits, with not a byte to spare.
    let left = FILE_SIZE as usize - overhead - BLANK_BYTES;
    rig.put(&vec![7; 2900]);
    let full = rig.put(&vec![7; left - (2900 + overhead) - overhead]);
    assert_eq!(full.physical_offset + i64::from(full.size_bytes), 4096 - 8);
    let next = rig.put(b"next");
    assert_eq!((next.physical_offset, next.queue_offset), (4096, 3));
    let mut filler = [0; 8];
    rig.flusher.log.read_at(4096 - 8, &mut filler).unwrap();
    assert_eq!(filler, blank(8));

    // One byte more than fits: the filler states the rest of the file.
    rig.put(&[1; 2900]);
    let end = rig.flusher.log.max_offset();
    let rest = 8192 - end as usize;
    let rolled = rig.put(&vec![1; rest - BLANK_BYTES - overhead + 1]);
    assert_eq!((rolled.physical_offset, rolled.queue_offset), (8192, 5));
    rig.flusher.log.read_at(end, &mut filler).unwrap();
    assert_eq!(filler, blank(rest as u32));
    assert_eq!(Head::parse(&filler), Head::Blank);
}

fn batch_body(bodies: &[&[u8]]) -> Vec<u8> {
    let mut batch = Vec::new();
    for body in bodies {
        let total = 4 * 5 + body.len() + 2 + 3;
        batch.extend_from_slice(&(total as u32).to_be_bytes());
        batch.extend_from_slice(&[0; 8]);
        batch.extend_from_slice(&9_i32.to_be_bytes());
        batch.extend_from_slice(&(body.len() as u32).to_be_bytes());
        batch.extend_from_slice(body);
        batch.extend_from_slice(&3_i16.to_be_bytes());
        batch.extend_from_slice(b"k\x01v");
    }
    batch
}

#[test]
fn a_batch_is_consecutive_records_of_one_file() {
    let rig = rig(Memory::default(), ManualClock::at(1));
    rig.put(&[0; 2900]);
    let body = batch_body(&[&[1; 500], &[2; 500], b""]);
    let result = rig.appender.put_batch(&request("T", &body));
    assert_eq!(
        (result.status, result.physical_offset),
        (PutStatus::Ok, 4096)
    );
    assert_eq!((result.queue_offset, result.record_offsets.len()), (1, 3));
    rig.with_record(result.record_offsets[1], |record| {
        assert_eq!(
            (record.body, record.flag, record.queue_offset),
            (&[2; 500][..], 9, 2)
        );
        assert_eq!(record.properties, b"k\x01v\x02TAGS\x01TagA");
    });
    let end = result.record_offsets[2] + (91 + 1 + 3 + 1 + 9);
    assert_eq!(i64::from(result.size_bytes), end - 4096);
    assert_eq!(rig.put(b"after").queue_offset, 4);
}

#[test]
fn bad_puts_are_refused_and_store_nothing() {
    let rig = rig(Memory::default(), ManualClock::at(1));
    let long_topic = "t".repeat(128);
    let status = |request| rig.appender.put_one(&request).status;
    let batch_status = |request| rig.appender.put_batch(&request).status;
    assert_eq!(
        status(request(&long_topic, b"x")),
        PutStatus::MessageIllegal
    );
    assert_eq!(status(request("", b"x")), PutStatus::MessageIllegal);
    assert_eq!(status(request("T", &[0; 3001])), PutStatus::MessageIllegal);
    let ascii = vec![b'a'; 32_768];
    let with = |properties| PutRequest {
        properties,
        ..request("T", b"x")
    };
    assert_eq!(status(with(&ascii)), PutStatus::MessageIllegal);
    let wide = "é".repeat(16_384);
    assert_eq!(
        status(with(wide.as_bytes())),
        PutStatus::PropertiesSizeExceeded
    );
    // Fits every limit, but no file of this size.
    assert_eq!(status(with(&ascii[..4000])), PutStatus::MessageIllegal);

    let batch = batch_body(&[b"x"]);
    let delayed = PutRequest {
        delay_level: 1,
        ..request("T", &batch)
    };
    assert_eq!(batch_status(delayed), PutStatus::MessageIllegal);
    let prepared = PutRequest {
        sys_flag: 4,
        ..request("T", &batch)
    };
    assert_eq!(batch_status(prepared), PutStatus::MessageIllegal);
    assert_eq!(batch_status(request("T", b"")), PutStatus::MessageIllegal);
    assert_eq!(
        batch_status(request("T", &batch[..batch.len() - 1])),
        PutStatus::MessageIllegal
    );
    assert_eq!(
        batch_status(request("T", &[0, 0, 0, 2])),
        PutStatus::MessageIllegal
    );
    assert_eq!(rig.flusher.log.max_offset(), 0);
}

#[test]
fn a_delayed_message_waits_in_the_schedule_topic() {
    let rig = rig(Memory::default(), ManualClock::at(1));
    let delayed = PutRequest {
        delay_level: 99,
        properties: b"DELAY\x0199\x02TAGS\x01TagA",
        ..request("T", b"later")
    };
    let result = rig.appender.put_one(&delayed);
    rig.with_record(result.physical_offset, |record| {
        assert_eq!((record.topic, record.queue_id), ("SCHEDULE_TOPIC_XXXX", 1));
        let get = |name| properties::get(record.properties, name);
        assert_eq!(get(properties::DELAY), Some(&b"2"[..]));
        assert_eq!(get(properties::REAL_TOPIC), Some(&b"T"[..]));
        assert_eq!(get(properties::REAL_QUEUE_ID), Some(&b"1"[..]));
        assert_eq!(get(properties::TAGS), Some(&b"TagA"[..]));
    });
    let half = PutRequest {
        sys_flag: 4,
        ..delayed
    };
    let result = rig.appender.put_one(&half);
    rig.with_record(result.physical_offset, |record| {
        assert_eq!(record.topic, "T")
    });
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let files = Faulting::new(Memory::default());
    let rig = rig(files.clone(), SystemClock::shared());
    let full = Faults {
        allocate: Some(ENOSPC),
        ..Faults::default()
    };
    files.set(full);
    assert_eq!(rig.put(b"x").status, PutStatus::ServiceNotAvailable);
    assert!(
        rig.appender
            .space
            .refusal()
            .is_some_and(|why| why.contains("No space left"))
    );
    files.set(Faults::default());
    assert_eq!(rig.put(b"x").status, PutStatus::ServiceNotAvailable);
    rig.appender.space.refresh();
    let stored = rig.put(b"x");
    assert_eq!((stored.status, stored.physical_offset), (PutStatus::Ok, 0));
    // No room for the next file: nothing is written, not even the filler.
    assert_eq!(rig.put(&[0; 2900]).queue_offset, 1);
    let end = rig.flusher.log.max_offset();
    files.set(full);
    assert_eq!(rig.put(&[0; 2900]).status, PutStatus::ServiceNotAvailable);
    assert_eq!(rig.flusher.log.max_offset(), end);
    files.set(Faults::default());
    rig.appender.space.refresh();
    assert_eq!(rig.put(&[0; 2900]).queue_offset, 2);
}

#[test]
fn a_failed_write_poisons() {
    let files = Faulting::new(Memory::default());
    let rig = rig(files.clone(), SystemClock::shared());
    let stored = rig.put(b"x");
    files.set(Faults {
        write: Some(EIO),
        ..Faults::default()
    });
    assert_eq!(rig.put(b"y").status, PutStatus::ServiceNotAvailable);
    files.set(Faults::default());
    assert_eq!(rig.put(b"z").status, PutStatus::ServiceNotAvailable);
    let ticket = Rig::<Memory>::ticket(&stored, FAR_MS);
    assert_eq!(rig.flusher.wait(&ticket), AckOutcome::Poisoned);
    assert!(!rig.flusher.flush_all());
    rig.with_record(0, |record| assert_eq!(record.body, b"x"));
}

#[test]
fn a_failed_fsync_poisons_and_is_never_retried_into_success() {
    let files = Faulting::new(Memory::default());
    let rig = rig(files.clone(), SystemClock::shared());
    let threads = FlushThreads::group_commit(&rig.flusher).unwrap();
    let stored = rig.put(b"x");
    files.set(Faults {
        sync: Some(EIO),
        ..Faults::default()
    });
    let (sender, outcomes) = mpsc::channel();
    for _ in 0..3 {
        let sender = sender.clone();
        let reply = Box::new(move |outcome| sender.send(outcome).unwrap());
        rig.flusher
            .acks
            .park(Rig::<Memory>::ticket(&stored, FAR_MS), reply);
        let outcome = outcomes.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!(outcome, AckOutcome::Poisoned);
        files.set(Faults::default());
    }
    assert_eq!(
        rig.flusher.wait(&Rig::<Memory>::ticket(&stored, FAR_MS)),
        AckOutcome::Poisoned
    );
    assert_eq!(rig.put(b"y").status, PutStatus::ServiceNotAvailable);
    assert_eq!(rig.flusher.acks.flushed(), 0);
    drop(threads);
}

#[test]
fn one_sync_releases_every_waiter_it_covers() {
    let files = Recording::new(Memory::default());
    let rig = rig(files.clone(), SystemClock::shared());
    let (sender, outcomes) = mpsc::channel();
    for _ in 0..64 {
        let sender = sender.clone();
        let ticket = Rig::<Memory>::ticket(&rig.put(b"x"), FAR_MS);
        rig.flusher.acks.park(
            ticket,
            Box::new(move |outcome| sender.send(outcome).unwrap()),
        );
    }
    let threads = FlushThreads::group_commit(&rig.flusher).unwrap();
    for _ in 0..64 {
        let outcome = outcomes.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!(outcome, AckOutcome::Durable);
    }
    let is_sync = |event: &Event| matches!(event, Event::Sync(..));
    let events = files.take();
    assert!(
        rig.flusher.log.max_offset() > FILE_SIZE,
        "the group spans two files"
    );
    assert_eq!(events.iter().filter(|event| is_sync(event)).count(), 2);
    assert!(
        events.iter().rev().take(2).all(is_sync),
        "syncs come after the writes: {events:?}"
    );
    drop(threads);
}

#[test]
fn a_lone_waiter_flushes_on_its_own_thread() {
    let rig = rig(Memory::default(), SystemClock::shared());
    let ticket = Rig::<Memory>::ticket(&rig.put(b"x"), FAR_MS);
    assert_eq!(rig.flusher.wait(&ticket), AckOutcome::Durable);
    assert_eq!(rig.flusher.acks.flushed().cast_signed(), ticket.end_offset);
}

#[test]
fn a_waiter_learns_of_its_deadline_while_a_flush_hangs() {
    let clock = SystemClock::shared();
    let rig = rig(Memory::default(), Arc::clone(&clock));
    assert!(
        rig.flusher.acks.try_turn(),
        "another thread hangs in its flush"
    );
    let threads = FlushThreads::group_commit(&rig.flusher).unwrap();
    let ticket = Rig::<Memory>::ticket(&rig.put(b"x"), clock.monotonic_ms() + 20);
    let (sender, outcomes) = mpsc::channel();
    rig.flusher.acks.park(
        ticket,
        Box::new(move |outcome| sender.send(outcome).unwrap()),
    );
    assert_eq!(rig.flusher.wait(&ticket), AckOutcome::FlushTimeout);
    let outcome = outcomes.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(outcome, AckOutcome::FlushTimeout);
    drop(threads);
}

#[test]
fn what_was_acknowledged_survives_a_crash_after_any_sync() {
    for limit in 0..8 {
        let files = Memory::default();
        files.freeze_after(limit);
        let crashing = rig(files.clone(), SystemClock::shared());
        let mut acknowledged = Vec::new();
        for body in [[1; 900], [2; 900], [3; 900], [4; 900], [5; 900]] {
            let stored = crashing.put(&body);
            crashing
                .flusher
                .wait(&Rig::<Memory>::ticket(&stored, FAR_MS));
            if files.syncs() <= limit {
                acknowledged.push((stored.physical_offset, body));
            }
        }
        // The fifth rolls: its flush syncs the filler of one file and the start of the next.
        assert_eq!(acknowledged.len(), [0, 1, 2, 3, 4, 4, 5, 5][limit]);
        let survivor = rig(files.after_crash(), SystemClock::shared());
        for (offset, body) in acknowledged {
            survivor.with_record(offset, |record| assert_eq!(record.body, body));
        }
    }
}
