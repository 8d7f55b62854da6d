//! Sends: stores an ordinary message or a batch of an existing topic.
//!
//! Declines what needs more than the tables: unknown, retry, dead-letter, order and forbidden
//! topics, refused half messages, and every send while a slow disk creates the next log file.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::operations::send_properties::{self, Traits};
use crate::operations::server_state::ServerState;
use crate::operations::transactions::{self, HALF_TOPIC};
use crate::stats::traffic::{ANY_QUEUE, Sums};
use crate::tables::TopicRow;
use crate::tables::broker_row::BrokerRow;
use mq_format::message::SCHEDULE_TOPIC;
use mq_store::{Put, PutRequest, Store};

/// Bit of a message's system flag: its topic filters by several tags.
const MULTI_TAGS: i32 = 2;

thread_local! {
    /// The stored form of the properties of one message at a time.
    static PROPERTIES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Chooses queues for messages whose producer leaves the queue to the broker.
static NEXT_QUEUE: AtomicU32 = AtomicU32::new(0);

/// A message, or a batch of messages, from a producer.
pub(crate) struct Message<'a> {
    pub topic: &'a str,
    /// Negative if the broker chooses the queue.
    pub queue_id: i32,
    pub sys_flag: i32,
    pub born_timestamp_ms: i64,
    pub born_host: SocketAddr,
    pub flag: i32,
    /// `name 0x01 value 0x02 ...`
    pub properties: &'a str,
    pub reconsume_times: i32,
    pub body: &'a [u8],
    pub is_batch: bool,
    /// Whether the producer waits for a reply; only then may the message wait for its flush.
    pub is_awaited: bool,
}

/// Result of a send.
pub(crate) enum Sent {
    /// The store took or refused the message.
    Put {
        broker: Arc<BrokerRow>,
        /// The queue of the message.
        queue_id: i32,
        put: Put,
    },
    /// Too many sends wait for their flush already.
    TooManyPending,
}

/// Stores a message. `may_wait`: whether another reply may wait for a flush. None if it is
/// declined.
pub(crate) fn send(
    state: &ServerState,
    message: &Message<'_>,
    may_wait: impl FnOnce() -> bool,
) -> Option<Sent> {
    let (tables, store) = (&state.tables, state.store.as_ref()?);
    let topic = tables.topics.get(message.topic)?;
    let broker = tables.broker()?;
    if !topic.plain || !broker.accepting || !has_started(state, &broker) {
        return None;
    }
    PROPERTIES.with_borrow_mut(|properties| {
        let (text, cluster) = (message.properties, &broker.cluster_name);
        let traits = send_properties::store_form(text, message.is_batch, cluster, properties)?;
        if traits.is_half && broker.reject_transaction {
            return None;
        }
        let request = message.put_request(&broker, topic, &traits)?;
        if request.wait_store_ok && !may_wait() {
            return Some(Sent::TooManyPending);
        }
        let put = match (message.is_batch, traits.is_half) {
            (true, _) => store.try_put_batch(&PutRequest {
                properties,
                ..request
            }),
            (false, true) => store.try_put(&transactions::half(&request, properties)),
            (false, false) => store.try_put(&PutRequest {
                properties,
                ..request
            }),
        };
        // None while the disk is slow to make room: Python's threads may wait for it.
        let put = put?;
        let is_half = traits.is_half && !message.is_batch;
        let stored_in = if is_half { HALF_TOPIC } else { message.topic };
        count(state, store, &put, stored_in, request.delay_level);
        let queue_id = request.queue_id;
        Some(Sent::Put {
            broker,
            queue_id,
            put,
        })
    })
}

/// Counts a stored message, even if its flush is pending.
fn count(state: &ServerState, store: &Store, put: &Put, topic: &str, delay_level: i32) {
    let (Put::Done(result) | Put::Parked(result, _)) = put;
    if !result.status.is_stored() {
        return;
    }
    let bytes = usize::try_from(result.size_bytes).unwrap_or(0);
    let sums = Sums::one(result.record_offsets.len(), bytes, 0);
    let traffic = &state.stats.traffic;
    match delay_level {
        ..=0 => traffic.put(topic, ANY_QUEUE, sums),
        level => traffic.put(SCHEDULE_TOPIC, store.delay_queue(level), sums),
    }
}

fn has_started(state: &ServerState, broker: &BrokerRow) -> bool {
    broker.start_accept_ms <= 0 || state.clock.wall_ms() >= broker.start_accept_ms
}

impl<'a> Message<'a> {
    /// Returns the request without its properties; None if it is declined.
    fn put_request(
        &self,
        broker: &BrokerRow,
        topic: TopicRow,
        traits: &Traits,
    ) -> Option<PutRequest<'a>> {
        let queue_id = match self.queue_id {
            ..0 if topic.write_queues > 0 => {
                let next = NEXT_QUEUE.fetch_add(1, Ordering::Relaxed) >> 1;
                i32::try_from(next).unwrap_or(0) % topic.write_queues
            }
            asked if (0..topic.read_queues.max(topic.write_queues)).contains(&asked) => asked,
            _ => return None,
        };
        // A batch has no delay; Python refuses it with RocketMQ's text.
        if self.is_batch && traits.delay_level > 0 {
            return None;
        }
        let multi_tags = if topic.multi_tag { MULTI_TAGS } else { 0 };
        Some(PutRequest {
            topic: self.topic,
            queue_id,
            flag: self.flag,
            sys_flag: self.sys_flag | multi_tags,
            born_timestamp_ms: self.born_timestamp_ms,
            born_host: self.born_host,
            store_host: broker.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
            body: self.body,
            properties: &[],
            wait_store_ok: traits.wait_store_ok && self.is_awaited,
            delay_level: traits.delay_level,
            was_accepted: false,
        })
    }
}
