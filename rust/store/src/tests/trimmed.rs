//! Replays RocketMQ's recorded session "trimmed" at the store: requests after the start of the log
//! was deleted.

use std::collections::BTreeMap;

use serde_json::Value;

use super::store_rig::{HOUR_MS, Rig, rig};
use super::test_rig::request;
use crate::filter::MessageFilter;
use crate::types::{GetRequest, PutRequest, ReadMode};
use mq_format::message::{CheckCrc, RecordView};
use mq_testing::stores::lines;

const TOPIC: &str = "WireTopic";

/// The recorded requests with their replies.
fn exchanges() -> Vec<(Value, Value)> {
    let all = lines("wire/trimmed.jsonl.gz");
    let pairs = all.chunks_exact(2);
    assert!(pairs.remainder().is_empty());
    pairs
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .inspect(|(request, reply)| assert_eq!(request["label"], reply["label"]))
        .collect()
}

fn field(frame: &Value, name: &str) -> i64 {
    let text = frame["ext_fields"][name].as_str().unwrap();
    text.parse().unwrap()
}

/// Recorded minimum and maximum of each queue.
fn recorded_bounds() -> BTreeMap<i32, (i64, i64)> {
    let mut bounds = BTreeMap::<i32, (i64, i64)>::new();
    for (request, reply) in exchanges() {
        let offset = || field(&reply, "offset");
        let queue_id = || i32::try_from(field(&request, "queueId")).unwrap();
        match request["code"].as_i64() {
            Some(31) => bounds.entry(queue_id()).or_default().0 = offset(),
            Some(30) => bounds.entry(queue_id()).or_default().1 = offset(),
            _ => {}
        }
    }
    assert_eq!(bounds.len(), 4);
    bounds
}

/// Puts messages into a queue of the topic, in the last file of the log.
fn fill(rig: &Rig, queue_id: i32, count: i64) {
    for _ in 0..count {
        let put = rig.store.put(&PutRequest {
            queue_id,
            ..request(TOPIC, b"small")
        });
        rig.store.wait(put);
    }
}

/// A store whose queues have the recorded bounds. The messages before the minima were in the first
/// log files.
fn trimmed() -> Rig {
    let rig = rig();
    let bounds = recorded_bounds();
    for (queue_id, (min, _)) in &bounds {
        fill(&rig, *queue_id, *min);
    }
    rig.put("Filler", 3);
    rig.clock.advance(80 * HOUR_MS);
    rig.put("Filler", 1);
    for (queue_id, (min, max)) in &bounds {
        fill(&rig, *queue_id, max - min);
    }
    rig.wait_until_flushed();
    assert!(rig.store.clean().log_files > 0);
    rig
}

#[test]
fn bounds_and_refused_offsets_are_as_recorded() {
    let rig = trimmed();
    let mut seen = 0;
    for (request, reply) in exchanges() {
        let code = request["code"].as_i64().unwrap();
        let queue_id = || i32::try_from(field(&request, "queueId")).unwrap();
        match code {
            31 => assert_eq!(
                rig.store.min_offset(TOPIC, queue_id()),
                field(&reply, "offset")
            ),
            30 => assert_eq!(
                rig.store.max_offset(TOPIC, queue_id()),
                field(&reply, "offset")
            ),
            11 => {
                let result = rig.store.get(
                    &GetRequest {
                        topic: TOPIC,
                        queue_id: queue_id(),
                        offset: field(&request, "queueOffset"),
                        max_count: 2,
                        filter: &MessageFilter::All,
                        mode: ReadMode::NoWait,
                    },
                    &mut Vec::new(),
                );
                let result = result.unwrap();
                assert_eq!(reply["remark"], result.status.as_str());
                assert_eq!(result.next_begin_offset, field(&reply, "nextBeginOffset"));
                assert_eq!(result.min_offset, field(&reply, "minOffset"));
                assert_eq!(result.max_offset, field(&reply, "maxOffset"));
            }
            _ => continue,
        }
        seen += 1;
    }
    assert_eq!(seen, 10);
}

#[test]
fn offset_0_returns_the_first_record_left() {
    let recorded = exchanges()
        .into_iter()
        .find(|(request, _)| request["code"] == 33)
        .map(|(_, reply)| reply["body_hex"].as_str().unwrap().to_owned());
    let bytes: Vec<u8> = recorded
        .unwrap()
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    let java = RecordView::parse(&bytes, CheckCrc::Yes).unwrap();
    assert_eq!(java.physical_offset % 65_536, 0, "a file's first record");
    assert!(java.physical_offset > 0);

    let rig = trimmed();
    let start = rig.store.min_physical_offset();
    let bytes = rig.store.get_at(0, ReadMode::Wait).unwrap().unwrap();
    let ours = RecordView::parse(&bytes, CheckCrc::Yes).unwrap();
    assert_eq!((ours.physical_offset, ours.topic), (start, "Filler"));
}

/// In the recording all messages of the topic were deleted. Their store times were -1, and the
/// search by time returned 0, but RocketMQ's minima had kept the values of an earlier deletion.
/// Ours become equal to the maxima, so that a consumer does not read through deleted offsets.
#[test]
fn a_topic_whose_messages_are_all_deleted() {
    let rig = trimmed();
    rig.put("Filler", 2);
    rig.clock.advance(80 * HOUR_MS);
    rig.put("Filler", 1);
    assert!(rig.store.clean().log_files > 0);
    let bounds = recorded_bounds();
    let mut seen = 0;
    for (request, reply) in exchanges() {
        match request["code"].as_i64().unwrap() {
            29 => {
                let found = rig
                    .store
                    .offset_by_time(TOPIC, 0, field(&request, "timestamp"));
                assert_eq!(found, field(&reply, "offset"));
            }
            32 => {
                let min = rig.store.min_offset(TOPIC, 0);
                let stored_ms = rig.store.store_time_at(TOPIC, 0, min);
                assert_eq!(stored_ms, field(&reply, "timestamp"));
            }
            202 => {
                let text = reply["body_text"].as_str().unwrap();
                for (queue_id, (_, max)) in &bounds {
                    let last_ms = rig.store.store_time_at(TOPIC, *queue_id, max - 1);
                    let row = format!("\"lastUpdateTimestamp\":{last_ms},\"maxOffset\":{max}");
                    assert!(text.contains(&row), "{row}");
                    assert_eq!(rig.store.min_offset(TOPIC, *queue_id), *max);
                }
            }
            _ => continue,
        }
        seen += 1;
    }
    assert_eq!(seen, 3);
}
