//! Consumer and queue offsets (14, 15, 30, 31), answered by the store.
//!
//! Requests whose fields are missing or not numbers are declined; Python replies with an error
//! text.

use crate::operations::offsets::{self, Position};
use crate::requests::context::{Context, Handled};
use mq_format::codes::QUERY_NOT_FOUND;
use mq_format::remoting::FieldValue;
use mq_store::Store;

const NO_OFFSET: &str = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";

/// 14: the committed offset, or code 22. A RocketMQ 5 client may ask for 22 instead of 0.
pub(crate) fn query(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Some((store, at)) = position(context) else {
        return Handled::Declined;
    };
    let zero_if_new = context.frame.ext.get("setZeroIfNotFound") != Some("false");
    match offsets::committed(store, at, zero_if_new) {
        Some(offset) => reply_offset(context, offset, out),
        None => context.reply(QUERY_NOT_FOUND, Some(NO_OFFSET), out),
    }
    Handled::Native
}

/// 15: commits an offset. Declines a new offset whose group, topic or queue is not in the tables.
pub(crate) fn commit(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let asked = position(context).zip(context.number("commitOffset"));
    match asked {
        Some(((store, at), offset)) if offsets::commit(&context.core.state, store, at, offset) => {
            context.reply_empty_map(&[], out);
            Handled::Native
        }
        _ => Handled::Declined,
    }
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

fn position<'c>(context: &'c Context<'_>) -> Option<(&'c Store, Position<'c>)> {
    let (store, topic, queue_id) = queue(context)?;
    let group = context.frame.ext.get("consumerGroup")?;
    let position = Position {
        group,
        topic,
        queue_id,
    };
    Some((store, position))
}

fn queue<'c>(context: &'c Context<'_>) -> Option<(&'c Store, &'c str, i32)> {
    Some((
        context.core.state.store.as_deref()?,
        context.frame.ext.get("topic")?,
        context.number("queueId")?,
    ))
}

fn reply_offset(context: &Context<'_>, offset: i64, out: &mut Vec<u8>) {
    if !context.frame.is_oneway() {
        let fields = [("offset", FieldValue::Number(offset))];
        context.frame.reply(0, None).encode(&fields, &[], out);
    }
}
