//! Puts the messages of Java's logs again. Every byte must be the same.

use std::fs;
use std::sync::Arc;

use crate::tests::test_rig::{Rig, java_rig};
use crate::types::{PutRequest, PutResult, PutStatus};
use mq_base::clock::ManualClock;
use mq_format::message::{CheckCrc, Head, RecordView, SCHEDULE_TOPIC};
use mq_format::properties;
use mq_testing::stores::unpack;

const FILE_SIZE: u64 = 65_536;
/// Properties that the broker adds to each message of a batch.
const BATCH_PROPERTIES: &[u8] = b"CLUSTER\x01DefaultCluster\x02WAIT\x01true";

/// The log of a golden store.
fn java_log(name: &str) -> Vec<u8> {
    let root = unpack(name);
    let mut files: Vec<_> = fs::read_dir(root.path().join("commitlog"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .flat_map(|path| fs::read(path).unwrap())
        .collect()
}

/// The records of a log, in order.
fn records(log: &[u8]) -> Vec<RecordView<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < log.len() {
        match Head::parse(&log[at..]) {
            Head::Record(size) => {
                found.push(RecordView::parse(&log[at..], CheckCrc::Yes).unwrap());
                at += size;
            }
            Head::Blank => at = at.next_multiple_of(FILE_SIZE as usize),
            Head::Neither => break,
        }
    }
    found
}

/// The put that created a record, with the given properties.
fn request<'a>(record: &RecordView<'a>, properties: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        topic: record.topic,
        queue_id: record.queue_id,
        flag: record.flag,
        sys_flag: record.sys_flag,
        born_timestamp_ms: record.born_timestamp_ms,
        born_host: record.born_host,
        store_host: record.store_host,
        reconsume_times: record.reconsume_times,
        prepared_transaction_offset: record.prepared_transaction_offset,
        body: record.body,
        properties,
        wait_store_ok: true,
        delay_level: 0,
        was_accepted: false,
    }
}

/// Number of records, from the first on, that were one batch: they have the same store time.
fn batch_of(records: &[RecordView<'_>]) -> usize {
    let first = &records[0];
    let of_batch = |record: &&RecordView<'_>| {
        record.properties.ends_with(BATCH_PROPERTIES)
            && record.topic == first.topic
            && record.born_timestamp_ms == first.born_timestamp_ms
            && record.store_timestamp_ms == first.store_timestamp_ms
    };
    records.iter().take_while(of_batch).count()
}

fn put_batch(rig: &Rig, records: &[RecordView<'_>]) -> PutResult {
    let mut body = Vec::new();
    for record in records {
        let own = record.properties.strip_suffix(BATCH_PROPERTIES).unwrap();
        let own = &own[..own.len() - 1];
        let total = 4 * 5 + record.body.len() + 2 + own.len();
        body.extend_from_slice(&(total as u32).to_be_bytes());
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&record.flag.to_be_bytes());
        body.extend_from_slice(&(record.body.len() as u32).to_be_bytes());
        body.extend_from_slice(record.body);
        body.extend_from_slice(&(own.len() as u16).to_be_bytes());
        body.extend_from_slice(own);
    }
    rig.put_batch(&PutRequest {
        body: &body,
        ..request(&records[0], BATCH_PROPERTIES)
    })
}

fn log_of(rig: &Rig) -> Vec<u8> {
    let mut bytes = vec![0; rig.flusher.log.max_offset() as usize];
    let mut at = 0;
    while at < bytes.len() {
        at += rig
            .flusher
            .log
            .read_at(at as u64, &mut bytes[at..])
            .unwrap();
    }
    bytes
}

#[test]
fn a_session_with_all_kinds_of_messages_gives_javas_log() {
    let java = java_log("store");
    let mut rest = &records(&java)[..];
    let clock = ManualClock::at(0);
    let rig = java_rig(FILE_SIZE, Arc::clone(&clock) as _);
    let (mut batches, mut holes) = (0, 0);
    while let Some(record) = rest.first() {
        clock.set_wall(record.store_timestamp_ms);
        let count = batch_of(rest);
        let result = match count {
            0 => rig.put_one(&request(record, record.properties)),
            _ => put_batch(&rig, &rest[..count]),
        };
        assert_eq!(result.status, PutStatus::Ok);
        holes += usize::from((result.physical_offset as u64).is_multiple_of(FILE_SIZE));
        assert_eq!(result.physical_offset, record.physical_offset, "{record:?}");
        batches += usize::from(count > 1);
        rest = &rest[count.max(1)..];
    }
    let ours = log_of(&rig);
    assert!(ours.len() as u64 > 2 * FILE_SIZE && batches > 10 && holes > 2);
    assert_eq!(ours, java[..ours.len()]);
}

#[test]
fn light_queues_get_the_offsets_java_gave_them() {
    let java = java_log("store-lmq");
    let clock = ManualClock::at(0);
    let rig = java_rig(FILE_SIZE, Arc::clone(&clock) as _);
    for record in records(&java) {
        clock.set_wall(record.store_timestamp_ms);
        // Java added the offsets as the last pair. Offsets from a producer are replaced.
        let name = b"\x02INNER_MULTI_QUEUE_OFFSET\x01";
        let offsets = record
            .properties
            .windows(name.len())
            .position(|at| at == name);
        let sent = [&record.properties[..offsets.unwrap()], name, b"77"].concat();
        let result = rig.put_one(&request(&record, &sent));
        assert_eq!(result.status, PutStatus::Ok);
        assert_eq!(i64::from(result.size_bytes), record.size() as i64);
    }
    let ours = log_of(&rig);
    assert_eq!(ours.len(), 3_040);
    assert_eq!(ours, java[..ours.len()]);
}

#[test]
fn only_the_store_sets_offsets_in_other_queues() {
    let rig = java_rig(FILE_SIZE, ManualClock::at(1));
    let item = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x011000000";
    let mut body = (22 + item.len() as u32).to_be_bytes().to_vec();
    body.extend_from_slice(&[0; 16]);
    body.extend_from_slice(&(item.len() as u16).to_be_bytes());
    body.extend_from_slice(item);
    let batch = crate::tests::test_rig::request("T", &body);
    let result = rig.put_batch(&batch);
    rig.with_record(result.physical_offset, |record| {
        let expected = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02TAGS\x01TagA";
        assert_eq!(record.properties, expected);
    });
    // Too long only with the offsets. RocketMQ returns the same status.
    let names = "n,".repeat(6_000);
    let text = format!("INNER_MULTI_DISPATCH\x01{names}");
    let long = format!("{text}\x02x\x01{}", "y".repeat(32_760 - text.len()));
    let put = |properties: &str| {
        let properties = properties.as_bytes();
        rig.put_one(&PutRequest {
            properties,
            ..crate::tests::test_rig::request("T", b"x")
        })
    };
    assert_eq!(put(&long).status, PutStatus::UnknownError);
    assert_eq!(put(&text).queue_offset, 1);
}

#[test]
fn delayed_messages_are_rewritten_as_java_does() {
    let java = java_log("store");
    let clock = ManualClock::at(0);
    let rig = java_rig(FILE_SIZE, Arc::clone(&clock) as _);
    let records = records(&java);
    let delayed: Vec<_> = records
        .iter()
        .filter(|record| record.topic == SCHEDULE_TOPIC)
        .collect();
    assert!(delayed.len() >= 8);
    for record in delayed {
        let get = |name| properties::get_str(record.properties, name).unwrap();
        let (topic, queue_id) = (get(properties::REAL_TOPIC), get(properties::REAL_QUEUE_ID));
        // As the broker receives it: without the properties that the store adds, and with the
        // requested level.
        let mut sent = record.properties.to_vec();
        properties::remove(&mut sent, properties::REAL_TOPIC);
        properties::remove(&mut sent, properties::REAL_QUEUE_ID);
        let mut level = get(properties::DELAY).parse().unwrap();
        if get(properties::TAGS) == "Lvl99" {
            level = 99;
            properties::set(&mut sent, properties::DELAY, b"99");
        }
        clock.set_wall(record.store_timestamp_ms);
        let result = rig.put_one(&PutRequest {
            topic: &topic,
            queue_id: queue_id.parse().unwrap(),
            delay_level: level,
            ..request(record, &sent)
        });
        rig.with_record(result.physical_offset, |ours| {
            let pairs = |record: &RecordView<'_>| {
                let pair = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
                let mut pairs: Vec<_> = properties::iterate(record.properties).map(pair).collect();
                pairs.sort();
                pairs
            };
            assert_eq!(pairs(&ours), pairs(record));
            assert_eq!(ours.properties.len(), record.properties.len());
            let expected = RecordView {
                physical_offset: ours.physical_offset,
                properties: ours.properties,
                ..*record
            };
            assert_eq!(ours, expected);
        });
    }
}
