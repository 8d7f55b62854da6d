//! The bytes of sends, compared with those that Java's producer sent.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use mq_format::properties;
use mq_format::remoting::Frame;
use mq_testing::golden::list_of;

use super::super::encoder::Encoder;
use super::super::ids::IdOrigin;
use super::super::outgoing::{Key, Kind, Outgoing, Place};
use super::super::plan::Plan;
use super::super::rows::{Keys, Maps, Numbers, Rows, Spans};
use super::super::send::Sender;
use super::super::topics::Queue;
use super::columns::{Column, numbers};

pub fn plan() -> Plan {
    Plan {
        group: "wire_producer".to_owned(),
        topic: Some("WireTopic".to_owned()),
        request_timeout: Duration::from_secs(10),
        retry_timeout: Duration::from_secs(10),
        message_bytes_max: 4 << 20,
        rate: None,
        row_id: "job/0/".to_owned(),
        reserved: HashSet::from(["TAGS".to_owned(), "UNIQ_KEY".to_owned()]),
        ids: IdOrigin {
            prefix: *b"C00002024D819EEAC9F7",
            month_ms: 0,
        },
        first_queue: 0,
    }
}

/// Flag, body and properties of an item.
type Item = (i32, Vec<u8>, BTreeMap<String, String>);

pub fn items(mut batch: &[u8]) -> Vec<Item> {
    let mut items = Vec::new();
    while !batch.is_empty() {
        let word = |at: usize| i32::from_be_bytes(batch[at..at + 4].try_into().unwrap());
        let (size, body) = (word(0) as usize, 20 + word(16) as usize);
        assert_eq!((word(4), word(8)), (0, 0), "magic and CRC");
        let text = u16::from_be_bytes(batch[body..body + 2].try_into().unwrap());
        assert_eq!(size, body + 2 + usize::from(text));
        items.push((
            word(12),
            batch[20..body].to_vec(),
            pairs(&batch[body + 2..size]),
        ));
        batch = &batch[size..];
    }
    items
}

fn pairs(text: &[u8]) -> BTreeMap<String, String> {
    let owned = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let pairs = properties::iterate(text).map(|(name, value)| (owned(name), owned(value)));
    pairs.collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// A recorded frame of Java's producer, with this code and this start of the body.
fn recorded(code: i64) -> Vec<u8> {
    let lines = list_of("wire", "producer-rocketmq");
    let line = lines.iter().find(|line| line["code"] == code).unwrap();
    unhex(line["frame_hex"].as_str().unwrap())
}

fn queue() -> Queue {
    Queue {
        broker: "broker-a".into(),
        address: "127.0.0.1:10911".into(),
        id: 3,
    }
}

fn sent(outgoing: &Outgoing) -> Vec<u8> {
    let sender = Sender {
        group: "wire_producer",
        credentials: None,
    };
    let mut frame = Vec::new();
    sender
        .encode(outgoing, &queue(), 1_795_246_692_360, 19, &mut frame)
        .unwrap();
    frame
}

fn fields<'a>(frame: &'a Frame<'_>) -> Vec<(&'a str, &'a str)> {
    let of_the_send = |(name, _): &(&str, &str)| !["e", "g"].contains(name);
    let mut fields: Vec<_> = frame.ext.iter().filter(of_the_send).collect();
    fields.sort_unstable();
    fields
}

#[test]
fn a_batch_equals_that_of_java_except_for_ids() {
    let java = recorded(320);
    let java = Frame::decode(&java).unwrap();
    let bodies = Column::of((0..3).map(|at| Some(format!("batch {at}"))));
    let keys = Column::of((0..3).map(|at| Some(format!("bk{at}"))));
    let tags = Column::of([Some("TagC"); 3]);
    let (names, values) = (
        Column::of([Some("i"); 3]),
        Column::of(["0", "1", "2"].map(Some)),
    );
    let ends = numbers(&[0, 1, 2, 3]);
    let rows = Rows {
        keys: Some(Keys::Text(keys.texts())),
        tags: Some(tags.texts()),
        properties: Some(Maps {
            spans: Spans::new(None, &ends, (0, 3), 3).unwrap(),
            names: names.texts(),
            values: values.texts(),
        }),
        ..bodies.rows()
    };
    let key = Key {
        topic: 0,
        place: Place::Any,
    };
    let mut outgoing = Outgoing::new(key, "WireTopic".into(), Kind::Batch);
    let mut encoder = Encoder::new(&plan());
    for row in 0..3 {
        encoder
            .push_item(&rows, row, row as u64, &mut outgoing.body)
            .unwrap();
    }
    let frame = sent(&outgoing);
    let frame = Frame::decode(&frame).unwrap();
    assert_eq!(
        (frame.code, frame.flag, fields(&frame)),
        (320, 0, fields(&java))
    );
    let mut ids = HashSet::new();
    for (row, (ours, theirs)) in items(frame.body)
        .into_iter()
        .zip(items(java.body))
        .enumerate()
    {
        let (mut properties, mut wanted) = (ours.2, theirs.2);
        assert_eq!(
            properties.remove("sparkRowId"),
            Some(format!("job/0/{row}"))
        );
        ids.insert(properties.remove("UNIQ_KEY"));
        wanted.remove("UNIQ_KEY");
        assert_eq!((ours.0, ours.1, properties), (theirs.0, theirs.1, wanted));
    }
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_delayed_message_has_its_properties_in_the_header() {
    let java = recorded(310);
    let java = Frame::decode(&java).unwrap();
    let bodies = Column::of([Some("later")]);
    let (levels, flags) = (numbers(&[3]), numbers(&[-7]));
    let rows = Rows {
        delay_level: Some(Numbers::new(None, &levels, (0, 1)).unwrap()),
        flag: Some(Numbers::new(None, &flags, (0, 1)).unwrap()),
        ..bodies.rows()
    };
    let (body, kind) = Encoder::new(&plan()).single(&rows, 0, 5).unwrap();
    let key = Key {
        topic: 0,
        place: Place::Any,
    };
    let mut outgoing = Outgoing::new(key, "WireTopic".into(), kind);
    outgoing.body = body;
    let frame = sent(&outgoing);
    let frame = Frame::decode(&frame).unwrap();
    assert_eq!((frame.code, frame.body), (310, &b"later"[..]));
    let names = |frame: &Frame<'_>| frame.ext.iter().map(|(name, _)| name.to_owned()).collect();
    let (ours, theirs): (HashSet<_>, HashSet<_>) = (names(&frame), names(&java));
    assert_eq!(ours, theirs);
    assert_eq!(
        (frame.ext.get("h"), frame.ext.get("m")),
        (Some("-7"), Some("false"))
    );
    let properties = pairs(frame.ext.get("i").unwrap().as_bytes());
    assert_eq!(properties["DELAY"], "3");
    assert_eq!(properties["sparkRowId"], "job/0/5");
}

/// The error for a row with this body, tag, keys and property.
fn refusal(body: Option<&str>, tag: &str, key: Option<&str>, pair: (&str, &str)) -> String {
    let (bodies, tags) = (Column::of([body]), Column::of([Some(tag)]));
    let keys = Column::of([key]);
    let (names, values) = (Column::of([Some(pair.0)]), Column::of([Some(pair.1)]));
    let ends = numbers(&[0, 1]);
    let spans = Spans::new(None, &ends, (0, 1), 1).unwrap();
    let rows = Rows {
        tags: Some(tags.texts()),
        keys: Some(Keys::Lists(super::super::rows::Lists {
            spans,
            items: keys.texts(),
        })),
        properties: Some(Maps {
            spans,
            names: names.texts(),
            values: values.texts(),
        }),
        ..bodies.rows()
    };
    let mut out = Vec::new();
    let small = Plan {
        message_bytes_max: 300,
        ..plan()
    };
    let refused = Encoder::new(&small).push_item(&rows, 0, 0, &mut out);
    refused.err().unwrap_or_default()
}

#[test]
fn rows_that_brokers_refuse_are_refused_before_the_send() {
    let (fine, big) = (("a", "b"), "x".repeat(300));
    assert_eq!(refusal(Some("x"), "T", Some("k"), fine), "");
    assert_eq!(refusal(Some("x"), "T", Some("k"), ("TAGS", "ignored")), "");
    assert_eq!(refusal(Some("x"), "A || B", Some("k"), ("a", " ")), "");
    for (said, words) in [
        (refusal(None, "T", Some("k"), fine), "body is null"),
        (refusal(Some(""), "T", Some("k"), fine), "body is empty"),
        (refusal(Some("x"), "T\u{1}", Some("k"), fine), "separate"),
        (refusal(Some("x"), "T", None, fine), "keys is null"),
        (refusal(Some("x"), "T", Some("a b"), fine), "holds a space"),
        (refusal(Some("x"), "T", Some("a\u{2}"), fine), "separate"),
        (
            refusal(Some("x"), "T", Some("k"), ("a", "\u{2}")),
            "separate",
        ),
        (
            refusal(Some(&big), "T", Some("k"), fine),
            "the limit is 300",
        ),
    ] {
        assert!(said.contains(words), "{said:?} has {words:?}");
    }
}
