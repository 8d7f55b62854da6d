//! Consumer and queue offsets (14, 15, 30, 31), answered by the store.
//!
//! Requests whose fields are missing or not numbers are declined; Python replies with an error
//! text.

use std::str::FromStr;

use crate::requests::context::{Context, Handled};
use mq_format::codes::QUERY_NOT_FOUND;
use mq_format::remoting::FieldValue;
use mq_store::Store;

const NO_OFFSET: &str = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";

/// 14: the committed offset. 0 for a group that is new to a queue whose first message is still in
/// memory. Otherwise code 22; the client then decides itself. A RocketMQ 5 client may ask for 22
/// instead of 0.
pub(crate) fn query(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let found = (|| {
        let (store, topic, queue_id) = queue(context)?;
        let group = context.frame.ext.get("consumerGroup")?;
        let committed = store
            .committed(group, topic, queue_id)
            .filter(|offset| *offset >= 0);
        let asks_zero = context
            .frame
            .ext
            .get("setZeroIfNotFound")
            .is_none_or(|text| text != "false");
        let zero = || (asks_zero && starts_at_zero(store, topic, queue_id)).then_some(0);
        Some(committed.or_else(zero))
    })();
    match found {
        None => return Handled::Declined,
        Some(Some(offset)) => reply_offset(context, offset, out),
        Some(None) => context.reply(QUERY_NOT_FOUND, Some(NO_OFFSET), out),
    }
    Handled::Native
}

fn starts_at_zero(store: &Store, topic: &str, queue_id: i32) -> bool {
    store.min_offset(topic, queue_id) <= 0 && !store.is_on_disk(topic, queue_id, 0)
}

/// 15: commits an offset. Declines a new offset whose group, topic or queue is not in the tables.
pub(crate) fn commit(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let done = (|| {
        let (store, topic, queue_id) = queue(context)?;
        let group = context.frame.ext.get("consumerGroup")?;
        let offset = number(context, "commitOffset")?;
        let within = |entries_max| store.commit(group, topic, queue_id, offset, entries_max);
        let tables = &context.shared.tables;
        let may_be_new = || {
            let queues = tables
                .topics
                .with(topic, |row| row.read_queues.max(row.write_queues))?;
            tables.groups.with(group, |_| ())?;
            (0..queues).contains(&queue_id).then_some(())?;
            tables.broker.with(|row| row.offsets_max)
        };
        (within(0) || may_be_new().is_some_and(within)).then_some(())
    })();
    if done.is_none() {
        return Handled::Declined;
    }
    context.reply_empty_map(&[], out);
    Handled::Native
}

/// 30: one past the last offset of a queue.
pub(crate) fn max(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Some((store, topic, queue_id)) = queue(context) else {
        return Handled::Declined;
    };
    reply_offset(context, store.max_offset(topic, queue_id), out);
    Handled::Native
}

/// 31: the first readable offset of a queue.
pub(crate) fn min(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Some((store, topic, queue_id)) = queue(context) else {
        return Handled::Declined;
    };
    reply_offset(context, store.min_offset(topic, queue_id), out);
    Handled::Native
}

fn queue<'c>(context: &'c Context<'_>) -> Option<(&'c Store, &'c str, i32)> {
    let store = context.shared.store.as_deref()?;
    Some((
        store,
        context.frame.ext.get("topic")?,
        number(context, "queueId")?,
    ))
}

fn number<N: FromStr>(context: &Context<'_>, name: &str) -> Option<N> {
    context.frame.ext.get(name)?.parse().ok()
}

fn reply_offset(context: &Context<'_>, offset: i64, out: &mut Vec<u8>) {
    if !context.frame.is_oneway() {
        let fields = [("offset", FieldValue::Number(offset))];
        context.frame.reply(0, None).encode(&fields, &[], out);
    }
}
