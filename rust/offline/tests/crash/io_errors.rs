//! EIO and ENOSPC at the k-th operation, for every k: every acknowledged message exists, and the
//! store opens again when the disk works again.

use std::path::Path;
use std::sync::Arc;

use mq_log::{IoHook, watch};
use mq_store::{PutStatus, Store};
use mq_testing::stores::directory;

use crate::disk::Names;
use crate::failing::{Failing, Kind};
use crate::oracle::{Oracle, Sent, Verdict, close, judge};
use crate::power_loss::judge_images;
use crate::rig::{Message, Rig, TOPICS, drain, put, put_batch};
use crate::tape::Recorder;

const MESSAGES: usize = 24;

fn message(number: usize) -> Message {
    let size = if number % 9 == 8 { 4_200 } else { 300 };
    let topic = TOPICS[number % 2];
    let body = vec![b'a' + (number % 26) as u8; size];
    Message::new(&format!("m{number}"), topic, (number / 2 % 2) as i32, body)
}

/// Opens, puts, reads, flushes and closes; continues after failures. A message is promised if it
/// was acknowledged with SYNC_FLUSH, or put before a successful flush.
fn session(rig: &Rig, root: &Path, oracle: &mut Oracle, round: usize, now: &dyn Fn() -> usize) {
    let Ok(store) = rig.try_open(root) else {
        return;
    };
    for number in round * MESSAGES..(round + 1) * MESSAGES {
        put_and_note(rig, &store, oracle, number, now);
        if number % 8 == 7 && store.flush().is_ok() {
            let stored = |sent: &&mut Sent| sent.queue_offset.is_some();
            for sent in oracle.sent.values_mut().filter(stored) {
                sent.promised.get_or_insert(now());
            }
        }
        if number % 10 == 9 {
            read_what_can_be_read(&store, oracle);
        }
    }
    // After a disk failure the clean stop fails, too; that is fine.
    let _ = store.close();
}

fn put_and_note(
    rig: &Rig,
    store: &Store,
    oracle: &mut Oracle,
    number: usize,
    now: &dyn Fn() -> usize,
) {
    let (message, begun) = (message(number), now());
    let messages = match number % 7 {
        3 => vec![
            message.clone(),
            Message {
                key: format!("m{number}b"),
                ..message
            },
        ],
        _ => vec![message],
    };
    let result = match messages.len() {
        1 => put(store, &messages[0]),
        _ => put_batch(store, &messages),
    };
    let is_ok = result.status == PutStatus::Ok;
    for (place, message) in messages.into_iter().enumerate() {
        let sent = Sent {
            queue_offset: is_ok.then_some(result.queue_offset + place as i64),
            begun,
            promised: (is_ok && rig.sync_flush).then(now),
            message,
        };
        oracle.sent.insert(sent.message.key.clone(), sent);
    }
}

/// Reads may fail, but must not return wrong messages.
fn read_what_can_be_read(store: &Store, oracle: &Oracle) {
    for topic in TOPICS {
        for queue_id in 0..2 {
            let Ok(found) = drain(store, topic, queue_id) else {
                continue;
            };
            for stored in found {
                assert_eq!(oracle.sent[&stored.key].message.body, stored.body);
            }
        }
    }
}

/// Two sessions in which one operation fails, then a check with a working disk.
fn fail_one(rig: &Rig, kind: Kind, first: usize, stays: bool) -> Verdict<bool> {
    let root = directory();
    let failing = Arc::new(Failing::new(kind, first, stays));
    let watched = watch(root.path(), Arc::clone(&failing) as Arc<dyn IoHook>);
    let mut oracle = Oracle::default();
    for round in 0..2 {
        session(rig, root.path(), &mut oracle, round, &|| 0);
    }
    drop(watched);
    failing.succeed_again();
    judge(root.path(), &oracle, usize::MAX, rig)?;
    Ok(failing.has_failed())
}

fn fail_each(sync_flush: bool, kind: Kind, stays: bool) {
    let rig = Rig::new(sync_flush, 8 << 10);
    let mut failed = 0;
    for first in 0.. {
        match fail_one(&rig, kind, first, stays) {
            Ok(true) => failed += 1,
            Ok(false) => break,
            Err(error) => panic!("{kind:?} {first} fails, stays {stays}: {error}"),
        }
    }
    assert!(failed > 20, "only {failed} operations of {kind:?}");
}

#[test]
fn each_single_failed_write_loses_no_acknowledged_message() {
    fail_each(true, Kind::Write, false);
    fail_each(false, Kind::Write, false);
}

#[test]
fn failed_writes_from_any_point_lose_no_acknowledged_message() {
    fail_each(true, Kind::Write, true);
}

#[test]
fn each_single_failed_sync_loses_no_acknowledged_message() {
    fail_each(true, Kind::Sync, false);
    fail_each(false, Kind::Sync, false);
}

#[test]
fn failed_syncs_from_any_point_lose_no_acknowledged_message() {
    fail_each(true, Kind::Sync, true);
}

#[test]
fn each_single_failed_read_returns_no_wrong_message() {
    fail_each(true, Kind::Read, false);
}

#[test]
fn failed_reads_from_any_point_return_no_wrong_message() {
    fail_each(false, Kind::Read, true);
}

#[test]
fn a_full_disk_from_any_point_loses_no_acknowledged_message() {
    fail_each(true, Kind::Grow, true);
    fail_each(false, Kind::Grow, false);
}

/// After a failed fsync the kernel may drop dirty pages and mark them clean. Messages in them must
/// not be acknowledged, and the next start must make durable what it delivers.
#[test]
fn a_failed_sync_and_a_power_loss_lose_nothing_acknowledged() {
    for first in 1..14 {
        let rig = Rig::new(true, 8 << 10);
        let root = directory();
        let recorder = Recorder::new(root.path());
        let failing = Failing::new(Kind::Sync, first, false).in_log();
        let failing = Arc::new(failing.recorded_by(&recorder));
        let watched = watch(root.path(), Arc::clone(&failing) as Arc<dyn IoHook>);
        let mut oracle = Oracle::default();
        let now = || recorder.position();
        session(&rig, root.path(), &mut oracle, 0, &now);
        assert!(failing.has_failed());
        let stored = |sent: &&Sent| sent.queue_offset.is_some();
        let stored = oracle.sent.values().filter(stored).count();
        assert!(stored < MESSAGES, "not poisoned");
        let store = rig.open(root.path());
        for topic in TOPICS {
            for queue_id in 0..2 {
                for stored in drain(&store, topic, queue_id).unwrap() {
                    let sent = oracle.sent.get_mut(&stored.key).unwrap();
                    sent.promised.get_or_insert(now());
                }
            }
        }
        put_and_note(&rig, &store, &mut oracle, 1_000, &now);
        close(store).unwrap();
        drop(watched);
        let recorded = (recorder.recording(), oracle);
        judge_images(&rig, &recorded, Names::Journal, 0.., 24, first as u64);
    }
}
