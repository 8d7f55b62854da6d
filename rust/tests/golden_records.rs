//! Every record a Java broker wrote decodes to what Java decoded, and encodes to the same bytes.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use mqstack_core::format::message::{BLANK_BYTES, CheckCrc, Head, RecordView, blank};
use mqstack_core::format::{message_id, properties};
use serde_json::Value;

const FILE_BYTES: usize = 65_536;

fn golden(name: &str) -> GzDecoder<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/store");
    GzDecoder::new(File::open(root.join(name)).unwrap())
}

/// The commit log's files, joined in the order of their offsets.
fn commit_log() -> Vec<u8> {
    let mut files = BTreeMap::new();
    let mut archive = tar::Archive::new(golden("store.tar.gz"));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        if path
            .parent()
            .is_some_and(|parent| parent.ends_with("commitlog"))
            && path.is_relative()
        {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            if !bytes.is_empty() {
                files.insert(path, bytes);
            }
        }
    }
    files.into_values().flatten().collect()
}

fn expected() -> Vec<Value> {
    let mut text = String::new();
    golden("expected.jsonl.gz")
        .read_to_string(&mut text)
        .unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_record(bytes: &[u8], expected: &Value) -> usize {
    let view = RecordView::parse(bytes, CheckCrc::Yes).unwrap();
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

    let mut encoded = Vec::new();
    view.encode(&mut encoded);
    assert_eq!(encoded, bytes[..encoded.len()]);
    encoded.len()
}

#[test]
fn records_decode_as_java_decodes_them_and_encode_to_the_same_bytes() {
    let log = commit_log();
    let mut position = 0;
    for expected in expected() {
        assert_eq!(Some(position as u64), expected["physicalOffset"].as_u64());
        let here = &log[position..];
        if expected["blank"] == Value::Bool(true) {
            let remaining = FILE_BYTES - position % FILE_BYTES;
            assert_eq!(Some(remaining as u64), expected["remaining"].as_u64());
            assert_eq!(here[..BLANK_BYTES], blank(remaining as u32));
            assert_eq!(Head::parse(here), Head::Blank);
            position += remaining;
        } else if expected["end"] == Value::Bool(true) {
            assert_eq!(Head::parse(here), Head::Neither);
        } else {
            let size = check_record(here, &expected);
            assert_eq!(Head::parse(here), Head::Record(size));
            position += size;
        }
    }
    assert_eq!(position, 222_390);
}
