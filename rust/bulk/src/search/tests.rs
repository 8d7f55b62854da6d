use mq_format::message::{RecordView, Version, body_crc, sys_flag};
use mq_format::properties;

use super::{Conditions, Selection, Wanted};

/// A record of a queue; its properties are pairs.
fn record(offset: i64, body: &[u8], pairs: &[(&str, &str)], flags: i32) -> Vec<u8> {
    let host = "127.0.0.1:1".parse().unwrap();
    let mut text = Vec::new();
    for (name, value) in pairs {
        properties::append(&mut text, name, value.as_bytes());
    }
    let mut bytes = Vec::new();
    RecordView {
        version: Version::V1,
        body_crc: body_crc(body),
        queue_id: 0,
        flag: 0,
        queue_offset: offset,
        physical_offset: 0,
        sys_flag: flags,
        born_timestamp_ms: 0,
        born_host: host,
        store_timestamp_ms: 0,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: "T",
        properties: &text,
    }
    .encode(&mut bytes);
    bytes
}

/// The bodies of the messages that are searched here.
const BODIES: [&str; 4] = [
    r#"{"order": 17, "items": [{"price": 5}]}"#,
    r#"{"order": 18, "items": [{"price": 500}]}"#,
    "order 17 as text",
    "17",
];

fn searched(wanted: &Wanted) -> Selection {
    let mut all = Vec::new();
    for (offset, body) in (0..).zip(BODIES) {
        let key = format!("order-{offset} trace-9{offset}");
        let tag = if offset % 2 == 0 { "Even" } else { "Odd" };
        all.extend(record(
            offset,
            body.as_bytes(),
            &[("KEYS", &key), ("TAGS", tag)],
            0,
        ));
    }
    let conditions = Conditions::compile(wanted).unwrap();
    let mut selection = Selection::default();
    let stop = selection.add(&all, &conditions, usize::MAX, &mut |_, _| unreachable!());
    assert_eq!(stop, None);
    selection
}

/// The offsets of whole records.
fn offsets(mut records: &[u8]) -> Vec<i64> {
    let mut found = Vec::new();
    while let Ok(record) = RecordView::parse(records, mq_format::message::CheckCrc::Yes) {
        found.push(record.queue_offset);
        records = &records[record.size()..];
    }
    found
}

fn found(change: impl FnOnce(&mut Wanted)) -> (Vec<i64>, i64) {
    let mut wanted = Wanted::default();
    change(&mut wanted);
    let selection = searched(&wanted);
    let found = offsets(&selection.records);
    assert_eq!(found.len(), selection.messages);
    (found, selection.not_json)
}

#[test]
fn tags_keys_and_text_select_records() {
    assert_eq!(found(|_| ()).0, [0, 1, 2, 3]);
    assert_eq!(
        found(|w| w.tags = Some(["Odd".to_owned()].into())).0,
        [1, 3]
    );
    let key = |text: &str| found(|w| w.key = Some(text.to_owned())).0;
    assert_eq!(key("order-[12]"), [1, 2]);
    assert_eq!(key("^trace-90$"), [0], "each key alone, not all in one");
    assert_eq!(key("0 trace"), [] as [i64; 0]);
    assert_eq!(found(|w| w.body = Some("order".to_owned())).0, [0, 1, 2]);
}

#[test]
fn a_path_or_a_condition_selects_json_bodies() {
    let json = |text: &str| found(|w| w.json = Some(text.to_owned()));
    assert_eq!(json("$.items[?@.price > 100]"), (vec![1], 1));
    assert_eq!(json("@.order == 17"), (vec![0], 1));
    assert_eq!(json("@.order == 17 || @ == 17"), (vec![0, 3], 1));
    assert_eq!(json(" $.order"), (vec![0, 1], 1));
    let both = found(|w| {
        w.body = Some("order".to_owned());
        w.json = Some("@.order > 17".to_owned());
    });
    assert_eq!(both, (vec![1], 1));
}

#[test]
fn a_search_stops_at_the_most_messages() {
    let all = [record(5, b"a", &[], 0), record(6, b"b", &[], 0)].concat();
    let conditions = Conditions::compile(&Wanted::default()).unwrap();
    let mut selection = Selection::default();
    let mut none = |_: &[u8], _| Err(String::new());
    assert_eq!(selection.add(&all, &conditions, 1, &mut none), Some(6));
    assert_eq!(offsets(&selection.records), [5]);
    assert_eq!(selection.add(&all, &conditions, 3, &mut none), None);
}

#[test]
fn a_body_that_does_not_decompress_is_told() {
    let packed = [
        record(7, b"x", &[], sys_flag::COMPRESSED),
        record(8, b"y", &[], sys_flag::COMPRESSED),
    ]
    .concat();
    let wanted = Wanted {
        body: Some("text".to_owned()),
        ..Wanted::default()
    };
    let conditions = Conditions::compile(&wanted).unwrap();
    let mut selection = Selection::default();
    let mut unpack = |body: &[u8], _: i32| match body {
        b"x" => Err("bad zlib".to_owned()),
        _ => Ok(b"the text".to_vec()),
    };
    selection.add(&packed, &conditions, usize::MAX, &mut unpack);
    assert_eq!(offsets(&selection.records), [8]);
    assert_eq!(selection.unsearched, [(7, "bad zlib".to_owned())]);
}

#[test]
fn conditions_that_cannot_be_parsed_are_named() {
    let error = |change: fn(&mut Wanted)| {
        let mut wanted = Wanted::default();
        change(&mut wanted);
        Conditions::compile(&wanted).unwrap_err().to_string()
    };
    let key = error(|w| w.key = Some("order-(".to_owned()));
    assert_eq!(
        key,
        r#""order-(" is not a regular expression: unclosed group"#
    );
    for text in ["order == 17", "$.", "", "@.order = 17"] {
        let wanted = Wanted {
            json: Some(text.to_owned()),
            ..Wanted::default()
        };
        let json = Conditions::compile(&wanted).unwrap_err().to_string();
        assert!(json.contains("is not JSONPath (RFC 9535)"), "{json}");
    }
}
