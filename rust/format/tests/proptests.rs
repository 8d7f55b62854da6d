//! Every format on disk: a reader accepts or refuses any bytes, and reads back what a writer wrote.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

#[path = "../../fuzz/bodies.rs"]
mod bodies;

use std::net::SocketAddr;

use mq_format::bloom;
use mq_format::consume_queue_ext::ExtUnit;
use mq_format::message::{CheckCrc, RecordView, Version, body_crc};
use mq_format::{message_id, multi_dispatch, properties};
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

/// Bytes with a record's magic in its place, so that they pass the first check.
fn record_like() -> impl Strategy<Value = Vec<u8>> {
    (bytes(), 0..400_u32).prop_map(|(mut bytes, size)| {
        bytes.resize(bytes.len().max(100), 0);
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        bytes[4..8].copy_from_slice(&0xDAA3_20A7_u32.to_be_bytes());
        bytes
    })
}

prop_compose! {
    /// A record's bytes, and where its body starts.
    fn record()(
        body in prop::collection::vec(any::<u8>(), 1..300),
        topic in "[a-zA-Z%_0-9]{1,127}",
        text in prop::collection::vec(("[A-Z_]{1,12}", "[ -~é]{1,20}"), 0..5),
        numbers in any::<(i32, i32, i64, i64, i64, i64, i32, i64)>(),
        // Bits of compression and transaction type; `encode` sets the bits of the hosts' lengths.
        flags in 0..16_i32,
        hosts in any::<(SocketAddr, SocketAddr)>(),
    ) -> (Vec<u8>, usize) {
        let mut text_bytes = Vec::new();
        for (name, value) in &text {
            properties::append(&mut text_bytes, name, value.as_bytes());
        }
        // An address on disk has no zone and no flow label.
        let plain = |host: SocketAddr| SocketAddr::new(host.ip(), host.port());
        let record = RecordView {
            version: Version::V1,
            body_crc: body_crc(&body),
            queue_id: numbers.0,
            flag: numbers.1,
            queue_offset: numbers.2,
            physical_offset: numbers.3,
            sys_flag: flags,
            born_timestamp_ms: numbers.4,
            born_host: plain(hosts.0),
            store_timestamp_ms: numbers.5,
            store_host: plain(hosts.1),
            reconsume_times: numbers.6,
            prepared_transaction_offset: numbers.7,
            body: &body,
            topic: &topic,
            properties: &text_bytes,
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let body_from = bytes.len() - text_bytes.len() - 2 - topic.len() - 1 - body.len();
        let read = RecordView::parse(&bytes, CheckCrc::Yes).unwrap();
        assert_eq!((read.body, read.topic), (&body[..], &topic[..]));
        assert_eq!(read.properties, text_bytes);
        assert_eq!((read.queue_offset, read.physical_offset), (numbers.2, numbers.3));
        assert_eq!((read.born_host, read.store_host), (record.born_host, record.store_host));
        (bytes, body_from)
    }
}

proptest! {
    #[test]
    fn any_bytes_are_records_or_refused(bytes in prop_oneof![bytes(), record_like()]) {
        bodies::records(&bytes);
    }

    #[test]
    fn any_bytes_are_queues(bytes in bytes()) {
        bodies::queues(&bytes);
    }

    #[test]
    fn any_bytes_are_an_index(bytes in bytes()) {
        bodies::index(&bytes);
    }

    #[test]
    fn any_text_is_state_or_refused(text in r#"[\{\}\[\]:,"'0-9a-z\t\n\\-]{0,60}"#) {
        bodies::state(text.as_bytes());
    }

    #[test]
    fn records_are_read_as_they_were_written((bytes, _) in record()) {
        bodies::records(&bytes);
        for cut in 0..bytes.len() {
            prop_assert!(RecordView::parse(&bytes[..cut], CheckCrc::Yes).is_err());
        }
    }

    #[test]
    fn a_damaged_body_is_always_detected(
        (mut bytes, body_from) in record(),
        bit in 0..8_u32,
    ) {
        bytes[body_from] ^= 1 << bit;
        prop_assert!(RecordView::parse(&bytes, CheckCrc::Yes).is_err());
    }

    #[test]
    fn extension_units_are_read_as_they_were_written(
        tags_code in any::<i64>(),
        store_timestamp_ms in any::<i64>(),
        bitmap in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let unit = ExtUnit { tags_code, store_timestamp_ms, bitmap: &bitmap };
        let mut bytes = Vec::new();
        prop_assert!(unit.encode(&mut bytes));
        prop_assert_eq!(ExtUnit::decode(&bytes), Some(unit));
    }

    #[test]
    fn message_ids_are_read_as_they_were_written(
        host in any::<SocketAddr>(),
        offset in any::<i64>(),
    ) {
        let host = SocketAddr::new(host.ip(), host.port());
        let text = message_id::encode(host, offset);
        prop_assert_eq!(message_id::decode(&text), Some((host, offset)));
    }

    #[test]
    fn offsets_of_other_queues_are_read_as_they_were_joined(
        offsets in prop::collection::vec(0..i64::MAX, 1..6),
    ) {
        let mut text = Vec::new();
        let joined = multi_dispatch::join_offsets(&offsets);
        properties::append(&mut text, "INNER_MULTI_QUEUE_OFFSET", joined.as_bytes());
        let read: Vec<_> = multi_dispatch::dispatch_offsets(&text).flatten().collect();
        prop_assert_eq!(read, offsets);
    }

    #[test]
    fn bits_that_are_set_are_found(
        positions in prop::collection::vec(0..112_u32, 1..6),
        other in 0..112_u32,
    ) {
        let mut bitmap = vec![0; 14];
        bloom::set(&mut bitmap, &positions);
        prop_assert!(bloom::is_set(&bitmap, &positions));
        prop_assert_eq!(bloom::is_set(&bitmap, &[other]), positions.contains(&other));
    }
}
