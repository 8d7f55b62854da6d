//! Requests answered from memory: published bodies (38, 105) and queue locks (41, 42).

use crate::requests::context::{Context, Handled};
use crate::requests::queue_locks::{Granted, LockReply, LockRequest, QueueName};
use crate::shared::Shared;
use mq_format::codes::SYSTEM_ERROR;

/// Route requests from this version on, RocketMQ 4.9.4, get standard JSON.
const STANDARD_JSON_VERSION: i32 = 401;

/// 38: the clients of a group. Declines when no list is published (unknown or empty group).
pub(crate) fn consumer_list(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Some(group) = context.frame.ext.get("consumerGroup") else {
        return Handled::Declined;
    };
    let Some(body) = context.shared.answers.get(&format!("38|{group}")) else {
        return Handled::Declined;
    };
    context.reply_empty_map(&body, out);
    Handled::Native
}

/// 105: a topic's route. Declines when none is published.
pub(crate) fn topic_route(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let frame = context.frame;
    let Some(topic) = frame.ext.get("topic") else {
        return Handled::Declined;
    };
    let asked = frame
        .ext
        .get("acceptStandardJsonOnly")
        .is_some_and(|text| text == "true");
    let standard = asked || frame.version >= STANDARD_JSON_VERSION;
    let style = if standard { "std" } else { "legacy" };
    let Some(body) = context.shared.answers.get(&format!("105|{style}|{topic}")) else {
        return Handled::Declined;
    };
    context.reply_body(&body, out);
    Handled::Native
}

/// 41: grants what is free. Declines a body it cannot read, and names that may not be kept.
pub(crate) fn lock(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Ok(request) = serde_json::from_slice::<LockRequest>(context.frame.body) else {
        return Handled::Declined;
    };
    if !request.has_names() {
        return Handled::Declined;
    }
    let LockRequest {
        consumer_group,
        client_id,
        mq_set,
    } = request;
    let granted = context.shared.lock(&consumer_group, &client_id, mq_set);
    let remark = granted.remark();
    let Granted { queues, .. } = granted;
    let code = if queues.is_empty() && remark.is_some() {
        SYSTEM_ERROR
    } else {
        0
    };
    let Ok(body) = serde_json::to_vec(&LockReply { granted: queues }) else {
        return Handled::Declined;
    };
    if !context.frame.is_oneway() {
        let body = if code == 0 { &body[..] } else { &[] };
        let reply = context.frame.reply(code, remark.as_deref());
        reply.encode(&[], body, out);
    }
    Handled::Native
}

impl Shared {
    /// Locks queues as far as the settings allow, and counts what they do not.
    pub fn lock(&self, group: &str, client_id: &str, queues: Vec<QueueName>) -> Granted {
        let limits = self.tables.broker.with(|row| row.locks).unwrap_or_default();
        let granted = self.locks.lock(group, client_id, queues, limits);
        if granted.full.is_some() {
            self.counters.locks_refused.one();
        }
        granted
    }
}

/// 42: frees what is the client's. Declines a body it cannot read.
pub(crate) fn unlock(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Ok(request) = serde_json::from_slice::<LockRequest>(context.frame.body) else {
        return Handled::Declined;
    };
    let LockRequest {
        consumer_group,
        client_id,
        mq_set,
    } = request;
    context
        .shared
        .locks
        .unlock(&consumer_group, &client_id, &mq_set);
    context.reply(0, None, out);
    Handled::Native
}
