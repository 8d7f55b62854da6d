//! Cleaning of real stores in temporary directories; each test sets the clock.

use std::collections::HashSet;
use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::filter::MessageFilter;
use crate::settings::{Cleaning, Settings};
use crate::store::Store;
use crate::tests::store_rig::{
    BODY, HOUR_MS, LOG_FILE, PATIENCE, Rig, now_ms, rig, rig_with, settings,
};
use crate::tests::test_rig::request;
use crate::types::{Cleaned, GetRequest, GetStatus, PutStatus, ReadMode};
use mq_base::clock::{Clock, local_time};
use mq_format::message::{CheckCrc, Head, RecordView};

fn at_hour(wall_ms: i64) -> Cleaning {
    Cleaning {
        delete_when: local_time(wall_ms).tm_hour.to_string(),
        ..Cleaning::default()
    }
}

fn log_files(log_files: usize) -> Cleaned {
    Cleaned {
        log_files,
        ..Cleaned::default()
    }
}

#[test]
fn ten_expired_files_are_deleted_per_run_but_never_the_last() {
    let expiry_ms = now_ms() + 73 * HOUR_MS;
    let rig = rig_with(Settings {
        cleaning: at_hour(expiry_ms),
        ..settings()
    });
    rig.put("T", 14);
    assert_eq!(rig.log_files(), 14);
    rig.clock.set_wall(expiry_ms - 24 * HOUR_MS);
    assert_eq!(rig.run().0.log_files, 0, "the hour, two days old");
    rig.clock.set_wall(expiry_ms - HOUR_MS);
    assert_eq!(rig.run().0.log_files, 0, "three days old, another hour");
    rig.clock.set_wall(expiry_ms);
    let (cleaned, pauses) = rig.run();
    assert_eq!((cleaned.log_files, rig.log_files()), (10, 4));
    assert_eq!(
        pauses[..9],
        [Duration::from_millis(100); 9],
        "between deletions"
    );
    assert_eq!(rig.run().0.log_files, 3);
    assert_eq!(rig.run().0, Cleaned::default(), "the last file stays");
    assert_eq!(rig.log_files(), 1);
    assert_eq!(rig.store.min_physical_offset(), 13 * LOG_FILE.cast_signed());
    assert_eq!(rig.store.cleaner.total().log_files, 13);
}

#[test]
fn only_expired_files_at_the_start_are_deleted() {
    let rig = rig();
    rig.put("T", 3);
    rig.clock.advance(50 * HOUR_MS);
    rig.put("T", 2);
    rig.clock.advance(30 * HOUR_MS);
    // The third file became full with the fourth message, 30 hours ago.
    assert_eq!(rig.store.clean().log_files, 2);
    assert_eq!(rig.log_files(), 3);
    rig.clock.advance(50 * HOUR_MS);
    assert_eq!(rig.store.clean().log_files, 2);
}

#[test]
fn a_file_is_as_old_as_the_later_of_its_two_times() {
    let rig = rig();
    let start_ms = rig.clock.wall_ms();
    rig.put("T", 3);
    // As after a copy without times, the file looks new.
    rig.set_modified(0, start_ms + 40 * HOUR_MS);
    rig.clock.advance(73 * HOUR_MS);
    assert_eq!(rig.store.clean(), Cleaned::default());
    // As after restoring an archive, the file looks old, but its messages are not.
    rig.set_modified(0, 0);
    rig.clock.set_wall(start_ms + 71 * HOUR_MS);
    assert_eq!(rig.store.clean(), Cleaned::default());
    rig.clock.set_wall(start_ms + 73 * HOUR_MS);
    assert_eq!(rig.store.clean().log_files, 2);
}

#[test]
fn messages_with_a_time_ahead_of_the_clock_keep_no_file() {
    let rig = rig();
    let start_ms = rig.clock.wall_ms();
    rig.put("T", 2);
    rig.clock.set_wall(start_ms + 9_000 * HOUR_MS);
    rig.put("T", 2);
    // One file has the time of its messages, another its real one.
    rig.set_modified(2, start_ms + 9_000 * HOUR_MS);
    rig.clock.set_wall(start_ms);
    rig.put("T", 2);
    rig.clock.set_wall(start_ms + 71 * HOUR_MS);
    assert_eq!(rig.store.clean(), Cleaned::default());
    rig.clock.set_wall(start_ms + 73 * HOUR_MS);
    assert_eq!(rig.store.clean().log_files, 5);
    assert_eq!(rig.bounds(), (5, 6));
}

#[test]
fn a_full_disk_deletes_unexpired_files_and_refuses_puts() {
    let full = |forcibly_enabled| {
        let cleaning = Cleaning {
            disk_forcible_percent: 0,
            disk_warning_percent: 0,
            forcibly_enabled,
            ..Cleaning::default()
        };
        let rig = rig();
        rig.put("T", 4);
        let settings = Settings {
            min_free_bytes: None,
            cleaning,
            ..settings()
        };
        Rig { settings, ..rig }.reopen(false)
    };
    let rig = full(true);
    let refused = rig.store.put(&request("T", b"x"));
    assert_eq!(
        rig.store.wait(refused).status,
        PutStatus::ServiceNotAvailable
    );
    assert!(rig.store.refusal().unwrap().contains("limit 0 %"));
    let (cleaned, pauses) = rig.run();
    assert_eq!(cleaned.log_files, 3, "at any age");
    assert_eq!(pauses.len(), 2, "between files of the log");
    assert_eq!(rig.get(3), (GetStatus::Found, 4));
    let rig = full(false);
    assert_eq!(rig.run().0.log_files, 0, "cleanFileForciblyEnable=false");
}

#[test]
fn an_operator_gets_twenty_runs_at_any_hour() {
    let rig = rig_with(Settings {
        cleaning: at_hour(now_ms() + 12 * HOUR_MS),
        ..settings()
    });
    rig.put("T", 2);
    rig.store.cleaner.ask();
    for _ in 0..19 {
        assert_eq!(rig.run().0, Cleaned::default(), "nothing is old");
    }
    rig.clock.advance(73 * HOUR_MS);
    rig.clock.set_wall(rig.clock.wall_ms() + HOUR_MS);
    assert_eq!(rig.run().0.log_files, 1, "the twentieth");
    rig.put("T", 1);
    rig.clock.advance(72 * HOUR_MS);
    assert_eq!(rig.run().0, Cleaned::default(), "no run is left");
}

#[test]
fn a_requested_run_starts_at_once_on_the_cleaning_thread() {
    let rig = rig();
    rig.put("T", 3);
    rig.clock.advance(73 * HOUR_MS);
    rig.store.clean_soon();
    let until = Instant::now() + PATIENCE;
    while rig.log_files() > 1 {
        assert!(Instant::now() < until, "not woken");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn queues_index_and_offsets_follow_the_log() {
    let rig = rig();
    rig.put("T", 25);
    assert_eq!(rig.files("consumequeue/T/1").len(), 3);
    assert_eq!(rig.files("index").len(), 4);
    rig.clock.advance(80 * HOUR_MS);
    rig.put("T", 2);
    let first = rig.store.clean();
    assert_eq!((first.log_files, rig.bounds()), (10, (10, 27)));
    assert_eq!((first.queue_files, first.index_files), (1, 1));
    assert_eq!(rig.get(9), (GetStatus::OffsetTooSmall, 10));
    assert_eq!(rig.get(10), (GetStatus::Found, 11));
    let second = rig.store.clean();
    assert_eq!((second.log_files, rig.bounds()), (10, (20, 27)));
    assert_eq!((second.queue_files, second.index_files), (1, 1));
    let third = rig.store.clean();
    assert_eq!((third.log_files, rig.bounds()), (4, (24, 27)));
    let hits = |key| {
        let query = rig.store.query("T", key, 9, 0, i64::MAX, &mut Vec::new());
        query.message_count
    };
    assert_eq!(
        [hits("k0"), hits("k23"), hits("k24"), hits("k26")],
        [0, 0, 1, 1]
    );
}

#[test]
fn a_cleaned_store_opens_again_with_the_same_offsets() {
    for is_crash in [false, true] {
        let rig = rig();
        rig.put("T", 12);
        rig.put("Other", 3);
        rig.clock.advance(80 * HOUR_MS);
        assert_eq!(rig.store.clean().log_files, 10);
        assert_eq!(rig.store.clean().log_files, 4);
        // All messages of T are gone, but not its offsets.
        assert_eq!(rig.bounds(), (12, 12));
        assert_eq!(rig.get(3), (GetStatus::OffsetTooSmall, 12));
        assert_eq!(rig.get(12), (GetStatus::OffsetOverflowOne, 12));
        let rig = rig.reopen(is_crash);
        assert_eq!(rig.bounds(), (12, 12), "crash: {is_crash}");
        assert_eq!(rig.store.min_offset("Other", 1), 2);
        rig.put("T", 1);
        assert_eq!(
            (rig.bounds(), rig.get(12)),
            ((12, 13), (GetStatus::Found, 13))
        );
    }
}

#[test]
fn files_that_are_not_flushed_stay() {
    let rig = rig_with(Settings {
        flush_interval_ms: 3_600_000,
        ..settings()
    });
    for _ in 0..3 {
        let put = rig.store.put(&request("T", &BODY));
        assert_eq!(rig.store.wait(put).status, PutStatus::Ok);
    }
    rig.clock.advance(80 * HOUR_MS);
    assert_eq!(rig.store.clean(), Cleaned::default());
    rig.wait_until_flushed();
    assert_eq!(rig.store.clean().log_files, 2);
}

#[test]
fn a_file_that_cannot_be_deleted_is_tried_again_later() {
    let rig = rig();
    rig.put("T", 3);
    rig.clock.advance(80 * HOUR_MS);
    let first = &rig.files("commitlog")[0];
    let aside = rig.root.path().join("aside");
    fs::rename(first, &aside).unwrap();
    fs::create_dir(first).unwrap();
    File::open(first).unwrap().set_modified(UNIX_EPOCH).unwrap();
    assert_eq!(rig.store.clean(), Cleaned::default());
    assert_eq!(rig.get(0), (GetStatus::Found, 1), "it can still be read");
    fs::remove_dir(first).unwrap();
    assert_eq!(rig.store.clean(), Cleaned::default(), "too soon");
    rig.clock.advance(120_000);
    assert_eq!(rig.store.clean().log_files, 2);
    assert_eq!(rig.bounds(), (2, 3));
}

#[test]
fn unused_topics_are_emptied_and_keep_their_offsets() {
    let rig = rig();
    for topic in [
        "T",
        "Kept",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "%LMQ%q",
    ] {
        rig.put(topic, 25);
    }
    let kept = HashSet::from(["Kept".to_owned()]);
    let cleaned = rig.store.clean_unused_topics(&kept).unwrap();
    assert_eq!((cleaned.log_files, cleaned.queue_files), (0, 2));
    assert_eq!(rig.bounds(), (25, 25));
    for topic in [
        "Kept",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "%LMQ%q",
    ] {
        assert_eq!(rig.store.min_offset(topic, 1), 0, "{topic}");
    }
    rig.put("T", 1);
    assert_eq!(rig.store.clean_expired_queues(), Cleaned::default());
    assert_eq!(
        (rig.bounds(), rig.get(25)),
        ((25, 26), (GetStatus::Found, 26))
    );
}

#[test]
fn a_stopped_or_closing_store_deletes_nothing() {
    let rig = rig();
    rig.put("T", 3);
    rig.clock.advance(80 * HOUR_MS);
    let stopped = rig.store.cleaner.run_now(&|_| false);
    assert_eq!(stopped, log_files(1), "an interrupted pause ends the run");
    rig.store.puts.flusher.acks.fail("a disk error".into());
    assert_eq!(rig.store.clean(), Cleaned::default());
}

/// Reads one queue repeatedly; every record must be the expected one.
fn read_all(store: &Store, is_done: &AtomicBool) -> i64 {
    let mut records = Vec::new();
    let (mut offset, mut found) = (0, 0);
    while !is_done.load(Ordering::Relaxed) {
        records.clear();
        let request = GetRequest {
            topic: "T",
            queue_id: 1,
            offset,
            max_count: 32,
            filter: &MessageFilter::All,
            mode: ReadMode::Wait,
        };
        let got = store.get(&request, &mut records).unwrap();
        let mut rest = records.as_slice();
        while let Head::Record(size) = Head::parse(rest) {
            let record = RecordView::parse(&rest[..size], CheckCrc::Yes).unwrap();
            assert!(record.queue_offset >= offset && record.topic == "T");
            found += 1;
            rest = &rest[size..];
        }
        assert!(rest.is_empty(), "whole records");
        offset = match got.status {
            // Start again at the oldest message, in files that are about to be deleted.
            GetStatus::OffsetOverflowOne => store.min_offset("T", 1),
            _ => got.next_begin_offset,
        };
    }
    found
}

/// Sets its flag when dropped.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Puts a message. If the clock jumps while the put waits for a new log file, the put fails.
fn put_again(store: &Store) {
    let put = || store.wait(store.put(&request("T", &BODY))).status;
    let mut statuses = std::iter::repeat_with(put);
    let status = statuses.find(|status| *status != PutStatus::CreateMappedFileFailed);
    assert_eq!(status, Some(PutStatus::Ok));
}

#[test]
fn files_are_deleted_while_they_are_read_and_messages_come() {
    const MESSAGES: usize = 150;
    let rig = rig();
    rig.put("T", 3);
    let is_done = AtomicBool::new(false);
    let (store, clock) = (&rig.store, &rig.clock);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| read_all(store, &is_done)))
            .collect();
        let cleaner = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                // Only the wall clock: the monotonic one limits how long a put waits for its file.
                clock.set_wall(clock.wall_ms() + 80 * HOUR_MS);
                store.cleaner.run_now(&|_| true);
            }
        });
        // Set the flag even if a put fails, so that the threads end.
        let done = Done(&is_done);
        for at in 0..MESSAGES {
            put_again(store);
            if at % 20 == 0 {
                rig.wait_until_flushed();
            }
        }
        rig.wait_until_flushed();
        drop(done);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
        cleaner.join().unwrap();
    });
    clock.advance(80 * HOUR_MS);
    while store.clean().log_files > 0 {}
    let end = MESSAGES as i64 + 3;
    assert_eq!(rig.bounds(), (end - 1, end));
}

#[test]
fn a_run_that_pauses_blocks_no_other_cleaning() {
    let rig = rig();
    rig.put("T", 12);
    rig.put("Other", 12);
    rig.clock.advance(80 * HOUR_MS);
    let pauses = AtomicUsize::new(0);
    let cleaned = rig.store.cleaner.run_now(&|_| {
        if pauses.fetch_add(1, Ordering::Relaxed) == 0 {
            let (done, seen) = mpsc::channel();
            let store = Arc::clone(&rig.store);
            std::thread::spawn(move || {
                store.clean_expired_queues();
                done.send(store.delete_topic("Other").unwrap()).unwrap();
            });
            let deleted = seen.recv_timeout(PATIENCE).expect("waits for the pause");
            assert_eq!(deleted.queue_files, 1);
        }
        true
    });
    assert_eq!((cleaned.log_files, rig.bounds()), (10, (10, 12)));
    assert_eq!(rig.store.min_offset("Other", 1), 12);
}

#[test]
fn files_that_go_during_a_pause_are_not_deleted_twice() {
    let rig = rig();
    rig.put("T", 8);
    rig.clock.advance(80 * HOUR_MS);
    let pauses = AtomicUsize::new(0);
    let cleaned = rig.store.cleaner.run_now(&|_| {
        if pauses.fetch_add(1, Ordering::Relaxed) == 0 {
            let within = rig.store.cleaner.run_now(&|_| true);
            assert_eq!(within.log_files, 6);
        }
        true
    });
    assert_eq!((cleaned.log_files, rig.log_files()), (1, 1));
    assert_eq!((rig.bounds(), rig.get(7).0), ((7, 8), GetStatus::Found));
}

#[test]
fn the_pauses_of_an_operators_cleaning_end_after_five_seconds() {
    let rig = rig_with(Settings {
        cleaning: Cleaning {
            log_pause_ms: 0,
            queue_pause_ms: 5_001,
            ..Cleaning::default()
        },
        ..settings()
    });
    for _ in 0..12 {
        for topic in ["T", "Other"] {
            let put = rig.store.put(&request(topic, b"small"));
            assert_eq!(rig.store.wait(put).status, PutStatus::Ok);
        }
    }
    rig.put("Last", 2);
    rig.clock.advance(80 * HOUR_MS);
    // Both queues have a file to delete.
    assert_eq!(
        rig.store.clean().queue_files,
        1,
        "the pause would be too long"
    );
    assert_eq!(
        rig.run().0.queue_files,
        1,
        "the cleaning thread deletes the rest"
    );
}

#[test]
fn settings_change_while_the_store_is_open() {
    let rig = rig();
    rig.put("T", 3);
    rig.clock.advance(5 * HOUR_MS);
    assert_eq!(rig.store.clean(), Cleaned::default());
    let bad = Cleaning {
        delete_when: "noon".into(),
        ..Cleaning::default()
    };
    assert!(rig.store.set_cleaning(&bad).is_err());
    let sooner = Cleaning {
        reserved_hours: 4,
        ..Cleaning::default()
    };
    rig.store.set_cleaning(&sooner).unwrap();
    assert_eq!(rig.store.clean().log_files, 2);
}

#[test]
fn a_damaged_queue_with_expired_messages_keeps_its_offsets() {
    let rig = rig();
    rig.put("Gone", 3);
    rig.put("T", 2);
    rig.clock.advance(80 * HOUR_MS);
    rig.put("T", 2);
    assert!(rig.store.clean().log_files > 0);
    assert_eq!(
        (
            rig.store.min_offset("Gone", 1),
            rig.store.max_offset("Gone", 1)
        ),
        (3, 3)
    );
    rig.store.close().unwrap();
    let queue = rig
        .root
        .path()
        .join("consumequeue/Gone/1/00000000000000000000");
    let bytes = fs::read(&queue).unwrap();
    fs::write(&queue, &bytes[..70]).unwrap();
    let rig = rig.reopen(false);
    assert_eq!(
        (
            rig.store.min_offset("Gone", 1),
            rig.store.max_offset("Gone", 1)
        ),
        (3, 3)
    );
    rig.put("Gone", 1);
    assert_eq!(rig.store.max_offset("Gone", 1), 4);
}
