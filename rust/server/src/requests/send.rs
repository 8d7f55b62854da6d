//! Sends (10, 310, 320), stored as they are read.
//!
//! Declines requests with missing or invalid fields, and those that the operation declines; Python
//! decides them.

use std::sync::Arc;

use crate::operations::send::{self, Message, Sent};
use crate::requests::acknowledgement;
use crate::requests::context::{Context, Handled};
use crate::requests::send_reply::{self, Outcome, SendReply};
use crate::tables::broker_row::BrokerRow;
use crate::waiting::pending_acks::{PendingReply, PendingRequest};
use mq_format::codes;
use mq_format::remoting::Frame;
use mq_store::Put;

/// Remark while too many sends wait for their flush.
const TOO_MANY_PENDING: &str = "[OVERLOAD]too many sends wait for the disk, send again later";

/// The fields of either header that are used here, read in one pass over the frame.
#[derive(Default)]
struct SendHeader<'a> {
    topic: &'a str,
    queue_id: Option<i32>,
    sys_flag: Option<i32>,
    born_timestamp_ms: Option<i64>,
    flag: Option<i32>,
    properties: &'a str,
    reconsume_times: i32,
    batch: bool,
    /// Letters of the mandatory fields that are not used here.
    named: u8,
    /// Whether a numeric field that is not used here is invalid; Python names it in its error.
    malformed: bool,
}

/// All of "a", "c" and "d" are present.
const ALL_NAMED: u8 = 0b111;

/// 10, 310, 320.
pub(crate) fn send(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Some(message) = decode(context) else {
        return Handled::Declined;
    };
    let core = context.core;
    let may_wait = || !core.waiting.pending_acks.is_full();
    match send::send(&core.state, &message, may_wait) {
        None => return Handled::Declined,
        Some(Sent::TooManyPending) => {
            core.stats.counters.overloaded.one();
            context.reply(codes::SYSTEM_BUSY, Some(TOO_MANY_PENDING), out);
        }
        Some(Sent::Put {
            broker,
            queue_id,
            put,
        }) => encode(context, broker, queue_id, put, out),
    }
    Handled::Native
}

fn decode<'a>(context: &Context<'a>) -> Option<Message<'a>> {
    let header = SendHeader::read(context.frame);
    if header.malformed || header.named != ALL_NAMED {
        return None;
    }
    Some(Message {
        topic: header.topic,
        queue_id: header.queue_id?,
        sys_flag: header.sys_flag?,
        born_timestamp_ms: header.born_timestamp_ms?,
        born_host: context.peer.remote,
        flag: header.flag?,
        properties: header.properties,
        reconsume_times: header.reconsume_times,
        body: context.frame.body,
        is_batch: header.batch,
        is_awaited: !context.frame.is_oneway(),
    })
}

/// Replies now, or when the message is as durable as configured.
fn encode(
    context: &Context<'_>,
    broker: Arc<BrokerRow>,
    queue_id: i32,
    put: Put,
    out: &mut Vec<u8>,
) {
    let (core, to) = (context.core, context.frame.reply_to());
    match put {
        _ if context.frame.is_oneway() => {}
        Put::Done(result) => {
            let outcome = Outcome::of(&result, || send_reply::refusal(&core.state));
            let broker = &broker;
            SendReply {
                to,
                broker,
                queue_id,
            }
            .encode(&outcome, &result, out);
        }
        Put::Parked(result, ticket) => {
            let request = PendingRequest::Send {
                broker,
                queue_id,
                result,
            };
            let peer = Arc::clone(context.peer);
            acknowledgement::park(core, ticket, PendingReply { peer, to, request }, out);
        }
    }
}

impl<'a> SendHeader<'a> {
    fn read(frame: &'a Frame<'_>) -> Self {
        let mut header = Self::default();
        for (name, value) in frame.ext.iter() {
            // V2 uses one-letter field names to save bytes; V1 uses long names.
            let letter = if frame.code == codes::SEND_MESSAGE {
                letter_of(name)
            } else {
                name
            };
            match letter.as_bytes() {
                b"a" => header.named |= 1,
                b"b" => header.topic = value,
                b"c" => header.named |= 2,
                b"d" => {
                    header.named |= 4;
                    header.malformed |= value.parse::<i32>().is_err();
                }
                b"e" => header.queue_id = value.parse().ok(),
                b"f" => header.sys_flag = value.parse().ok(),
                b"g" => header.born_timestamp_ms = value.parse().ok(),
                b"h" => header.flag = value.parse().ok(),
                b"i" => header.properties = value,
                b"j" => match value.parse() {
                    Ok(times) => header.reconsume_times = times,
                    Err(_) => header.malformed = true,
                },
                b"l" => header.malformed |= value.parse::<i32>().is_err(),
                b"m" => header.batch = value.eq_ignore_ascii_case("true"),
                _ => {}
            }
        }
        header
    }
}

/// Returns the V2 letter of a V1 field.
fn letter_of(name: &str) -> &str {
    match name {
        "producerGroup" => "a",
        "topic" => "b",
        "defaultTopic" => "c",
        "defaultTopicQueueNums" => "d",
        "queueId" => "e",
        "sysFlag" => "f",
        "bornTimestamp" => "g",
        "flag" => "h",
        "properties" => "i",
        "reconsumeTimes" => "j",
        "maxReconsumeTimes" => "l",
        "batch" => "m",
        _ => "",
    }
}
