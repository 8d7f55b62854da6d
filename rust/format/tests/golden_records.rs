//! Every record a Java broker wrote decodes to what Java decoded, and encodes to the same bytes.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::ZlibDecoder;
use mq_format::message::{
    BLANK_BYTES, CheckCrc, Head, RecordError, RecordView, blank, body_crc, sys_flag,
};
use mq_format::{message_id, properties};
use mq_testing::golden::{Golden, LISTED, LOG_FILE_BYTES, hex};
use serde_json::Value;

fn check_fields(view: &RecordView<'_>, expected: &Value) {
    let number = |name: &str| expected[name].as_i64().unwrap();
    let text = |name: &str| expected[name].as_str().unwrap();

    assert_eq!(view.size() as i64, number("storeSize"));
    assert_eq!(i64::from(view.queue_id), number("queueId"));
    assert_eq!(i64::from(view.flag), number("flag"));
    assert_eq!(view.queue_offset, number("queueOffset"));
    assert_eq!(view.physical_offset, number("physicalOffset"));
    assert_eq!(i64::from(view.sys_flag), number("sysFlag"));
    assert_eq!(view.born_timestamp_ms, number("bornTimestamp"));
    assert_eq!(view.born_host.to_string(), text("bornHost"));
    assert_eq!(view.store_timestamp_ms, number("storeTimestamp"));
    assert_eq!(view.store_host.to_string(), text("storeHost"));
    assert_eq!(i64::from(view.reconsume_times), number("reconsumeTimes"));
    assert_eq!(
        view.prepared_transaction_offset,
        number("preparedTransactionOffset")
    );
    assert_eq!(i64::from(view.body_crc), number("bodyCRC"));
    assert_eq!(view.topic, text("topic"));
    assert_eq!(hex(view.properties), text("propertiesHex"));
    assert_eq!(view.body.len() as i64, number("storedBodyLength"));
    let id = message_id::encode(view.store_host, view.physical_offset);
    assert_eq!(id, text("offsetMsgId"));
    let host_and_offset = (view.store_host, view.physical_offset);
    assert_eq!(message_id::decode(&id), Some(host_and_offset));
    let unique = properties::get_str(view.properties, properties::UNIQ_KEY);
    assert_eq!(unique.as_deref().unwrap_or(&id), text("msgId"));

    let pairs: BTreeMap<_, _> = properties::iterate(view.properties)
        .map(|(name, value)| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            (text(name), Value::String(text(value)))
        })
        .collect();
    let stated = expected["properties"].as_object().unwrap();
    assert_eq!(
        pairs,
        stated.clone().into_iter().collect::<BTreeMap<_, _>>()
    );
}

fn check_body(view: &RecordView<'_>, expected: &Value) {
    let crc = i64::from(body_crc(view.body));
    assert_eq!(Some(crc), expected["crcOfStoredBody"].as_i64());
    let is_compressed = view.sys_flag & sys_flag::COMPRESSED != 0;
    assert_eq!(expected["compressed"], is_compressed);
    let mut body = Vec::new();
    if is_compressed {
        ZlibDecoder::new(view.body).read_to_end(&mut body).unwrap();
    } else {
        body.extend_from_slice(view.body);
    }
    assert_eq!(expected["bodyHex"], hex(&body));
}

/// Checks one line of an `expected` list; returns the offset of the next line's record.
fn check_line(log: &[u8], expected: &Value) -> usize {
    let position = usize::try_from(expected["physicalOffset"].as_u64().unwrap()).unwrap();
    let here = &log[position..];
    if expected["blank"] == Value::Bool(true) {
        let remaining = LOG_FILE_BYTES - position % LOG_FILE_BYTES;
        assert_eq!(Some(remaining as u64), expected["remaining"].as_u64());
        assert_eq!(
            here[..BLANK_BYTES],
            blank(u32::try_from(remaining).unwrap())
        );
        assert_eq!(Head::parse(here), Head::Blank);
        assert!(
            here[BLANK_BYTES..remaining].iter().all(|byte| *byte == 0),
            "behind the filler at {position}"
        );
        return position + remaining;
    }
    let view = RecordView::parse(here, CheckCrc::Yes).unwrap();
    check_fields(&view, expected);
    check_body(&view, expected);
    let mut encoded = Vec::new();
    view.encode(&mut encoded);
    assert_eq!(encoded, here[..encoded.len()], "record at {position}");
    assert_eq!(Head::parse(here), Head::Record(encoded.len()));
    position + encoded.len()
}

#[test]
fn records_decode_as_in_java_and_encode_to_the_same_bytes() {
    let log_ends = [222_390, 220_128, 220_128, 219_379, 24_744, 3_040];
    let records = [605, 1_029, 1_029, 1_025, 124, 12];
    for ((name, log_end), records) in LISTED.into_iter().zip(log_ends).zip(records) {
        let store = Golden::open(name);
        let log = store.commit_log();
        let (mut position, mut count) = (0, 0);
        for expected in store.list("expected") {
            let start = expected["physicalOffset"].as_u64().unwrap();
            if expected["end"] == Value::Bool(true) {
                check_end(&store, &log, usize::try_from(start).unwrap());
                continue;
            }
            assert_eq!(position as u64, start, "{name}");
            position = check_line(&log, &expected);
            count += usize::from(expected["topic"].is_string());
        }
        assert_eq!((position, count), (log_end, records), "{name}");
    }
}

/// Only zeros follow the end of a log, unless Java truncated the log and left the old bytes.
fn check_end(store: &Golden, log: &[u8], end: usize) {
    let rest = &log[end..(end + 1).next_multiple_of(LOG_FILE_BYTES)];
    assert_eq!(Head::parse(rest), Head::Neither, "{}", store.name);
    let is_zero = rest.iter().all(|byte| *byte == 0);
    assert_eq!(
        is_zero,
        store.name != "store-damaged/after",
        "{}",
        store.name
    );
}

#[test]
fn a_flipped_bit_in_a_body_damages_only_that_record() {
    let text =
        std::fs::read_to_string(mq_testing::golden::path("store-damaged/damage.json")).unwrap();
    let damage: Value = serde_json::from_str(&text).unwrap();
    let at = |name: &str| usize::try_from(damage[name].as_u64().unwrap()).unwrap();
    let log = Golden::open("store-damaged").commit_log();
    let sound = Golden::open("store-crashed-recovered");
    let flipped = at("flipped_byte_offset");
    assert_eq!(usize::from(log[flipped]), at("after"));
    assert_eq!(usize::from(sound.commit_log()[flipped]), at("before"));
    let mut doubted = Vec::new();
    for expected in sound.list("expected") {
        if !expected["topic"].is_string() {
            continue;
        }
        let start = usize::try_from(expected["physicalOffset"].as_u64().unwrap()).unwrap();
        if start != at("record") {
            check_line(&log, &expected);
            continue;
        }
        assert!(matches!(
            RecordView::parse(&log[start..], CheckCrc::Yes),
            Err(RecordError::BodyCrc { .. })
        ));
        let view = RecordView::parse(&log[start..], CheckCrc::No).unwrap();
        check_fields(&view, &expected);
        doubted.push(start);
    }
    assert_eq!(doubted, [at("record")]);
}
