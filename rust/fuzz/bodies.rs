//! Bodies of the fuzz targets. They also run as property tests with every `cargo test`, see
//! `format/tests/proptests.rs`.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each target uses one; a panic is the finding"
)]

use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::consume_queue_ext::{ExtHead, ExtUnit};
use mq_format::index::{self, IndexEntry, IndexHeader, IndexLayout};
use mq_format::message::{CheckCrc, Head, RecordView};
use mq_format::{fastjson, message_id, multi_dispatch, properties};

/// A record that can be read is written back to the same bytes; properties are read without an
/// endless loop or a panic.
pub fn records(bytes: &[u8]) {
    if let Ok(record) = RecordView::parse(bytes, CheckCrc::Yes) {
        assert_eq!(Head::parse(bytes), Head::Record(record.size()));
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(again, bytes[..record.size()]);
        assert!(RecordView::parse(bytes, CheckCrc::No).is_ok());
    }
    let pairs = properties::iterate(bytes).count();
    assert!(pairs <= bytes.len());
    let _ = properties::find(bytes, [properties::UNIQ_KEY, properties::KEYS]);
    let _ = multi_dispatch::dispatches(bytes).count();
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = message_id::decode(text);
    }
}

/// Any 20 bytes are an entry; an entry that is read is written back to the same bytes.
pub fn queues(bytes: &[u8]) {
    let units: Vec<_> = QueueEntry::decode_all(bytes).collect();
    assert_eq!(units.len(), bytes.len() / ENTRY_BYTES);
    let again: Vec<u8> = units.iter().flat_map(QueueEntry::encode).collect();
    assert_eq!(again, bytes[..again.len()]);
    for unit in units {
        let _ = (unit.is_used(), unit.is_hole(), unit.is_extension_address());
    }
    let _ = ExtHead::parse(bytes);
    if let Some(unit) = ExtUnit::decode(bytes) {
        let mut again = Vec::new();
        assert!(unit.encode(&mut again));
        assert_eq!(again, bytes[..unit.size()]);
    }
}

/// Any bytes are a header or an entry of the index; positions stay within the file.
pub fn index(bytes: &[u8]) {
    if let Some(head) = bytes.first_chunk() {
        let header = IndexHeader::decode(head);
        assert_eq!(header.encode(), *head);
        let _ = header.entry_timestamp_ms(i32::MAX);
        let _ = header.time_difference_seconds(i64::MIN);
    }
    for entry in bytes.as_chunks().0 {
        assert_eq!(IndexEntry::decode(entry).encode(), *entry);
    }
    if let Some(number) = bytes.first_chunk() {
        let length = u64::from_be_bytes(*number);
        for slots in [None, Some(1), Some(length as u32)] {
            let Some(layout) = IndexLayout::of_file(length, slots, None) else {
                continue;
            };
            assert_eq!(layout.file_bytes(), length);
            assert!(layout.slot_of(length as i32 & i32::MAX) < layout.slots);
        }
    }
    let text = String::from_utf8_lossy(bytes);
    assert!(index::key_hash(&text, &text) >= 0);
}

/// Text that `is_strict` accepts is JSON and stays unchanged.
pub fn state(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(strict) = fastjson::to_strict(text)
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(&strict)
    {
        assert_eq!(fastjson::to_strict(&strict).unwrap(), strict);
        // Compares text with text: JSON's reader rounds some floats, and rounds them in both.
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let again = fastjson::to_strict(&value.to_string()).unwrap();
        assert_eq!(parsed(&again), parsed(&value.to_string()));
    }
}
