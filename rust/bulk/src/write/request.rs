//! The frame of a send.

use mq_format::codes::{SEND_BATCH_MESSAGE, SEND_MESSAGE_V2};
use mq_format::message::{RETRY_PREFIX, TEMPLATE_TOPIC};
use mq_format::remoting::{FieldValue, Head, MAX_FRAME_BYTES, Serialize};

use super::outgoing::{Kind, Outgoing};
use super::topics::Queue;
use mq_client::credentials::Credentials;

/// Queues of a topic that a send creates.
const TEMPLATE_QUEUES: i32 = 4;
/// The properties of a batch: the broker flushes before it answers.
const BATCH_PROPERTIES: &str = "WAIT\u{1}true";
/// Deliveries of a message of a retry topic.
const RECONSUME_MAX: i32 = 16;

/// Whether messages of a topic have to travel alone.
pub(super) fn is_retry_topic(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX)
}

/// The producer group that sends, and its account.
pub(super) struct Sender<'a> {
    pub group: &'a str,
    pub credentials: Option<&'a Credentials>,
}

impl Sender<'_> {
    /// Appends the frame of a send, signed if there is an account: header V2, whose fields are
    /// letters, in the order of `SendMessageRequestHeaderV2`.
    pub fn encode(
        &self,
        outgoing: &Outgoing,
        queue: &Queue,
        now_ms: i64,
        opaque: i32,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (code, flag, properties) = match &outgoing.kind {
            Kind::Batch => (SEND_BATCH_MESSAGE, 0, BATCH_PROPERTIES),
            Kind::Single { flag, properties } => (SEND_MESSAGE_V2, *flag, properties.as_str()),
        };
        let is_batch = outgoing.kind == Kind::Batch;
        let mut fields: Vec<(&str, FieldValue<'_>)> = vec![
            ("a", self.group.into()),
            ("b", (&*outgoing.topic).into()),
            ("c", TEMPLATE_TOPIC.into()),
            ("d", TEMPLATE_QUEUES.into()),
            ("e", queue.id.into()),
            ("f", 0.into()), // system flag
            ("g", now_ms.into()),
            ("h", flag.into()),
            ("i", properties.into()),
            ("j", 0.into()), // deliveries so far
            ("k", "false".into()),
        ];
        if is_retry_topic(&outgoing.topic) {
            fields.push(("l", RECONSUME_MAX.into()));
        }
        fields.push(("m", if is_batch { "true" } else { "false" }.into()));
        fields.push(("n", (&*queue.broker).into()));
        let start = out.len();
        let head = Head::request(code, opaque, Serialize::RocketMq);
        match self.credentials {
            Some(account) => account.encode(&head, &fields, &outgoing.body, out),
            None => head.encode(&fields, &outgoing.body, out),
        }
        let size = out.len() - start;
        if size > MAX_FRAME_BYTES {
            return Err(format!("{size} bytes; at most {MAX_FRAME_BYTES} fit"));
        }
        Ok(())
    }
}
