//! Sends (10, 310, 320), stored as they are read.
//!
//! Native code stores ordinary messages and batches for existing topics. It declines requests that
//! need more than the tables, and Python decides them: unknown, retry, dead-letter, order and
//! forbidden topics, refused half messages, missing or invalid fields, and every send while a slow
//! disk creates the next log file.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::requests::context::{Context, Handled};
use crate::requests::pending_reply::{PendingReply, PendingRequest};
use crate::requests::send_properties::{self, Traits};
use crate::requests::send_reply::{self, Outcome, SendReply};
use crate::requests::transaction::{self, HALF_TOPIC};
use crate::shared::Shared;
use crate::tables::TopicRow;
use crate::tables::broker_row::BrokerRow;
use crate::traffic::{ANY_QUEUE, Sums};
use mq_format::codes;
use mq_format::message::SCHEDULE_TOPIC;
use mq_format::remoting::Frame;
use mq_store::{Put, PutRequest, PutStatus, Store};

/// Bit of a message's system flag: its topic filters by several tags.
const MULTI_TAGS: i32 = 2;

/// Remark while too many sends wait for their flush.
const TOO_MANY_PENDING: &str = "[OVERLOAD]too many sends wait for the disk, send again later";

thread_local! {
    /// The stored form of the properties of one message at a time.
    static PROPERTIES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Chooses queues for messages whose producer leaves the queue to the broker.
static NEXT_QUEUE: AtomicU32 = AtomicU32::new(0);

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
    let header = SendHeader::read(context.frame);
    let tables = &context.shared.tables;
    let topic = tables.topics.get(header.topic);
    match (tables.broker(), topic.filter(|topic| topic.plain)) {
        (Some(broker), Some(topic)) => store(context, &header, (&broker, topic), out),
        _ => Handled::Declined,
    }
}

fn store(
    context: &Context<'_>,
    header: &SendHeader<'_>,
    (broker, topic): (&Arc<BrokerRow>, TopicRow),
    out: &mut Vec<u8>,
) -> Handled {
    let shared = context.shared;
    let Some(store) = &shared.store else {
        return Handled::Declined;
    };
    if !broker.accepting || !started(context, broker) {
        return Handled::Declined;
    }
    PROPERTIES.with_borrow_mut(|properties| {
        let (text, cluster) = (header.properties, &broker.cluster_name);
        let traits = send_properties::store_form(text, header.batch, cluster, properties);
        let Some(traits) = traits.filter(|traits| !(traits.is_half && broker.reject_transaction))
        else {
            return Handled::Declined;
        };
        let Some(request) = header.put_request(context, broker, topic, &traits) else {
            return Handled::Declined;
        };
        if request.wait_store_ok && shared.pending_acks.is_full() {
            shared.counters.overloaded.one();
            context.reply(codes::SYSTEM_BUSY, Some(TOO_MANY_PENDING), out);
            return Handled::Native;
        }
        let put = match (header.batch, traits.is_half) {
            (true, _) => store.try_put_batch(&PutRequest {
                properties,
                ..request
            }),
            (false, true) => store.try_put(&transaction::half(&request, properties)),
            (false, false) => store.try_put(&PutRequest {
                properties,
                ..request
            }),
        };
        // The disk is slow to make room: Python's threads may wait for it.
        let Some(put) = put else {
            return Handled::Declined;
        };
        let is_half = traits.is_half && !header.batch;
        let stored_in = if is_half { HALF_TOPIC } else { header.topic };
        count(shared, store, &put, stored_in, request.delay_level);
        answer(context, store, broker, put, request.queue_id, out);
        Handled::Native
    })
}

/// Counts a stored message, even if its flush is pending.
fn count(shared: &Shared, store: &Store, put: &Put, topic: &str, delay_level: i32) {
    let (Put::Done(result) | Put::Parked(result, _)) = put;
    if result.status != PutStatus::Ok {
        return;
    }
    let bytes = usize::try_from(result.size_bytes).unwrap_or(0);
    let sums = Sums::one(result.record_offsets.len(), bytes, 0);
    match delay_level {
        ..=0 => shared.traffic.put(topic, ANY_QUEUE, sums),
        level => shared
            .traffic
            .put(SCHEDULE_TOPIC, store.delay_queue(level), sums),
    }
}

fn started(context: &Context<'_>, broker: &BrokerRow) -> bool {
    broker.start_accept_ms <= 0 || context.shared.clock.wall_ms() >= broker.start_accept_ms
}

/// Replies now, or when the message is as durable as configured.
fn answer(
    context: &Context<'_>,
    store: &Arc<Store>,
    broker: &Arc<BrokerRow>,
    put: Put,
    queue_id: i32,
    out: &mut Vec<u8>,
) {
    if context.frame.is_oneway() {
        return;
    }
    let to = context.frame.reply_to();
    match put {
        Put::Done(result) => {
            let outcome = Outcome::of(&result, || send_reply::refusal(store));
            SendReply {
                to,
                broker,
                queue_id,
            }
            .encode(&outcome, &result, out);
        }
        Put::Parked(result, ticket) => {
            let request = PendingRequest::Send {
                broker: Arc::clone(broker),
                queue_id,
                result,
            };
            let peer = Arc::clone(context.peer);
            let reply = PendingReply { peer, to, request };
            reply.park(&context.shared.pending_acks, store, ticket, out);
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

    /// Returns the request without its properties; None if Python has to decide.
    fn put_request<'r>(
        &'r self,
        context: &'r Context<'_>,
        broker: &BrokerRow,
        topic: TopicRow,
        traits: &Traits,
    ) -> Option<PutRequest<'r>> {
        if self.malformed || self.named != ALL_NAMED {
            return None;
        }
        let asked = self.queue_id?;
        let queue_id = match asked {
            ..0 if topic.write_queues > 0 => {
                let next = NEXT_QUEUE.fetch_add(1, Ordering::Relaxed) >> 1;
                i32::try_from(next).unwrap_or(0) % topic.write_queues
            }
            _ if (0..topic.read_queues.max(topic.write_queues)).contains(&asked) => asked,
            _ => return None,
        };
        // A batch has no delay; Python refuses it with RocketMQ's text.
        if self.batch && traits.delay_level > 0 {
            return None;
        }
        let multi_tags = if topic.multi_tag { MULTI_TAGS } else { 0 };
        Some(PutRequest {
            topic: self.topic,
            queue_id,
            flag: self.flag?,
            sys_flag: self.sys_flag? | multi_tags,
            born_timestamp_ms: self.born_timestamp_ms?,
            born_host: context.peer.remote,
            store_host: broker.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
            body: context.frame.body,
            properties: &[],
            // A one-way message has no reply that could wait.
            wait_store_ok: traits.wait_store_ok && !context.frame.is_oneway(),
            delay_level: traits.delay_level,
            was_accepted: false,
        })
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

#[cfg(test)]
pub(crate) mod slow_disk_tests;
