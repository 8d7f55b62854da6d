//! The body of REGISTER_BROKER (103) as brokers write it: up to ten thousand rows of topics.
//!
//! The reader is strict: it refuses every text that differs from what RocketMQ 4.9 and this project
//! write, and leaves it to the lenient reader (`fastjson`). The writer needs no such care.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use thiserror::Error;

use crate::fastjson::write_string;
use crate::inflate::{Bound, InflateError, inflate};
use crate::remoting::{MAX_FRAME_BYTES, push_decimal};

/// A broker's registration: its topics, their version, its filter servers.
#[derive(Debug, PartialEq, Eq)]
pub struct Registration<'a> {
    /// Topic names and their rows, in the order of the text; the last one counts if a name repeats.
    pub topics: Vec<(Cow<'a, str>, Row)>,
    /// Number of changes of the table since it was created.
    pub counter: i64,
    /// Milliseconds of the last change.
    pub timestamp: i64,
    /// Addresses of filter servers; brokers of 4.9 have none.
    pub filter_servers: Vec<Cow<'a, str>>,
}

/// The settings of a topic on one broker, as a route shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Queues that may be read.
    pub reads: i32,
    /// Queues that may be written.
    pub writes: i32,
    /// 4 read + 2 write + 1 inherit.
    pub perm: i32,
    /// 1 unit + 2 unit subscription.
    pub sys_flag: i32,
}

/// A topic to write; the fields are those in `TopicConfig`.
pub struct Topic<'a> {
    /// The topic's name.
    pub name: Cow<'a, str>,
    /// Its numeric settings.
    pub row: Row,
    /// `SINGLE_TAG` or `MULTI_TAG`.
    pub filter_type: Cow<'a, str>,
    /// Whether its messages are in order.
    pub order: bool,
}

/// Reads a registration; `None` if anything in it is unusual.
pub fn read(body: &[u8]) -> Option<Registration<'_>> {
    let body: Body<'_> = serde_json::from_slice(body).ok()?;
    let wrapper = body.topic_config_serialize_wrapper;
    Some(Registration {
        topics: wrapper.topic_config_table.0,
        counter: wrapper.data_version.counter,
        timestamp: wrapper.data_version.timestamp,
        filter_servers: body.filter_server_list.into_iter().map(|t| t.0).collect(),
    })
}

/// Limit on the unpacked size of a compressed registration. The frame limits an uncompressed one to
/// the same size; topic names compress to 1/10 to 1/50 of their size.
pub const UNPACKED_MAX: Bound = Bound {
    bytes: MAX_FRAME_BYTES,
    ratio: 100,
};

/// Largest number of topics in a compressed registration; an uncompressed one has no room for more.
pub const TOPICS_MAX: usize = 1 << 18;

/// Why a compressed registration is refused by every reader.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnpackError {
    /// It is not a zlib stream, or its unpacked size exceeds the limit.
    #[error(transparent)]
    Stream(#[from] InflateError),
    /// It has too many topics.
    #[error("{0} topics; at most {TOPICS_MAX} are taken")]
    Topics(usize),
}

/// Unpacks a compressed registration, for `read_unpacked`.
///
/// # Errors
/// `UnpackError`, as soon as the registration turns out to be unacceptable.
pub fn unpack(body: &[u8]) -> Result<Vec<u8>, UnpackError> {
    let stream = inflate(body, UNPACKED_MAX)?;
    let mut left = stream.as_slice();
    let count = piece(&mut left).and_then(|_| number(&mut left));
    match count.filter(|count| *count > TOPICS_MAX) {
        Some(count) => Err(UnpackError::Topics(count)),
        None => Ok(stream),
    }
}

/// Reads an unpacked registration. It consists of pieces with their lengths before them: the
/// version, the topics with their number before them, and the filter servers. Returns `None` like
/// `read`.
pub fn read_unpacked(stream: &[u8]) -> Option<Registration<'_>> {
    let mut left = stream;
    let version: Version = serde_json::from_slice(piece(&mut left)?).ok()?;
    let count = number(&mut left)?;
    let mut topics = Vec::new(); // not sized by the number, which may be false
    for _ in 0..count {
        topics.push(topic_line(piece(&mut left)?)?);
    }
    let servers: Vec<Text<'_>> = serde_json::from_slice(piece(&mut left)?).ok()?;
    Some(Registration {
        topics,
        counter: version.counter,
        timestamp: version.timestamp,
        filter_servers: servers.into_iter().map(|text| text.0).collect(),
    })
}

fn number(left: &mut &[u8]) -> Option<usize> {
    let (word, rest) = left.split_first_chunk()?;
    *left = rest;
    usize::try_from(i32::from_be_bytes(*word)).ok()
}

fn piece<'a>(left: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(left)?;
    let (piece, rest) = left.split_at_checked(length)?;
    *left = rest;
    Some(piece)
}

/// Reads a topic's words: name, read queues, write queues, perm, filter type. RocketMQ 5 adds
/// others.
fn topic_line(line: &[u8]) -> Option<(Cow<'_, str>, Row)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let name = words.next()?;
    let mut number = || words.next()?.parse().ok();
    let row = Row {
        reads: number()?,
        writes: number()?,
        perm: number()?,
        sys_flag: 0, // not part of the line
    };
    words.next()?;
    Some((name.into(), row))
}

/// Writes a topic table as fastjson does, in the given order: `{"name":{"order":false,...},...}`.
pub fn write_topics<'a>(topics: impl Iterator<Item = (Cow<'a, str>, Topic<'a>)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + 192 * topics.size_hint().0);
    out.push(b'{');
    for (index, (key, topic)) in topics.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(&key, &mut out);
        write_topic(&topic, &mut out);
    }
    out.push(b'}');
    out
}

fn write_topic(topic: &Topic<'_>, out: &mut Vec<u8>) {
    let row = &topic.row;
    out.extend_from_slice(if topic.order {
        b":{\"order\":true,\"perm\":".as_slice()
    } else {
        b":{\"order\":false,\"perm\":".as_slice()
    });
    push_decimal(row.perm.into(), out);
    out.extend_from_slice(b",\"readQueueNums\":");
    push_decimal(row.reads.into(), out);
    out.extend_from_slice(b",\"topicFilterType\":");
    write_string(&topic.filter_type, out);
    out.extend_from_slice(b",\"topicName\":");
    write_string(&topic.name, out);
    out.extend_from_slice(b",\"topicSysFlag\":");
    push_decimal(row.sys_flag.into(), out);
    out.extend_from_slice(b",\"writeQueueNums\":");
    push_decimal(row.writes.into(), out);
    out.push(b'}');
}

// --- the text, read strictly

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow)]
    filter_server_list: Vec<Text<'a>>,
    #[serde(borrow)]
    topic_config_serialize_wrapper: Wrapper<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wrapper<'a> {
    data_version: Version,
    #[serde(borrow)]
    topic_config_table: Rows<'a>,
}

#[derive(Deserialize)]
struct Version {
    counter: i64,
    timestamp: i64,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// All fields of a row: a row that the lenient reader refuses is refused here too.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RowText<'a> {
    #[serde(rename = "order")]
    _order: Option<bool>,
    perm: i32,
    read_queue_nums: i32,
    #[serde(borrow, rename = "topicFilterType")]
    _topic_filter_type: Option<Text<'a>>,
    #[serde(borrow, rename = "topicName")]
    topic_name: Text<'a>,
    topic_sys_flag: i32,
    write_queue_nums: i32,
}

/// A JSON object as a list, because a map of ten thousand rows would only be iterated.
struct Rows<'a>(Vec<(Cow<'a, str>, Row)>);

impl<'de: 'a, 'a> Deserialize<'de> for Rows<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RowsVisitor)
    }
}

struct RowsVisitor;

impl<'de> Visitor<'de> for RowsVisitor {
    type Value = Rows<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table of topics")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rows<'de>, A::Error> {
        let mut rows = Vec::new();
        while let Some((Text(name), row)) = map.next_entry::<Text<'de>, RowText<'de>>()? {
            if row.topic_name.0 != name {
                return Err(serde::de::Error::custom("a topic under another's name"));
            }
            rows.push((
                name,
                Row {
                    reads: row.read_queue_nums,
                    writes: row.write_queue_nums,
                    perm: row.perm,
                    sys_flag: row.topic_sys_flag,
                },
            ));
        }
        Ok(Rows(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row = Row {
        reads: 4,
        writes: 5,
        perm: 6,
        sys_flag: 1,
    };

    fn body(table: &str) -> String {
        let version = r#""dataVersion":{"counter":7,"timestamp":1700000000000}"#;
        let wrapper = format!(r#"{{{version},"topicConfigTable":{table}}}"#);
        format!(r#"{{"filterServerList":["a:1"],"topicConfigSerializeWrapper":{wrapper}}}"#)
    }

    fn table(name: &str) -> String {
        let topic = Topic {
            name: name.into(),
            row: ROW,
            filter_type: "SINGLE_TAG".into(),
            order: false,
        };
        String::from_utf8(write_topics([(name.into(), topic)].into_iter())).unwrap()
    }

    #[test]
    fn a_row_is_written_as_rocketmq_writes_it() {
        assert_eq!(
            table("T"),
            concat!(
                r#"{"T":{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","#,
                r#""topicName":"T","topicSysFlag":1,"writeQueueNums":5}}"#
            )
        );
        assert_eq!(write_topics([].into_iter()), b"{}");
    }

    #[test]
    fn written_topics_are_read_back_with_any_name() {
        for name in ["T", "%RETRY%g", "Überweisung", "a\"b\\c\n", "\u{2028}"] {
            let text = body(&table(name));
            let found = read(text.as_bytes()).unwrap();
            assert_eq!(found.topics, [(Cow::from(name), ROW)]);
            assert_eq!((found.counter, found.timestamp), (7, 1_700_000_000_000));
            assert_eq!(found.filter_servers, ["a:1"]);
        }
    }

    #[test]
    fn unusual_text_is_left_to_the_lenient_reader() {
        let whole = body(&table("T"));
        for (from, to) in [
            (r#""perm":6"#, r#""perm":"6""#),
            (r#""perm":6"#, r#""perm":null"#),
            (r#""perm":6,"#, ""),
            (r#""perm":6"#, r#""perm":99999999999"#),
            (r#""perm":6"#, r#""perm":6.0"#),
            (r#""topicName":"T""#, r#""topicName":null"#),
            (r#""topicName":"T""#, r#""topicName":"U""#),
            (r#""topicName":"T","#, ""),
            (
                r#""topicFilterType":"SINGLE_TAG""#,
                r#""topicFilterType":[]"#,
            ),
            (r#""order":false"#, r#""order":{}"#),
            (r#""counter":7"#, r#"counter:7"#),
            (r#""filterServerList":["a:1"],"#, ""),
        ] {
            assert!(whole.contains(from));
            assert_eq!(read(whole.replace(from, to).as_bytes()), None, "{to}");
        }
        assert_eq!(read(b"{}"), None);
        assert_eq!(read(&[0xff, 0xfe]), None);
        assert_eq!(read(&whole.as_bytes()[..whole.len() - 1]), None);
    }

    fn with_length(piece: &str) -> Vec<u8> {
        [&(piece.len() as i32).to_be_bytes(), piece.as_bytes()].concat()
    }

    fn stream(version: &str, count: i32, topics: &[&str], servers: &str) -> Vec<u8> {
        let mut stream = with_length(version);
        stream.extend(count.to_be_bytes());
        topics
            .iter()
            .for_each(|line| stream.extend(with_length(line)));
        stream.extend(with_length(servers));
        stream
    }

    const VERSION: &str = r#"{"counter":7,"timestamp":1700000000000}"#;

    #[test]
    fn an_unpacked_registration_is_read() {
        let topics = ["T 4 5 6 SINGLE_TAG", "Über 1 2 3 MULTI_TAG +a=b c"];
        let stream = stream(VERSION, 2, &topics, r#"["a:1"]"#);
        let found = read_unpacked(&stream).unwrap();
        let other = Row {
            reads: 1,
            writes: 2,
            perm: 3,
            sys_flag: 0,
        };
        let first = Row { sys_flag: 0, ..ROW };
        assert_eq!(found.topics, [("T".into(), first), ("Über".into(), other)]);
        assert_eq!((found.counter, found.timestamp), (7, 1_700_000_000_000));
        assert_eq!(found.filter_servers, ["a:1"]);
    }

    #[test]
    fn unusual_streams_are_left_to_the_lenient_reader() {
        let topics = ["T 4 5 6 SINGLE_TAG"];
        let good = stream(VERSION, 1, &topics, "[]");
        assert!(read_unpacked(&good).is_some());
        for end in 0..good.len() {
            assert_eq!(read_unpacked(&good[..end]), None, "{end} bytes");
        }
        for bad in [
            stream(VERSION, -1, &topics, "[]"),
            stream(VERSION, i32::MAX, &topics, "[]"),
            stream("7", 1, &topics, "[]"),
            stream(VERSION, 1, &topics, "[1]"),
            stream(VERSION, 1, &["T 4 5 6"], "[]"),
            stream(VERSION, 1, &["T 4 x 6 SINGLE_TAG"], "[]"),
            stream(VERSION, 1, &["T 4 99999999999 6 SINGLE_TAG"], "[]"),
        ] {
            assert_eq!(read_unpacked(&bad), None);
        }
    }

    #[test]
    fn a_zip_bomb_and_too_many_topics_are_refused() {
        let packed = |bytes: &[u8]| {
            let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
            std::io::Write::write_all(&mut packer, bytes).unwrap();
            packer.finish().unwrap()
        };
        let bomb = packed(&vec![0; 32 << 20]);
        let limit = bomb.len() * UNPACKED_MAX.ratio;
        let packed_bytes = bomb.len();
        let too_big = InflateError::TooBig {
            packed: packed_bytes,
            limit,
        };
        assert_eq!(unpack(&bomb), Err(UnpackError::Stream(too_big)));
        let count = i32::try_from(TOPICS_MAX).unwrap() + 1;
        let many = packed(&stream(VERSION, count, &[], "[]"));
        assert_eq!(unpack(&many), Err(UnpackError::Topics(TOPICS_MAX + 1)));
        let usual = stream(VERSION, 0, &[], "[]");
        assert_eq!(unpack(&packed(&usual)), Ok(usual));
    }

    #[test]
    fn an_unknown_key_is_skipped() {
        let whole = body(&table("T")).replace(r#""perm":6"#, r#""perm":6,"attributes":{"a":[1]}"#);
        assert_eq!(read(whole.as_bytes()).unwrap().topics.len(), 1);
    }
}
