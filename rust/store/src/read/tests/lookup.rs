//! Messages found by physical offset, by key and by time, over real stores.

use crate::settings::Settings;
use crate::tests::store_rig::{BODY, LOG_FILE, rig, rig_with, settings};
use crate::tests::test_rig::request;
use crate::types::{PutRequest, ReadMode};
use mq_base::clock::Clock;
use mq_format::message::{CheckCrc, Head, RecordView};

#[test]
fn messages_are_found_by_offset_key_and_time() {
    let rig = rig();
    let start_ms = rig.clock.wall_ms() / 1_000 * 1_000 + 1_000;
    rig.clock.set_wall(start_ms);
    for _ in 0..5 {
        rig.put("T", 1);
        rig.clock.advance(1_000);
    }
    let store = &rig.store;
    let at = |index: u64| (index * LOG_FILE).cast_signed();
    let record = store.get_at(at(2), ReadMode::Wait).unwrap().unwrap();
    let view = RecordView::parse(&record, CheckCrc::Yes).unwrap();
    assert_eq!((view.queue_offset, view.body), (2, BODY.as_slice()));
    for nothing in [at(2) + 1, at(9), -1, i64::MAX] {
        assert_eq!(store.get_at(nothing, ReadMode::Wait), Ok(None), "{nothing}");
    }
    assert_eq!(store.store_time_range(), Some((start_ms, start_ms + 4_000)));
    assert_eq!(store.store_time_at("T", 1, 3), start_ms + 3_000);
    assert_eq!(store.store_time_at("T", 1, 5), -1);
    for (time_ms, offset) in [(0, 0), (2_000, 2), (2_499, 2), (2_501, 3), (99_000, 4)] {
        assert_eq!(
            store.offset_by_time("T", 1, start_ms + time_ms),
            offset,
            "{time_ms}"
        );
    }
    let mut records = Vec::new();
    let hits = |begin_ms, end_ms, records: &mut Vec<u8>| {
        let query = store.query("T", "k2", 32, begin_ms, end_ms, records);
        query.message_count
    };
    assert_eq!(hits(start_ms + 2_000, start_ms + 2_999, &mut records), 1);
    assert_eq!(Head::parse(&records), Head::Record(records.len()));
    assert_eq!(hits(start_ms + 3_000, i64::MAX, &mut records), 0);
    assert_eq!(hits(0, start_ms + 1_000, &mut records), 0);
}

#[test]
fn a_query_gives_no_more_than_the_setting_allows() {
    let rig = rig_with(Settings {
        query_count_max: 3,
        index_entries: Some(40),
        ..settings()
    });
    for _ in 0..9 {
        let put = rig.store.put(&PutRequest {
            properties: b"KEYS\x01same",
            ..request("T", b"small")
        });
        rig.store.wait(put);
    }
    rig.wait_until_flushed();
    let count = |max| {
        let query = rig
            .store
            .query("T", "same", max, 0, i64::MAX, &mut Vec::new());
        query.message_count
    };
    assert_eq!([count(2), count(32), count(-1)], [2, 3, 0]);
}

#[test]
fn a_query_gives_at_most_four_mib_of_records() {
    const BODY_BYTES: usize = 1 << 20;
    let rig = rig_with(Settings {
        commit_log_file_bytes: Some(16 << 20),
        allocate_step_bytes: 1 << 20,
        index_entries: Some(40),
        ..settings()
    });
    for _ in 0..8 {
        let put = rig.store.put(&PutRequest {
            properties: b"KEYS\x01same",
            ..request("T", &vec![b'x'; BODY_BYTES])
        });
        rig.store.wait(put);
    }
    rig.wait_until_flushed();
    let mut records = Vec::new();
    let query = rig.store.query("T", "same", 32, 0, i64::MAX, &mut records);
    assert_eq!(query.message_count, 3);
    assert!(records.len() <= 4 << 20, "{} bytes", records.len());
    let newest = records.len() * 2 / 3;
    let view = RecordView::parse(&records[newest..], CheckCrc::Yes).unwrap();
    assert_eq!(view.queue_offset, 7, "the newest ones, oldest first");
}

#[test]
fn keys_of_equal_hash_codes_do_not_hide_each_other() {
    let rig = rig_with(settings());
    for key in ["Aa", "BB", "BB", "BB"] {
        let properties = format!("KEYS\u{1}x {key}");
        let put = rig.store.put(&PutRequest {
            properties: properties.as_bytes(),
            ..request("T", b"small")
        });
        rig.store.wait(put);
    }
    rig.wait_until_flushed();
    for (key, count) in [("Aa", 1), ("BB", 2), ("C#", 0)] {
        let mut records = Vec::new();
        let query = rig.store.query("T", key, 2, 0, i64::MAX, &mut records);
        assert_eq!(query.message_count, count, "{key}");
    }
}

#[test]
fn entries_are_read_without_their_records() {
    let rig = rig_with(settings());
    for _ in 0..3 {
        let put = rig.store.put(&PutRequest {
            queue_id: 1,
            ..request("T", b"small")
        });
        rig.store.wait(put);
    }
    rig.wait_until_flushed();
    let entries = |offset, count| rig.store.entries("T", 1, offset, count);
    assert_eq!(entries(0, 10).len(), 3);
    assert_eq!(entries(1, 1), entries(0, 10)[1..2]);
    assert!(entries(3, 1).is_empty() && rig.store.entries("other", 1, 0, 1).is_empty());
}
