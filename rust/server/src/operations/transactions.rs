//! Half messages and their ends: the messages of a transaction (`EndTransactionProcessor`).
//!
//! A half message is stored in a topic of the broker's own; its properties name the real topic. A
//! commit stores it there. A commit or rollback also stores an op message, whose body is the half
//! message's queue offset as text; it marks the half message as done. A transaction that has ended
//! is not ended again.

use crate::operations::server_state::ServerState;
use crate::tables::broker_row::BrokerRow;
use mq_format::message::{CheckCrc, RecordView, sys_flag};
use mq_format::properties;
use mq_store::{Ending, Put, PutRequest, ReadMode, Store, number_of};

/// Topic of the half messages.
pub(crate) const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
const OP_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// The topics of half messages and op messages have one queue.
const QUEUE_ID: i32 = 0;
/// Properties of an op message: the tag for "done".
const OP_PROPERTIES: &[u8] = b"TAGS\x01d\x02WAIT\x01true";

/// Returns the request that stores a message as a half message. `text` is its properties, to which
/// the names of the real topic and queue are added.
pub(super) fn half<'r>(request: &PutRequest<'r>, text: &'r mut Vec<u8>) -> PutRequest<'r> {
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

/// The end of a transaction, as its producer decided.
pub(crate) struct End<'a> {
    pub group: &'a str,
    /// Queue offset and physical offset of the half message.
    pub queue_offset: i64,
    pub physical_offset: i64,
    pub commits: bool,
    /// Whether the producer waits for a reply; only then does the op message wait for its flush.
    pub is_awaited: bool,
}

/// A transaction that has ended.
pub(crate) struct Ended {
    /// What became of the op message; None if it was stored before or could not be stored. Without
    /// it, the half message is checked once more.
    pub op_message: Option<Put>,
}

/// Ends a transaction. None if the request names no half message, contradicts an earlier end, or if
/// the committed message cannot be stored now.
pub(crate) fn end(state: &ServerState, end: &End<'_>) -> Option<Ended> {
    let (store, broker) = (state.store.as_ref()?, state.tables.broker()?);
    let bytes = store.get_at(end.physical_offset, ReadMode::NoWait);
    let bytes = bytes.ok().flatten()?;
    let half = end.half(&bytes)?;
    let (transactions, number) = (store.transactions(), number_of(&half));
    match transactions.end(number, end.commits, false) {
        Ending::First => {}
        Ending::Repeated => return Some(Ended { op_message: None }),
        Ending::Contrary | Ending::Unknown => return None,
    }
    if end.commits && !put_final(store, &half) {
        transactions.reopen(number);
        return None;
    }
    let queue_offset = half.queue_offset.to_string();
    let done = done(state, &broker, queue_offset.as_bytes(), end.is_awaited);
    Some(Ended {
        op_message: store.try_put(&done),
    })
}

impl End<'_> {
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
        // Perhaps not yet as durable as configured; the reply does not wait for that.
        result.status.is_stored()
    })
}

/// The op message that ends a half message.
fn done<'a>(
    state: &ServerState,
    broker: &BrokerRow,
    queue_offset: &'a [u8],
    is_awaited: bool,
) -> PutRequest<'a> {
    PutRequest {
        topic: OP_TOPIC,
        queue_id: QUEUE_ID,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: state.clock.wall_ms(),
        born_host: broker.store_host,
        store_host: broker.store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: queue_offset,
        properties: OP_PROPERTIES,
        wait_store_ok: is_awaited,
        delay_level: 0,
        was_accepted: false,
    }
}
