//! Half messages and their ends (37): the messages of a transaction (`EndTransactionProcessor`).
//!
//! A half message is stored in a topic of the broker's own; its properties name the real topic. A
//! commit stores it there. A commit or rollback also stores an op message, whose body is the half
//! message's queue offset as text; it marks the half message as done. A transaction that has ended
//! is not ended again.
//!
//! Requests that name no half message are declined. Python replies with an error text, and asks
//! producers about half messages without an end.

use std::str::FromStr;
use std::sync::Arc;

use crate::requests::context::{Context, Handled};
use crate::requests::pending_reply::{PendingReply, PendingRequest};
use crate::tables::broker_row::BrokerRow;
use mq_format::message::{CheckCrc, RecordView, sys_flag};
use mq_format::properties;
use mq_store::{Ending, Put, PutRequest, PutStatus, ReadMode, Store, number_of};

/// Topic of the half messages.
pub(crate) const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
const OP_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// The topics of half messages and op messages have one queue.
const QUEUE_ID: i32 = 0;
/// Properties of an op message: the tag for "done".
const OP_PROPERTIES: &[u8] = b"TAGS\x01d\x02WAIT\x01true";
const UNDECIDED: i32 = 0;
/// Remark of RocketMQ's replies that set no other.
const UNSET_REMARK: &str = "not set any response code";

/// Returns the request that stores a message as a half message. `text` is its properties, to which
/// the names of the real topic and queue are added.
pub(crate) fn half<'r>(request: &PutRequest<'r>, text: &'r mut Vec<u8>) -> PutRequest<'r> {
    properties::append(text, properties::REAL_TOPIC, request.topic.as_bytes());
    let queue_id = request.queue_id.to_string();
    properties::append(text, properties::REAL_QUEUE_ID, queue_id.as_bytes());
    // RocketMQ writes no separator after the last pair.
    text.pop();
    PutRequest {
        topic: HALF_TOPIC,
        queue_id: QUEUE_ID,
        sys_flag: request.sys_flag & !sys_flag::TRANSACTION_MASK,
        properties: text,
        ..*request
    }
}

/// Fields of a request to end a transaction.
struct End<'a> {
    group: &'a str,
    queue_offset: i64,
    physical_offset: i64,
}

/// 37.
pub(crate) fn end(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let shared = context.shared;
    let (Some(store), Some(broker)) = (shared.store.as_ref(), shared.tables.broker()) else {
        return Handled::Declined;
    };
    let Some(decision) = number::<i32>(context, "commitOrRollback") else {
        return Handled::Declined;
    };
    let commits = match decision {
        // RocketMQ sends no reply.
        UNDECIDED => return Handled::Native,
        sys_flag::COMMIT => true,
        sys_flag::ROLLBACK => false,
        _ => return Handled::Declined,
    };
    let Some((end, bytes)) = End::read(context).and_then(|end| {
        let found = store.get_at(end.physical_offset, ReadMode::NoWait);
        Some((end, found.ok().flatten()?))
    }) else {
        return Handled::Declined;
    };
    let Some(half) = end.half(&bytes) else {
        return Handled::Declined;
    };
    // RocketMQ overwrites its preset remark only for a commit.
    let remark = (!commits).then_some(UNSET_REMARK);
    let (transactions, number) = (store.transactions(), number_of(&half));
    match transactions.end(number, commits, false) {
        Ending::First => {}
        Ending::Repeated => {
            answer(context, store, None, remark, out);
            return Handled::Native;
        }
        Ending::Contrary | Ending::Unknown => return Handled::Declined,
    }
    if commits && !put_final(store, &half) {
        transactions.reopen(number);
        return Handled::Declined;
    }
    let queue_offset = half.queue_offset.to_string();
    let done = store.try_put(&done(context, &broker, queue_offset.as_bytes()));
    answer(context, store, done, remark, out);
    Handled::Native
}

impl<'a> End<'a> {
    fn read(context: &'a Context<'_>) -> Option<Self> {
        Some(Self {
            group: context.frame.ext.get("producerGroup")?,
            queue_offset: number(context, "tranStateTableOffset")?,
            physical_offset: number(context, "commitLogOffset")?,
        })
    }

    /// Returns the half message, if the record is one and the request names it.
    fn half<'r>(&self, bytes: &'r [u8]) -> Option<RecordView<'r>> {
        let half = RecordView::parse(bytes, CheckCrc::No).ok()?;
        let group = properties::get_str(half.properties, "PGROUP")?;
        let is_meant = half.topic == HALF_TOPIC
            && group == self.group
            && half.queue_offset == self.queue_offset
            && half.physical_offset == self.physical_offset;
        is_meant.then_some(half)
    }
}

/// Stores a committed message in its real topic, without waiting for the flush. The names of the
/// real topic and queue stay in its properties, as in RocketMQ.
///
/// False if it could not be stored: Python tries again and words the refusal.
fn put_final(store: &Store, half: &RecordView<'_>) -> bool {
    let topic = properties::get_str(half.properties, properties::REAL_TOPIC);
    let queue_id = properties::get_str(half.properties, properties::REAL_QUEUE_ID);
    let delay = properties::get_str(half.properties, properties::DELAY);
    let (Some(topic), Some(Ok(queue_id))) = (topic, queue_id.map(|text| text.parse())) else {
        return false;
    };
    let put = store.try_put(&PutRequest {
        topic: &topic,
        queue_id,
        flag: half.flag,
        sys_flag: half.sys_flag & !sys_flag::TRANSACTION_MASK | sys_flag::COMMIT,
        born_timestamp_ms: half.born_timestamp_ms,
        born_host: half.born_host,
        store_host: half.store_host,
        reconsume_times: match half.prepared_transaction_offset {
            // The counter of a copy holds the number of its checks.
            ..0 => 0,
            _ => half.reconsume_times,
        },
        prepared_transaction_offset: half.physical_offset,
        body: half.body,
        properties: half.properties,
        wait_store_ok: false,
        delay_level: delay.and_then(|level| level.parse().ok()).unwrap_or(0),
        was_accepted: true,
    });
    put.is_some_and(|(Put::Done(result) | Put::Parked(result, _))| {
        // Stored, but not yet as durable as configured; the reply does not wait for that.
        matches!(result.status, PutStatus::Ok | PutStatus::FlushDiskTimeout)
    })
}

/// The op message that ends a half message; a one-way request does not wait for its flush.
fn done<'a>(context: &Context<'_>, broker: &BrokerRow, queue_offset: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        topic: OP_TOPIC,
        queue_id: QUEUE_ID,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: context.shared.clock.wall_ms(),
        born_host: broker.store_host,
        store_host: broker.store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: queue_offset,
        properties: OP_PROPERTIES,
        wait_store_ok: !context.frame.is_oneway(),
        delay_level: 0,
        was_accepted: false,
    }
}

/// Replies 0 whether or not the op message was stored: without it, the half message is checked once
/// more.
fn answer(
    context: &Context<'_>,
    store: &Arc<Store>,
    put: Option<Put>,
    remark: Option<&'static str>,
    out: &mut Vec<u8>,
) {
    if context.frame.is_oneway() {
        return;
    }
    match put {
        None | Some(Put::Done(_)) => context.reply(0, remark, out),
        Some(Put::Parked(_, ticket)) => {
            let reply = PendingReply {
                peer: Arc::clone(context.peer),
                to: context.frame.reply_to(),
                request: PendingRequest::EndTransaction { remark },
            };
            reply.park(&context.shared.pending_acks, store, ticket, out);
        }
    }
}

fn number<N: FromStr>(context: &Context<'_>, name: &str) -> Option<N> {
    context.frame.ext.get(name)?.parse().ok()
}
