//! The reply to a send: RocketMQ's code, remark and fields for each outcome
//! (`SendMessageProcessor.handlePutMessageResult`).

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use crate::operations::server_state::ServerState;
use crate::tables::broker_row::BrokerRow;
use mq_format::codes::{
    FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, MESSAGE_ILLEGAL, SERVICE_NOT_AVAILABLE,
    SLAVE_NOT_AVAILABLE, SYSTEM_ERROR,
};
use mq_format::remoting::{FieldValue, Head, ReplyTo};
use mq_store::{AckOutcome, PutResult, PutStatus};

/// Result of a send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Stored, perhaps with a weaker guarantee: a code and the message's position.
    Stored(i32),
    /// Not stored.
    Failed(i32, Cow<'static, str>),
    /// Body or properties are too long.
    Illegal,
}

/// The reason for which the store refuses writes, for the remark.
pub(crate) fn refusal(state: &ServerState) -> String {
    let store = state.store.as_ref();
    store
        .and_then(|store| store.refusal())
        .unwrap_or_else(|| "the store is shut down".to_owned())
}

impl Outcome {
    /// Result of a put that waits for nothing.
    pub(crate) fn of(result: &PutResult, refusal: impl FnOnce() -> String) -> Self {
        Self::of_status(result.status, refusal)
    }

    fn of_status(status: PutStatus, refusal: impl FnOnce() -> String) -> Self {
        let failed = |remark: &'static str| Self::Failed(SYSTEM_ERROR, remark.into());
        match status {
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

    /// Result of a put that waited, with this status before.
    pub(crate) fn after_wait(ack: AckOutcome, so_far: PutStatus) -> Self {
        Self::of_status(ack.status(so_far), || {
            "a write to the log failed".to_owned()
        })
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

/// Everything that a reply needs except the outcome.
pub(crate) struct SendReply<'a> {
    pub to: ReplyTo,
    pub broker: &'a BrokerRow,
    /// The queue of the message.
    pub queue_id: i32,
}

impl SendReply<'_> {
    /// Appends the reply frame.
    pub(crate) fn encode(&self, outcome: &Outcome, result: &PutResult, out: &mut Vec<u8>) {
        let trace_on = FieldValue::from(self.broker.trace_on);
        let region = FieldValue::Text(&self.broker.region_id);
        let always = [("TRACE_ON", trace_on), ("MSG_REGION", region)];
        match outcome {
            Outcome::Stored(code) => {
                let mut room = [0; ID_BYTES_MAX];
                let several;
                let message_id = match &*result.record_offsets {
                    [offset] => message_id(self.broker.store_host, *offset, &mut room),
                    offsets => {
                        several = message_ids(self.broker.store_host, offsets);
                        several.as_str()
                    }
                };
                let queue_id = FieldValue::from(self.queue_id);
                let message_id = FieldValue::Text(message_id);
                let queue_offset = FieldValue::Number(result.queue_offset);
                if *code == 0 {
                    let open = [queue_id, message_id, queue_offset];
                    return self.broker.encode_stored(self.to, open, out);
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

/// Bytes of an id with an IPv6 address.
const ID_BYTES_MAX: usize = 56;

/// The offset ids of the records, joined by commas.
fn message_ids(store_host: SocketAddr, offsets: &[i64]) -> String {
    let mut ids = String::with_capacity((ID_BYTES_MAX + 1) * offsets.len());
    for (index, offset) in offsets.iter().enumerate() {
        if index > 0 {
            ids.push(',');
        }
        ids.push_str(message_id(store_host, *offset, &mut [0; ID_BYTES_MAX]));
    }
    ids
}

/// The offset id of a record: address, port and physical offset in upper-case hex.
fn message_id(store_host: SocketAddr, offset: i64, room: &mut [u8; ID_BYTES_MAX]) -> &str {
    let port = u64::from(store_host.port());
    let offset = hex(offset.cast_unsigned());
    let id = match store_host.ip() {
        IpAddr::V4(ip) => {
            room[..16].copy_from_slice(&hex(u64::from(ip.to_bits()) << 32 | port));
            &mut room[..32]
        }
        IpAddr::V6(ip) => {
            let [high, low] = [ip.to_bits() >> 64, ip.to_bits()].map(|bits| hex(bits as u64));
            room[..16].copy_from_slice(&high);
            room[16..32].copy_from_slice(&low);
            room[32..40].copy_from_slice(&hex(port)[8..]);
            &mut room[..]
        }
    };
    let offset_at = id.len() - offset.len();
    id[offset_at..].copy_from_slice(&offset);
    std::str::from_utf8(id).unwrap_or_default() // only hex digits
}

/// Sixteen upper-case hex digits.
fn hex(number: u64) -> [u8; 16] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    std::array::from_fn(|at| DIGITS[(number >> (60 - 4 * at)) as usize & 15])
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_format::remoting::{Frame, Serialize};
    use smallvec::smallvec;

    #[test]
    fn writes_rocketmqs_ids() {
        let host = "127.0.0.1:10911".parse().unwrap();
        assert_eq!(
            message_ids(host, &[0x120DB]),
            "7F00000100002A9F00000000000120DB"
        );
        assert_eq!(hex(0x0123_4567_89AB_CDEF), *b"0123456789ABCDEF");
        assert_eq!(hex(u64::MAX), [b'F'; 16]);
        let two = "7F00000100002A9F0000000000000000,7F00000100002A9F00000000000000BE";
        assert_eq!(message_ids(host, &[0, 190]), two);
        let v6 = message_ids("[::1]:10911".parse().unwrap(), &[1]);
        assert_eq!(
            v6,
            "0000000000000000000000000000000100002A9F0000000000000001"
        );
    }

    #[test]
    fn only_a_stored_message_has_a_position() {
        for serialize in [Serialize::Json, Serialize::RocketMq] {
            stored_and_refused(ReplyTo {
                opaque: 7,
                serialize,
            });
        }
    }

    fn stored_and_refused(to: ReplyTo) {
        let broker = BrokerRow::default();
        let reply = SendReply {
            to,
            broker: &broker,
            queue_id: 3,
        };
        let mut result = PutResult::refused(PutStatus::Ok);
        (result.record_offsets, result.queue_offset) = (smallvec![190], 6);
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
