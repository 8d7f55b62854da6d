//! A send request that is encoded once and then patched: number, time, topic, queue, keys, stamp.

use std::ops::Range;
use std::time::Duration;

use super::stamp::{STAMP_BYTES, Stamp};
use super::{BenchError, Produce};
use crate::format::remoting::{FLAG_ONEWAY, Head, Serialize};

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
/// Where the stamp goes.
const STAMP_MARK: &[u8; STAMP_BYTES] = b"@STAMP@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
/// The digits at the end of the name of one of several topics.
const TOPIC_DIGITS: usize = 6;
/// Queue ids of a client's route have at most these: a topic has 65,535 queues at most.
const QUEUE_DIGITS_MAX: usize = 7;

/// Whose request it is, and what it is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub worker: u32,
    /// Counts the worker's requests.
    pub number: u64,
    /// Its place in the window, which its reply names.
    pub slot: usize,
    pub topic: u32,
    pub queue: i32,
    /// When it was due, since the run began.
    pub due: Duration,
    pub born_ms: i64,
}

/// The frames of a worker: one per number of digits that a queue's id has.
pub(super) struct Templates<'a> {
    settings: &'a Produce,
    /// The number that messages are stamped with; None leaves them without a stamp.
    run: Option<u64>,
    by_digits: [Option<Template>; QUEUE_DIGITS_MAX],
}

impl<'a> Templates<'a> {
    pub fn new(settings: &'a Produce, run: Option<u64>) -> Self {
        Self {
            settings,
            run,
            by_digits: Default::default(),
        }
    }

    /// Appends the frame of a request to `out`.
    pub fn append(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), BenchError> {
        let (settings, run) = (self.settings, self.run);
        let digits = request.queue.checked_ilog10().unwrap_or(0) as usize;
        let place = self.by_digits.get_mut(digits).ok_or(BenchError::Worker)?;
        let template =
            place.get_or_insert_with(|| Template::new(settings, digits + 1, run.is_some()));
        template.patch(request, settings.batch as u64, run.unwrap_or(0));
        out.extend_from_slice(&template.frame);
        Ok(())
    }
}

/// A frame with places to patch.
#[derive(Debug, Clone)]
struct Template {
    frame: Vec<u8>,
    opaque: Range<usize>,
    born: Range<usize>,
    queue: Range<usize>,
    /// Empty where there is one topic only.
    topic: Range<usize>,
    keys: Vec<usize>,
    stamps: Vec<usize>,
    serialize: Serialize,
}

impl Template {
    fn new(settings: &Produce, queue_digits: usize, is_stamped: bool) -> Self {
        let ones = (0..queue_digits).fold(0, |number, _| 10 * number + 1);
        let frame = encode(settings, ones, is_stamped);
        // The queue's place is where frames of different queues differ: too short to search for.
        let other = encode(settings, 2 * ones, is_stamped);
        let differ = |(mine, theirs): (&u8, &u8)| mine != theirs;
        let queue = frame.iter().zip(&other).position(differ).unwrap_or(0);
        let serialize = settings.load.headers.into();
        let opaque = match serialize {
            Serialize::Json => find(&frame, OPAQUE_MARK.to_string().as_bytes()),
            Serialize::RocketMq => find(&frame, &OPAQUE_MARK.to_be_bytes()),
        };
        let topic = if settings.load.topics > 1 {
            let whole = find(&frame, settings.load.topic_name(0).as_bytes());
            whole.end - TOPIC_DIGITS..whole.end
        } else {
            0..0
        };
        Self {
            opaque,
            born: find(&frame, BORN_MARK.to_string().as_bytes()),
            queue: queue..queue + queue_digits,
            topic,
            keys: find_all(&frame, KEY_MARK.as_bytes()),
            stamps: find_all(&frame, STAMP_MARK),
            serialize,
            frame,
        }
    }

    fn patch(&mut self, request: &Request, batch: u64, run: u64) {
        let frame = &mut self.frame;
        let opaque = OPAQUE_FIRST + request.slot as i32;
        match self.serialize {
            Serialize::Json => write_digits(opaque.into(), &mut frame[self.opaque.clone()]),
            Serialize::RocketMq => {
                frame[self.opaque.clone()].copy_from_slice(&opaque.to_be_bytes());
            }
        }
        write_digits(request.born_ms, &mut frame[self.born.clone()]);
        write_digits(request.queue.into(), &mut frame[self.queue.clone()]);
        write_digits(request.topic.into(), &mut frame[self.topic.clone()]);
        for (index, at) in self.keys.iter().enumerate() {
            // Unlike for every message of every worker, and of the shape of RocketMQ's.
            let place = &mut frame[*at..at + KEY_MARK.len()];
            write_hex(u64::from(request.worker), &mut place[..8]);
            write_hex(request.number, &mut place[8..24]);
            write_hex(index as u64, &mut place[24..]);
        }
        for (index, at) in self.stamps.iter().enumerate() {
            let stamp = Stamp {
                run,
                worker: request.worker,
                number: request.number * batch + index as u64,
                due: request.due,
            };
            stamp.write(&mut frame[*at..at + STAMP_BYTES]);
        }
    }
}

fn find(frame: &[u8], mark: &[u8]) -> Range<usize> {
    let found = frame.windows(mark.len()).position(|window| window == mark);
    found.map_or(0..0, |start| start..start + mark.len())
}

fn find_all(frame: &[u8], mark: &[u8]) -> Vec<usize> {
    let windows = frame.windows(mark.len()).enumerate();
    windows
        .filter(|(_, window)| *window == mark)
        .map(|(at, _)| at)
        .collect()
}

/// The whole frame, with marks where it will be patched.
fn encode(settings: &Produce, queue_id: i64, is_stamped: bool) -> Vec<u8> {
    let load = &settings.load;
    let is_batch = settings.batch > 1;
    let tag = if settings.tag.is_empty() {
        String::new()
    } else {
        format!("\u{2}TAGS\u{1}{}", settings.tag)
    };
    let own = format!("UNIQ_KEY\u{1}{KEY_MARK}{tag}");
    let wait = format!("WAIT\u{1}{}", settings.wait);
    // In a batch each message has its own key, and the request only what they share.
    let shared = if is_batch {
        wait
    } else {
        format!("{own}\u{2}{wait}")
    };
    let topic = load.topic_name(0);
    let fields = [
        ("a", "mqclient_bench".into()),
        ("b", topic.as_str().into()),
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
    let mut body = vec![b'x'; settings.body_bytes];
    if is_stamped {
        body[..STAMP_BYTES].copy_from_slice(STAMP_MARK);
    }
    let (code, body) = if is_batch {
        (
            SEND_BATCH_MESSAGE,
            batch_of(&body, own.as_bytes(), settings.batch),
        )
    } else {
        (SEND_MESSAGE_V2, body)
    };
    let mut head = Head::request(code, OPAQUE_MARK, load.headers.into());
    if settings.oneway {
        head.flag |= FLAG_ONEWAY;
    }
    let mut frame = Vec::new();
    head.encode(&fields, &body, &mut frame);
    frame
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

    const REQUEST: Request = Request {
        worker: 7,
        number: 0x1F,
        slot: 30,
        topic: 12,
        queue: 3,
        due: Duration::from_nanos(77),
        born_ms: 1_700_000_000_123,
    };

    fn frame_of(settings: &Produce, run: Option<u64>, request: Request) -> Vec<u8> {
        let mut out = Vec::new();
        let mut templates = Templates::new(settings, run);
        // Patched twice: what the first left behind must not show.
        let before = Request {
            topic: 999_999,
            queue: 9_999_999,
            ..request
        };
        templates.append(&before, &mut out).unwrap();
        out.clear();
        templates.append(&request, &mut out).unwrap();
        out
    }

    #[test]
    fn patched_frames_decode_to_what_was_asked() {
        for headers in [Headers::Json, Headers::Rocketmq] {
            for (queue, topics, topic) in
                [(3, 1, "T"), (0, 20, "T-000012"), (41_000, 20, "T-000012")]
            {
                let load = Load {
                    headers,
                    topic: "T".to_owned(),
                    topics,
                    ..Load::default()
                };
                let settings = Produce {
                    load,
                    body_bytes: 5,
                    tag: "A".to_owned(),
                    ..Produce::default()
                };
                let out = frame_of(&settings, None, Request { queue, ..REQUEST });
                let frame = Frame::decode(&out).unwrap();
                assert_eq!((frame.code, frame.opaque), (310, OPAQUE_FIRST + 30));
                assert_eq!(frame.ext.get("b"), Some(topic));
                assert_eq!(frame.ext.get("e"), Some(queue.to_string().as_str()));
                assert_eq!(frame.ext.get("g"), Some("1700000000123"));
                let key = "00000007000000000000001F00000000";
                let properties = format!("UNIQ_KEY\u{1}{key}\u{2}TAGS\u{1}A\u{2}WAIT\u{1}true");
                assert_eq!(frame.ext.get("i"), Some(properties.as_str()));
                assert_eq!(frame.body, b"xxxxx");
                assert!(!frame.is_oneway());
            }
        }
    }

    #[test]
    fn batches_hold_messages_with_keys_and_stamps_of_their_own() {
        let settings = Produce {
            batch: 3,
            body_bytes: STAMP_BYTES + 2,
            wait: false,
            oneway: true,
            ..Produce::default()
        };
        let out = frame_of(&settings, Some(5), REQUEST);
        let frame = Frame::decode(&out).unwrap();
        assert_eq!((frame.code, frame.ext.get("m")), (320, Some("true")));
        assert_eq!(frame.ext.get("i"), Some("WAIT\u{1}false"));
        assert!(frame.is_oneway());
        let size = 22 + settings.body_bytes + "UNIQ_KEY".len() + 1 + 32;
        assert_eq!(frame.body.len(), 3 * size);
        for (index, one) in frame.body.chunks(size).enumerate() {
            assert_eq!(one[..4], (size as u32).to_be_bytes());
            assert_eq!(one[size - 1], b'0' + index as u8);
            let stamp = Stamp::read(&one[20..]).unwrap();
            assert_eq!((stamp.run, stamp.worker), (5, 7));
            assert_eq!(stamp.number, 0x1F * 3 + index as u64);
            assert_eq!(stamp.due, REQUEST.due);
        }
    }
}
