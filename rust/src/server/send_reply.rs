//! The reply to a send: RocketMQ's code, remark and fields for each outcome (server.md B.3).

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use super::broker_row::BrokerRow;
use crate::format::remoting::{FieldValue, Head, PreparedReply, ReplyTo, Serialize};
use crate::store::{AckOutcome, PutResult, PutStatus, Store};

/// Response codes of a send.
const SYSTEM_ERROR: i32 = 1;
const FLUSH_DISK_TIMEOUT: i32 = 10;
const SLAVE_NOT_AVAILABLE: i32 = 11;
const FLUSH_SLAVE_TIMEOUT: i32 = 12;
const MESSAGE_ILLEGAL: i32 = 13;
const SERVICE_NOT_AVAILABLE: i32 = 14;

/// What became of a send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Stored, perhaps with a lesser guarantee: a code and the message's place.
    Stored(i32),
    /// Not stored.
    Failed(i32, Cow<'static, str>),
    /// Body or properties are too long.
    Illegal,
}

/// Why the store takes nothing, for the remark.
pub(super) fn refusal(store: &Store) -> String {
    store
        .refusal()
        .unwrap_or_else(|| "the store is shut down".to_owned())
}

impl Outcome {
    /// Of a put that waits for nothing.
    pub(super) fn of(result: &PutResult, refusal: impl FnOnce() -> String) -> Self {
        let failed = |remark: &'static str| Self::Failed(SYSTEM_ERROR, remark.into());
        match result.status {
            PutStatus::Ok => Self::Stored(0),
            PutStatus::FlushDiskTimeout => Self::Stored(FLUSH_DISK_TIMEOUT),
            PutStatus::SlaveNotAvailable => Self::Stored(SLAVE_NOT_AVAILABLE),
            PutStatus::FlushSlaveTimeout => Self::Stored(FLUSH_SLAVE_TIMEOUT),
            PutStatus::MessageIllegal | PutStatus::PropertiesSizeExceeded => Self::Illegal,
            PutStatus::CreateMappedFileFailed => {
                failed("create mapped file failed, server is busy or broken.")
            }
            PutStatus::OsPageCacheBusy => {
                failed("[PC_SYNCHRONIZED]broker busy, start flow control for a while")
            }
            PutStatus::LmqConsumeQueueNumExceeded => failed(
                "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, \
                 lmq consumeQueue num exceed maxLmqConsumeQueueNum config num, default limit 2w.",
            ),
            PutStatus::UnknownError => failed("UNKNOWN_ERROR"),
            PutStatus::ServiceNotAvailable => Self::not_available(&refusal()),
        }
    }

    /// Of a put that waited until it was durable, or not.
    pub(super) fn after_wait(ack: AckOutcome) -> Self {
        match ack {
            AckOutcome::Durable => Self::Stored(0),
            AckOutcome::FlushTimeout => Self::Stored(FLUSH_DISK_TIMEOUT),
            AckOutcome::Poisoned => Self::not_available("a write to the log failed"),
        }
    }

    fn not_available(why: &str) -> Self {
        let remark = format!(
            "service not available now. It may be caused by one of the following reasons: the \
             broker's disk is full [{why}], messages are put to the slave, message store has \
             been shut down, etc."
        );
        Self::Failed(SERVICE_NOT_AVAILABLE, remark.into())
    }
}

/// Everything a reply needs besides the outcome.
pub(super) struct SendReply<'a> {
    pub to: ReplyTo,
    pub broker: &'a BrokerRow,
    /// The queue it was sent to.
    pub queue_id: i32,
}

impl SendReply<'_> {
    /// Appends the reply frame.
    pub(super) fn encode(&self, outcome: &Outcome, result: &PutResult, out: &mut Vec<u8>) {
        let trace_on = FieldValue::from(self.broker.trace_on);
        let region = FieldValue::Text(&self.broker.region_id);
        let always = [("TRACE_ON", trace_on), ("MSG_REGION", region)];
        match outcome {
            Outcome::Stored(code) => {
                let message_id = message_ids(self.broker.store_host, &result.record_offsets);
                let queue_id = FieldValue::from(self.queue_id);
                let message_id = FieldValue::Text(&message_id);
                let queue_offset = FieldValue::Number(result.queue_offset);
                if (*code, self.to.serialize) == (0, Serialize::Json) {
                    let open = [queue_id, message_id, queue_offset];
                    let reply = self.broker.stored.get_or_init(|| prepared(self.broker));
                    return reply.encode(self.to.opaque, &open, out);
                }
                let fields = [
                    ("queueId", queue_id),
                    always[0],
                    always[1],
                    ("msgId", message_id),
                    ("queueOffset", queue_offset),
                ];
                Head::reply(self.to, *code, None).encode(&fields, &[], out);
            }
            Outcome::Failed(code, remark) => {
                Head::reply(self.to, *code, Some(remark)).encode(&always, &[], out);
            }
            Outcome::Illegal => {
                let remark = format!(
                    "the message is illegal, maybe msg body or properties length not matched. \
                     msg body length limit {}B, msg properties length limit 32KB.",
                    self.broker.max_message_bytes
                );
                Head::reply(self.to, MESSAGE_ILLEGAL, Some(&remark)).encode(&always, &[], out);
            }
        }
    }
}

/// Nearly every reply to a send.
fn prepared(broker: &BrokerRow) -> PreparedReply {
    let trace_on = if broker.trace_on { "true" } else { "false" };
    PreparedReply::new(&[
        ("queueId", None),
        ("TRACE_ON", Some(trace_on)),
        ("MSG_REGION", Some(&broker.region_id)),
        ("msgId", None),
        ("queueOffset", None),
    ])
}

/// The offset ids of the records, joined by commas: address, port and physical offset in hex.
fn message_ids(store_host: SocketAddr, offsets: &[i64]) -> String {
    let mut ids = Vec::with_capacity(57 * offsets.len());
    for (index, offset) in offsets.iter().enumerate() {
        if index > 0 {
            ids.push(b',');
        }
        match store_host.ip() {
            IpAddr::V4(ip) => push_hex(&ip.octets(), &mut ids),
            IpAddr::V6(ip) => push_hex(&ip.octets(), &mut ids),
        }
        push_hex(&u32::from(store_host.port()).to_be_bytes(), &mut ids);
        push_hex(&offset.to_be_bytes(), &mut ids);
    }
    String::from_utf8(ids).unwrap_or_default() // nothing but hex and commas
}

/// Upper-case hex; `format!` would cost more than the rest of the reply.
fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        let digit = |nibble: u8| DIGITS[usize::from(nibble)];
        out.extend_from_slice(&[digit(byte >> 4), digit(byte & 0xF)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::remoting::{Frame, Serialize};

    #[test]
    fn writes_rocketmqs_ids() {
        let host = "127.0.0.1:10911".parse().unwrap();
        assert_eq!(
            message_ids(host, &[0x120DB]),
            "7F00000100002A9F00000000000120DB"
        );
        let two = "7F00000100002A9F0000000000000000,7F00000100002A9F00000000000000BE";
        assert_eq!(message_ids(host, &[0, 190]), two);
        let v6 = message_ids("[::1]:10911".parse().unwrap(), &[1]);
        assert_eq!(
            v6,
            "0000000000000000000000000000000100002A9F0000000000000001"
        );
    }

    #[test]
    fn a_stored_message_has_its_place_and_a_refused_one_has_not() {
        let broker = BrokerRow::usual();
        let to = ReplyTo {
            opaque: 7,
            serialize: Serialize::Json,
        };
        let reply = SendReply {
            to,
            broker: &broker,
            queue_id: 3,
        };
        let mut result = PutResult::refused(PutStatus::Ok);
        (result.record_offsets, result.queue_offset) = (vec![190], 6);
        let mut out = Vec::new();
        reply.encode(&Outcome::of(&result, String::new), &result, &mut out);
        let mut expected = Vec::new();
        let id = "7F00000100002A9F00000000000000BE";
        let fields = [
            ("queueId", 3.into()),
            ("TRACE_ON", true.into()),
            ("MSG_REGION", "DefaultRegion".into()),
            ("msgId", id.into()),
            ("queueOffset", 6.into()),
        ];
        Head::reply(to, 0, None).encode(&fields, &[], &mut expected);
        assert_eq!(out, expected);

        out.clear();
        let result = PutResult::refused(PutStatus::PropertiesSizeExceeded);
        reply.encode(&Outcome::of(&result, String::new), &result, &mut out);
        let frame = Frame::decode(&out).unwrap();
        let remark = "the message is illegal, maybe msg body or properties length not matched. \
                      msg body length limit 4194304B, msg properties length limit 32KB.";
        assert_eq!((frame.code, frame.remark.as_deref()), (13, Some(remark)));
        assert_eq!(frame.ext.get("TRACE_ON"), Some("true"));
        assert_eq!(frame.ext.get("msgId"), None);
    }
}
