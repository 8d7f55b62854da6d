//! The frame of a send, and its outcome.

use mq_format::codes::{
    FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SEND_BATCH_MESSAGE, SEND_MESSAGE_V2,
    SLAVE_NOT_AVAILABLE, SUCCESS,
};
use mq_format::message::{RETRY_PREFIX, TEMPLATE_TOPIC};
use mq_format::remoting::{FieldValue, Frame, Head, MAX_FRAME_BYTES, Serialize};

use super::error::Why;
use super::outgoing::{Kind, Outgoing};
use super::topics::Queue;
use crate::inbox::Answer;
use mq_client::credentials::Credentials;
use mq_client::events::Failure;

/// Queues of a topic that a send creates.
const TEMPLATE_QUEUES: i32 = 4;
/// The properties of a batch: the broker replies after the flush.
const BATCH_PROPERTIES: &str = "WAIT\u{1}true";
/// Largest number of deliveries of a message in a retry topic.
const RECONSUME_MAX: i32 = 16;

/// Whether messages of a topic must be sent alone.
pub(super) fn is_retry_topic(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX)
}

/// The producer group and the account of the sends.
pub(super) struct Sender<'a> {
    pub group: &'a str,
    pub credentials: Option<&'a Credentials>,
}

impl Sender<'_> {
    /// Appends the frame of a send, signed if there is an account. The header is V2, with
    /// one-letter field names in the order of `SendMessageRequestHeaderV2`.
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

/// The queue offset of the first message, or the reason why the send was not stored.
pub(super) type Sent = Result<i64, Why>;

impl Answer for Sent {
    fn of_reply(reply: &Frame<'_>) -> Self {
        read(reply)
    }

    fn of_failure(failure: Failure) -> Self {
        Err(Why::Failed(failure))
    }
}

/// Reads the reply to a send. Three codes other than success also mean "stored".
fn read(frame: &Frame<'_>) -> Sent {
    if let SUCCESS | FLUSH_DISK_TIMEOUT | SLAVE_NOT_AVAILABLE | FLUSH_SLAVE_TIMEOUT = frame.code {
        let offset = frame.ext.get("queueOffset").unwrap_or_default();
        let no_offset = |_| Failure::BadFrame("the reply to a send has no queueOffset".to_owned());
        return offset.parse().map_err(no_offset).map_err(Why::Failed);
    }
    Err(Why::Refused {
        code: frame.code,
        remark: frame.remark.as_deref().unwrap_or_default().to_owned(),
    })
}
