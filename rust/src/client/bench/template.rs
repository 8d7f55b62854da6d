//! A send request that is encoded once and then patched: number, time, unique key.

use std::ops::Range;

use super::Produce;
use crate::format::remoting::{Head, Serialize};

const SEND_MESSAGE_V2: i32 = 310;
const SEND_BATCH_MESSAGE: i32 = 320;
/// Ten digits in JSON, whatever number replaces it: numbers run from `OPAQUE_FIRST` on.
const OPAQUE_MARK: i32 = 1_999_999_999;
/// The number of slot 0; with ten digits, so that patching keeps the length.
pub(super) const OPAQUE_FIRST: i32 = 1_000_000_000;
/// A time of 13 digits, as all are from 2001 to 2286.
const BORN_MARK: i64 = 9_876_543_210_123;
/// Where the unique key goes: 32 hexadecimal digits.
const KEY_MARK: &str = "@KEY@@@@@@@@@@@@@@@@@@@@@@@@@@@@";

/// A frame with places to patch.
#[derive(Debug, Clone)]
pub(super) struct Template {
    frame: Vec<u8>,
    opaque: Range<usize>,
    born: Range<usize>,
    keys: Vec<usize>,
    serialize: Serialize,
}

impl Template {
    /// The frame of one send to one queue.
    pub fn new(settings: &Produce, queue_id: i32) -> Self {
        let load = &settings.load;
        let is_batch = settings.batch > 1;
        let key = format!("UNIQ_KEY\u{1}{KEY_MARK}");
        let tag = if settings.tag.is_empty() {
            String::new()
        } else {
            format!("\u{2}TAGS\u{1}{}", settings.tag)
        };
        let own = format!("{key}{tag}");
        // In a batch each message has its own key, and the request only what they share.
        let shared = if is_batch {
            "WAIT\u{1}true".to_owned()
        } else {
            format!("{own}\u{2}WAIT\u{1}true")
        };
        let fields = [
            ("a", "mqclient_bench".into()),
            ("b", load.topic.as_str().into()),
            ("c", "TBW102".into()),
            ("d", 4.into()),
            ("e", queue_id.into()),
            ("f", 0.into()),
            ("g", BORN_MARK.into()),
            ("h", 0.into()),
            ("i", shared.as_str().into()),
            ("j", 0.into()),
            ("k", false.into()),
            ("m", is_batch.into()),
        ];
        let body = vec![b'x'; settings.body_bytes];
        let body = if is_batch {
            batch_of(&body, own.as_bytes(), settings.batch)
        } else {
            body
        };
        let serialize = load.headers.into();
        let code = if is_batch {
            SEND_BATCH_MESSAGE
        } else {
            SEND_MESSAGE_V2
        };
        let mut frame = Vec::new();
        Head::request(code, OPAQUE_MARK, serialize).encode(&fields, &body, &mut frame);
        Self::find_places(frame, serialize)
    }

    fn find_places(frame: Vec<u8>, serialize: Serialize) -> Self {
        let find = |mark: &[u8]| {
            let found = frame.windows(mark.len()).position(|window| window == mark);
            found.map_or(0..0, |start| start..start + mark.len())
        };
        let opaque = match serialize {
            Serialize::Json => find(OPAQUE_MARK.to_string().as_bytes()),
            Serialize::RocketMq => find(&OPAQUE_MARK.to_be_bytes()),
        };
        let born = find(BORN_MARK.to_string().as_bytes());
        let mark = KEY_MARK.as_bytes();
        let windows = frame.windows(mark.len()).enumerate();
        let keys = windows
            .filter(|(_, window)| *window == mark)
            .map(|(at, _)| at)
            .collect();
        Self {
            opaque,
            born,
            keys,
            serialize,
            frame,
        }
    }

    /// Appends a worker's `number`th frame, made at `born_ms`, to `out`; its opaque is `slot`'s.
    pub fn append(
        &mut self,
        (worker, number, slot): (u32, u64, i32),
        born_ms: i64,
        out: &mut Vec<u8>,
    ) {
        let opaque = OPAQUE_FIRST + slot;
        match self.serialize {
            Serialize::Json => write_digits(opaque.into(), &mut self.frame[self.opaque.clone()]),
            Serialize::RocketMq => {
                self.frame[self.opaque.clone()].copy_from_slice(&opaque.to_be_bytes());
            }
        }
        write_digits(born_ms, &mut self.frame[self.born.clone()]);
        for (index, at) in self.keys.iter().enumerate() {
            // Unlike for every message of every worker, and of the shape of RocketMQ's.
            let place = &mut self.frame[*at..at + KEY_MARK.len()];
            write_hex(u64::from(worker), &mut place[..8]);
            write_hex(number, &mut place[8..24]);
            write_hex(index as u64, &mut place[24..]);
        }
        out.extend_from_slice(&self.frame);
    }
}

/// RocketMQ's batch body: per message total, magic 0, CRC 0, flag 0, body, properties.
fn batch_of(body: &[u8], properties: &[u8], count: usize) -> Vec<u8> {
    let mut one = Vec::new();
    let total = 4 * 5 + body.len() + 2 + properties.len();
    one.extend_from_slice(&(total as u32).to_be_bytes());
    one.extend_from_slice(&[0; 12]);
    one.extend_from_slice(&(body.len() as u32).to_be_bytes());
    one.extend_from_slice(body);
    one.extend_from_slice(&(properties.len() as u16).to_be_bytes());
    one.extend_from_slice(properties);
    one.repeat(count)
}

fn write_digits(mut number: i64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn write_hex(mut number: u64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789ABCDEF"[(number & 15) as usize];
        number >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Headers, Load};
    use super::*;
    use crate::format::remoting::Frame;

    #[test]
    fn patched_frames_decode_to_what_was_asked() {
        for headers in [Headers::Json, Headers::Rocketmq] {
            let load = Load {
                headers,
                topic: "T".to_owned(),
                ..Load::default()
            };
            let settings = Produce {
                load,
                body_bytes: 5,
                tag: "A".to_owned(),
                ..Produce::default()
            };
            let mut template = Template::new(&settings, 3);
            let mut out = Vec::new();
            template.append((7, 0x1F, 30), 1_700_000_000_123, &mut out);
            let frame = Frame::decode(&out).unwrap();
            assert_eq!((frame.code, frame.opaque), (310, OPAQUE_FIRST + 30));
            assert_eq!(frame.ext.get("b"), Some("T"));
            assert_eq!(frame.ext.get("e"), Some("3"));
            assert_eq!(frame.ext.get("g"), Some("1700000000123"));
            let key = "00000007000000000000001F00000000";
            let properties = format!("UNIQ_KEY\u{1}{key}\u{2}TAGS\u{1}A\u{2}WAIT\u{1}true");
            assert_eq!(frame.ext.get("i"), Some(properties.as_str()));
            assert_eq!(frame.body, b"xxxxx");
        }
    }

    #[test]
    fn batches_hold_messages_with_keys_of_their_own() {
        let settings = Produce {
            batch: 3,
            body_bytes: 2,
            ..Produce::default()
        };
        let mut template = Template::new(&settings, 0);
        let mut out = Vec::new();
        template.append((0, 1, 0), 1_700_000_000_123, &mut out);
        let frame = Frame::decode(&out).unwrap();
        assert_eq!((frame.code, frame.ext.get("m")), (320, Some("true")));
        let size = 22 + 2 + "UNIQ_KEY".len() + 1 + 32;
        assert_eq!(frame.body.len(), 3 * size);
        for (index, one) in frame.body.chunks(size).enumerate() {
            assert_eq!(one[..4], (size as u32).to_be_bytes());
            assert_eq!(one[size - 1], b'0' + index as u8);
        }
    }
}
