//! Queues and index of a whole store after puts.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::filter::MessageFilter;
use crate::settings::{MultiDispatch, QueueExt, Settings};
use crate::tests::store_rig::{Rig, rig_with, settings};
use crate::tests::test_rig::request;
use crate::types::{GetRequest, GetStatus, Put, PutRequest, ReadMode};
use mq_format::message::{java_hash, sys_flag};

/// Topic, queue, maximum offset and tags code of an arrival.
type Told = (String, i32, i64, i64);

fn with_ext() -> Settings {
    Settings {
        queue_ext: QueueExt {
            enabled: true,
            file_bytes: Some(512),
            ..QueueExt::default()
        },
        ..settings()
    }
}

fn with_light_queues() -> Settings {
    Settings {
        multi_dispatch: MultiDispatch {
            enabled: true,
            lmq_enabled: true,
            ..MultiDispatch::default()
        },
        ..settings()
    }
}

fn put(rig: &Rig, request: &PutRequest<'_>) -> i64 {
    let Put::Done(result) = rig.store.put(request) else {
        panic!("this put must not wait for a flush");
    };
    rig.wait_until_flushed();
    result.physical_offset
}

/// Physical offsets of a queue's messages that pass a filter.
fn read(rig: &Rig, topic: &str, queue_id: i32, tag: Option<&str>) -> Vec<i64> {
    let filter = match tag {
        Some(tag) => MessageFilter::Codes(Arc::from([java_hash(tag)])),
        None => MessageFilter::All,
    };
    let request = GetRequest {
        topic,
        queue_id,
        offset: 0,
        max_count: 32,
        filter: &filter,
        mode: ReadMode::Wait,
    };
    let mut out = Vec::new();
    let got = rig.store.get(&request, &mut out).unwrap();
    if got.status != GetStatus::Found {
        return Vec::new();
    }
    let mut offsets = Vec::new();
    while let Ok(size) = out.get(..4).unwrap_or_default().try_into() {
        let size = u32::from_be_bytes(size) as usize;
        offsets.push(i64::from_be_bytes(out[28..36].try_into().unwrap()));
        out.drain(..size);
    }
    offsets
}

#[test]
fn the_extension_contains_the_given_bitmaps() {
    let rig = rig_with(with_ext());
    rig.store
        .set_bitmap_source(Box::new(|record| {
            let is_wanted = record.body == b"wanted";
            is_wanted.then(|| vec![0xA5; 14])
        }))
        .unwrap();
    let wanted = put(&rig, &request("T", b"wanted"));
    let tagged = PutRequest {
        properties: b"TAGS\x01TagB",
        ..request("T", b"other")
    };
    let other = put(&rig, &tagged);

    let check = |rig: &Rig| {
        let queue = rig.store.reader.queues.get("T", 1).unwrap();
        let mut units = queue.tags_codes(ReadMode::Wait);
        let of = |offset| queue.entry(offset).unwrap();
        let first = units.unit(&of(0)).unwrap().unwrap();
        assert_eq!(first.bitmap, [0xA5; 14]);
        assert_eq!(first.tags_code, i64::from(java_hash("TagA")));
        let second = units.unit(&of(1)).unwrap().unwrap();
        assert!(second.bitmap.is_empty() && second.store_timestamp_ms > 0);
        assert_eq!(read(rig, "T", 1, Some("TagA")), [wanted]);
        assert_eq!(read(rig, "T", 1, Some("TagB")), [other]);
    };
    check(&rig);
    check(&rig.reopen(false));
}

#[test]
fn a_message_enters_every_queue_that_it_names() {
    let rig = rig_with(with_light_queues());
    let told: Arc<Mutex<Vec<Told>>> = Arc::default();
    let seen = Arc::clone(&told);
    rig.store
        .on_arrival(Box::new(move |arrivals| {
            seen.lock().extend(arrivals.iter().map(|arrival| {
                (
                    arrival.topic.to_owned(),
                    arrival.queue_id,
                    arrival.max_offset,
                    arrival.tags_code,
                )
            }));
        }))
        .unwrap();
    let named = PutRequest {
        properties: b"TAGS\x01TagA\x02INNER_MULTI_DISPATCH\x01%LMQ%alice,plain",
        ..request("T", b"x")
    };
    let first = put(&rig, &named);
    let own = put(&rig, &request("T", b"y"));
    let tag = i64::from(java_hash("TagA"));
    let arrival = |topic: &str, queue_id, max_offset| (topic.to_owned(), queue_id, max_offset, tag);
    let expected = [
        arrival("T", 1, 1),
        arrival("%LMQ%alice", 0, 1),
        arrival("plain", 1, 1),
        arrival("T", 1, 2),
    ];
    assert_eq!(*told.lock(), expected);
    assert_eq!(read(&rig, "T", 1, None), [first, own]);
    assert_eq!(read(&rig, "%LMQ%alice", 0, None), [first]);
    assert_eq!(read(&rig, "plain", 1, None), [first]);
    // The offsets continue after a clean stop and after a crash.
    let rig = rig.reopen(true);
    let second = put(&rig, &named);
    let rig = rig.reopen(false);
    let third = put(&rig, &named);
    assert_eq!(
        read(&rig, "%LMQ%alice", 0, Some("TagA")),
        [first, second, third]
    );
    assert_eq!(read(&rig, "plain", 1, None), [first, second, third]);
}

#[test]
fn queue_names_are_ignored_without_multi_dispatch() {
    let rig = rig_with(settings());
    let named = PutRequest {
        properties: b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x010",
        ..request("T", b"x")
    };
    let first = put(&rig, &named);
    assert_eq!(read(&rig, "T", 1, None), [first]);
    assert_eq!(rig.store.max_offset("%LMQ%a", 0), 0);
}

#[test]
fn prepared_and_rolled_back_records_enter_no_queue() {
    let rig = rig_with(settings());
    let with = |flag| PutRequest {
        sys_flag: flag,
        properties: b"KEYS\x01k",
        ..request("T", b"x")
    };
    let prepared = put(&rig, &with(sys_flag::PREPARED));
    let committed = put(&rig, &with(sys_flag::COMMIT));
    put(&rig, &with(sys_flag::ROLLBACK));
    let plain = put(&rig, &with(0));
    assert_eq!(read(&rig, "T", 1, None), [committed, plain]);
    let index = rig.store.reader.index.as_ref().unwrap();
    let mut hits = index.look_up("T", "k", 64, 0, i64::MAX).physical_offsets;
    hits.sort_unstable();
    assert_eq!(hits, [prepared, committed, plain]);
    assert_eq!(rig.store.runtime()["dispatchBehindBytes"], "0");
}
