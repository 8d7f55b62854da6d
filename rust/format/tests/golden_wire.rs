//! Frames recorded from Java RocketMQ 4.9.7 decode to what was recorded, and encode back.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use mq_format::remoting::{Frame, Serialize};
use serde_json::Value;

/// Sessions with requests that were made by hand, not by Java's encoder.
const HAND_MADE: [&str; 4] = ["raw-namesrv", "raw-broker", "trimmed", "ha"];

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/wire");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "gz"));
    found.sort();
    found
}

fn lines(path: &Path) -> impl Iterator<Item = Value> + use<> {
    let text = BufReader::new(GzDecoder::new(File::open(path).unwrap()));
    text.lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn check_decoded(frame: &Frame<'_>, recorded: &Value, place: &str) {
    assert_eq!(recorded["code"], frame.code, "{place}");
    assert_eq!(recorded["flag"], frame.flag, "{place}");
    assert_eq!(recorded["opaque"], frame.opaque, "{place}");
    assert_eq!(recorded["version"], frame.version, "{place}");
    assert_eq!(recorded["language"], frame.language.name(), "{place}");
    assert_eq!(
        recorded["remark"].as_str(),
        frame.remark.as_deref(),
        "{place}"
    );
    let serialize = if frame.serialize == Serialize::Json {
        "JSON"
    } else {
        "ROCKETMQ"
    };
    assert_eq!(recorded["serialize"], serialize, "{place}");

    let mut expected: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in recorded["ext_fields"].as_object().into_iter().flatten() {
        expected.insert(name, value.as_str().unwrap());
    }
    if frame.serialize == Serialize::RocketMq {
        expected.retain(|_, value| !value.is_empty()); // null to Java, and to us
    }
    assert_eq!(
        frame.ext.iter().collect::<BTreeMap<_, _>>(),
        expected,
        "{place}"
    );

    let body = match (&recorded["body_text"], &recorded["body_hex"]) {
        (Value::String(text), _) => text.as_bytes().to_vec(),
        (_, Value::String(hex)) => unhex(hex),
        _ => Vec::new(),
    };
    assert_eq!(frame.body, body, "{place}");
}

#[test]
fn recorded_frames_decode_and_encode_back() {
    let (mut decoded, mut encoded) = (0, 0);
    for path in recordings() {
        let session = path.file_name().unwrap().to_str().unwrap().to_owned();
        for (number, recorded) in lines(&path).enumerate() {
            let place = format!("{session} line {}", number + 1);
            let Some(hex) = recorded["frame_hex"].as_str() else {
                // The bytes of an HA connection are no frames; the crate of replication reads them.
                assert_eq!(recorded["server"], "ha", "{place}");
                continue;
            };
            let bytes = unhex(hex);
            let frame = Frame::decode(&bytes).unwrap_or_else(|error| panic!("{place}: {error}"));
            check_decoded(&frame, &recorded, &place);
            decoded += 1;
            let by_hand = HAND_MADE.iter().any(|made| session.starts_with(made));
            if by_hand && recorded["from"] == "client" {
                continue;
            }
            let mut again = Vec::new();
            frame.encode(&mut again);
            let (again, bytes) = (
                String::from_utf8_lossy(&again),
                String::from_utf8_lossy(&bytes),
            );
            assert_eq!(again, bytes, "{place}");
            encoded += 1;
        }
    }
    assert!(
        decoded > 1000 && encoded > 700,
        "only {decoded} decoded, {encoded} encoded"
    );
}
