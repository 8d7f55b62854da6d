//! Records that an append writes, and requests that it refuses.

use std::sync::atomic::Ordering;

use crate::tests::test_rig::{FILE_SIZE, request, rig};
use crate::types::{PutRequest, PutResult, PutStatus};
use mq_base::clock::ManualClock;
use mq_format::message::{BLANK_BYTES, Head, blank};
use mq_format::properties;

#[test]
fn records_of_a_queue_are_numbered_and_stamped() {
    let clock = ManualClock::at(1_000_000);
    let rig = rig(clock.clone());
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
    assert_eq!(rig.put_one(&request("Other", b"x")).queue_offset, 0);
}

#[test]
fn half_messages_take_no_queue_offset() {
    let rig = rig(ManualClock::at(1));
    rig.put(b"one");
    for sys_flag in [0x4, 0xC] {
        let half = PutRequest {
            sys_flag,
            ..request("T", b"half")
        };
        assert_eq!(rig.put_one(&half).queue_offset, 0);
    }
    let commit = PutRequest {
        sys_flag: 0x8,
        ..request("T", b"commit")
    };
    assert_eq!(rig.put_one(&commit).queue_offset, 1);
}

#[test]
fn every_flag_is_stored_and_each_host_has_its_own_family() {
    let rig = rig(ManualClock::at(1));
    let hosts = ["127.0.0.1:1", "[2001:db8::1]:65535"].map(|host| host.parse().unwrap());
    // Compressed, several tags, unwrap, inner batch, each compression type, commit.
    for flag in [0, 0x1, 0x2, 0x40, 0x80, 0x101, 0x201, 0x301, 0x8, 0x1_0000] {
        for (born_host, born_bit) in [(hosts[0], 0), (hosts[1], 0x10)] {
            for (store_host, store_bit) in [(hosts[0], 0), (hosts[1], 0x20)] {
                // The two bits give the address family of the hosts, whatever the producer sets.
                let message = PutRequest {
                    sys_flag: flag | 0x30,
                    born_host,
                    store_host,
                    ..request("T", b"body")
                };
                let result = rig.put_one(&message);
                assert_eq!(result.status, PutStatus::Ok);
                let v6_hosts = (born_bit | store_bit) / 0x20 + i32::from(born_bit > 0);
                assert_eq!(result.size_bytes, 91 + 1 + 4 + 9 + 12 * v6_hosts);
                rig.with_record(result.physical_offset, |record| {
                    assert_eq!(record.sys_flag, flag | born_bit | store_bit);
                    assert_eq!(
                        (record.born_host, record.store_host),
                        (born_host, store_host)
                    );
                    assert_eq!(record.store_timestamp_ms, 1);
                    assert_eq!(record.queue_offset, result.queue_offset);
                });
            }
        }
    }
}

#[test]
fn a_batch_that_fits_no_file_is_refused_whole() {
    let rig = rig(ManualClock::at(1));
    let put = |count| {
        let body = batch_body(&vec![&b""[..]; count]);
        rig.put_batch(&request("T", &body))
    };
    rig.put(b"before");
    // 105 bytes each: 39 of them and a blank record do not fit a file of 4096 bytes.
    assert_eq!(put(39), PutResult::refused(PutStatus::MessageIllegal));
    assert!(rig.flusher.log.max_offset() < 4096);
    let stored = put(38);
    assert_eq!(
        (stored.physical_offset, stored.size_bytes),
        (4096, 38 * 105)
    );
    assert_eq!(stored.queue_offset, 1);
}

#[test]
fn a_record_that_does_not_fit_starts_the_next_file() {
    let rig = rig(ManualClock::at(1));
    let overhead = rig.put(b"").size_bytes as usize;
    // Exactly 8 bytes must remain: this one just fits.
    let left = FILE_SIZE as usize - overhead - BLANK_BYTES;
    rig.put(&vec![7; 2900]);
    let full = rig.put(&vec![7; left - (2900 + overhead) - overhead]);
    assert_eq!(full.physical_offset + i64::from(full.size_bytes), 4096 - 8);
    let next = rig.put(b"next");
    assert_eq!((next.physical_offset, next.queue_offset), (4096, 3));
    let mut filler = [0; 8];
    rig.flusher.log.read_at(4096 - 8, &mut filler).unwrap();
    assert_eq!(filler, blank(8));

    // One byte more than fits: a blank record takes the rest of the file.
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
    let rig = rig(ManualClock::at(1));
    rig.put(&[0; 2900]);
    let body = batch_body(&[&[1; 500], &[2; 500], b""]);
    let result = rig.put_batch(&request("T", &body));
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
    let rig = rig(ManualClock::at(1));
    let long_topic = "t".repeat(128);
    let status = |request| rig.put_one(&request).status;
    let batch_status = |request| rig.put_batch(&request).status;
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
    // Within every limit, but longer than a log file.
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
    let rig = rig(ManualClock::at(1));
    let delayed = PutRequest {
        delay_level: 99,
        properties: b"DELAY\x0199\x02TAGS\x01TagA",
        ..request("T", b"later")
    };
    let result = rig.put_one(&delayed);
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
    let result = rig.put_one(&half);
    rig.with_record(result.physical_offset, |record| {
        assert_eq!(record.topic, "T")
    });
}

#[test]
fn a_lock_that_is_held_too_long_means_busy() {
    let clock = ManualClock::at(1);
    let rig = rig(clock.clone());
    clock.advance(1);
    rig.appender.locked_at_ms.store(1, Ordering::Relaxed);
    clock.advance(1_000);
    assert_eq!(rig.put(b"x").status, PutStatus::Ok);
    rig.appender.locked_at_ms.store(1, Ordering::Relaxed);
    clock.advance(1);
    assert_eq!(rig.appender.lock_held_ms(), 1_001);
    assert_eq!(rig.put(b"x").status, PutStatus::OsPageCacheBusy);
    let batch = batch_body(&[b"x"]);
    let busy = rig.put_batch(&request("T", &batch));
    assert_eq!(busy, PutResult::refused(PutStatus::OsPageCacheBusy));
    // Too long to be true.
    clock.advance(10_000_000);
    assert_eq!(rig.put(b"x").status, PutStatus::Ok);
    rig.appender.locked_at_ms.store(0, Ordering::Relaxed);
    rig.appender.close();
    assert_eq!(rig.put(b"x").status, PutStatus::ServiceNotAvailable);
}
