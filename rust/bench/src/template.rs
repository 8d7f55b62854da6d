//! A send request that is encoded once and then patched: opaque, time, topic, queue, keys, stamp.
//! The signed content is patched in the same way, and the signature with it.

use std::ops::Range;

use super::patch_points::{BORN_MARK, KEY_MARK, PatchPoints, STAMP_MARK, find, write_digits};
use super::request::Request;
use super::stamp::STAMP_BYTES;
use super::{BenchError, Produce};
use mq_format::message::TEMPLATE_TOPIC;
use mq_format::remoting::{FLAG_ONEWAY, FieldValue, Head, Serialize};
use mq_format::signature::{SIGNATURE, SIGNATURE_CHARS, Signer};

const SEND_MESSAGE_V2: i32 = 310;
const SEND_BATCH_MESSAGE: i32 = 320;
/// Mark for the opaque: ten digits in JSON, as all opaques from `OPAQUE_FIRST` on.
const OPAQUE_MARK: i32 = 1_999_999_999;
/// The opaque of slot 0. It has ten digits, so that patching keeps the length.
pub(super) const OPAQUE_FIRST: i32 = 1_000_000_000;
/// Mark for the signature.
const SIGNATURE_MARK: &str = "@SIGNATURE@@@@@@@@@@@@@@@@@@";
/// The topic's field. The signed content before it never changes.
const TOPIC_FIELD: &str = "b";
/// Most digits of a queue id; a topic has at most 65,535 queues.
const QUEUE_DIGITS_MAX: usize = 7;
const _: () = assert!(SIGNATURE_MARK.len() == SIGNATURE_CHARS);

/// The frames of a worker: one for each number of digits of a queue id.
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
        let slot = self.by_digits.get_mut(digits).ok_or(BenchError::Worker)?;
        let template =
            slot.get_or_insert_with(|| Template::new(settings, digits + 1, run.is_some()));
        template.patch(request, settings.batch as u64, run.unwrap_or(0));
        out.extend_from_slice(&template.frame.bytes);
        Ok(())
    }
}

/// A frame with points to patch.
#[derive(Debug, Clone)]
struct Template {
    frame: PatchPoints,
    opaque: Range<usize>,
    serialize: Serialize,
    signed: Option<Signed>,
}

/// The signed content of a frame, and the position of the signature.
#[derive(Debug, Clone)]
struct Signed {
    content: PatchPoints,
    signer: Signer,
    signature: Range<usize>,
}

impl Template {
    fn new(settings: &Produce, queue_digits: usize, is_stamped: bool) -> Self {
        let ones = (0..queue_digits).fold(0, |number, _| 10 * number + 1);
        let one = Marked::new(settings, ones, is_stamped);
        // The queue id is too short to search for. Its position is where requests of different
        // queues differ.
        let other = Marked::new(settings, 2 * ones, is_stamped);
        let topic = (settings.load.topics > 1).then(|| settings.load.topic_name(0));
        let points = |bytes, other: &[u8], begin| {
            PatchPoints::new(bytes, (other, queue_digits), (topic.as_deref(), begin))
        };
        let serialize = settings.load.headers.into();
        let opaque = match serialize {
            Serialize::Json => find(&one.frame, OPAQUE_MARK.to_string().as_bytes()),
            Serialize::RocketMq => find(&one.frame, &OPAQUE_MARK.to_be_bytes()),
        };
        let signed = settings.load.credentials.as_ref().map(|account| Signed {
            content: points(one.content, &other.content, one.topic_at),
            signer: account.signer().clone(),
            signature: find(&one.frame, SIGNATURE_MARK.as_bytes()),
        });
        Self {
            frame: points(one.frame, &other.frame, 0),
            opaque,
            serialize,
            signed,
        }
    }

    fn patch(&mut self, request: &Request, batch: u64, run: u64) {
        self.frame.patch(request, batch, run);
        let frame = &mut self.frame.bytes;
        let opaque = OPAQUE_FIRST + request.slot as i32;
        match self.serialize {
            Serialize::Json => write_digits(opaque.into(), &mut frame[self.opaque.clone()]),
            Serialize::RocketMq => {
                frame[self.opaque.clone()].copy_from_slice(&opaque.to_be_bytes());
            }
        }
        if let Some(signed) = &mut self.signed {
            signed.content.patch(request, batch, run);
            let signature = signed.signer.sign_content(&signed.content.bytes);
            frame[signed.signature.clone()].copy_from_slice(signature.as_bytes());
        }
    }
}

/// A request with marks where it will be patched.
struct Marked {
    frame: Vec<u8>,
    /// The signed content; empty without an account.
    content: Vec<u8>,
    /// Start of the topic in it.
    topic_at: usize,
}

impl Marked {
    fn new(settings: &Produce, queue_id: i64, is_stamped: bool) -> Self {
        let load = &settings.load;
        let (shared, own) = properties(settings);
        let topic = load.topic_name(0);
        let mut fields: Vec<(&str, FieldValue<'_>)> = vec![
            ("a", "mqclient_bench".into()),
            ("b", topic.as_str().into()),
            ("c", TEMPLATE_TOPIC.into()),
            ("d", 4.into()),
            ("e", queue_id.into()),
            ("f", 0.into()),
            ("g", BORN_MARK.into()),
            ("h", 0.into()),
            ("i", shared.as_str().into()),
            ("j", 0.into()),
            ("k", false.into()),
            ("m", (settings.batch > 1).into()),
        ];
        let (code, body) = body(settings, own.as_bytes(), is_stamped);
        let (mut content, mut topic_at) = (Vec::new(), 0);
        if let Some(account) = &load.credentials {
            account.name(&mut fields);
            content = account.content(&fields, &body);
            let before = fields.iter().filter(|(name, _)| *name < TOPIC_FIELD);
            topic_at = account
                .content(&before.copied().collect::<Vec<_>>(), b"")
                .len();
            fields.push((SIGNATURE, SIGNATURE_MARK.into()));
        }
        let mut head = Head::request(code, OPAQUE_MARK, load.headers.into());
        if settings.oneway {
            head.flag |= FLAG_ONEWAY;
        }
        let mut frame = Vec::new();
        head.encode(&fields, &body, &mut frame);
        Self {
            frame,
            content,
            topic_at,
        }
    }
}

/// The properties of a request, and of each message of a batch.
fn properties(settings: &Produce) -> (String, String) {
    let tag = if settings.tag.is_empty() {
        String::new()
    } else {
        format!("\u{2}TAGS\u{1}{}", settings.tag)
    };
    let own = format!("UNIQ_KEY\u{1}{KEY_MARK}{tag}");
    let wait = format!("WAIT\u{1}{}", settings.wait);
    // In a batch each message has its own key, and the request has the common properties.
    if settings.batch > 1 {
        return (wait, own);
    }
    (format!("{own}\u{2}{wait}"), own)
}

/// The code and the body of a request.
fn body(settings: &Produce, properties: &[u8], is_stamped: bool) -> (i32, Vec<u8>) {
    let mut body = vec![b'x'; settings.body_bytes];
    if is_stamped {
        body[..STAMP_BYTES].copy_from_slice(STAMP_MARK);
    }
    if settings.batch > 1 {
        let batch = batch_of(&body, properties, settings.batch);
        return (SEND_BATCH_MESSAGE, batch);
    }
    (SEND_MESSAGE_V2, body)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::stamp::Stamp;
    use super::super::{Headers, Load};
    use super::*;
    use mq_client::credentials::Credentials;
    use mq_format::remoting::Frame;

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
        // Patched twice, to show that the first patch leaves nothing behind.
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
    fn patched_frames_decode_to_the_patched_values() {
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

    /// Verifies the signature as a broker does, for every kind of request and for frames that were
    /// patched before.
    #[test]
    fn patched_frames_are_signed_correctly() {
        // An account whose name looks like a patched value.
        let account = Credentials::new("T-000000".into(), "12345678", Some("T-000000".into()));
        for headers in [Headers::Json, Headers::Rocketmq] {
            for (topics, batch, run) in [(1, 1, None), (20, 1, Some(5)), (20, 3, Some(5))] {
                let load = Load {
                    headers,
                    topic: "T".to_owned(),
                    topics,
                    credentials: account.clone(),
                    ..Load::default()
                };
                let settings = Produce {
                    load,
                    batch,
                    body_bytes: STAMP_BYTES,
                    tag: "A".to_owned(),
                    ..Produce::default()
                };
                let out = frame_of(&settings, run, REQUEST);
                let frame = Frame::decode(&out).unwrap();
                assert_eq!(frame.ext.get("AccessKey"), Some("T-000000"));
                assert!(Signer::new("12345678").unwrap().verify(&frame));
                assert_eq!(
                    (frame.ext.get("e"), frame.ext.get("m")),
                    (Some("3"), Some(if batch > 1 { "true" } else { "false" }))
                );
            }
        }
    }
}
