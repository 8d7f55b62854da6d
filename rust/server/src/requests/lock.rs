//! Requests of orderly consumers: lock queues (41), and unlock them (42).

use std::net::IpAddr;

use crate::requests::context::{Context, Handled};
use crate::requests::queue_locks::{Granted, LockReply, LockRequest, QueueName, source_of};
use crate::shared::Shared;
use mq_format::codes::SYSTEM_ERROR;

/// 41: locks free queues. Declines a body that it cannot read, and names that are not allowed.
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
    let source = context.peer.remote.ip();
    let shared = context.shared;
    let granted = shared.lock(&consumer_group, (&client_id, source), mq_set);
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
    /// Locks queues as far as the limits allow, and counts refusals.
    pub fn lock(
        &self,
        group: &str,
        (client_id, address): (&str, IpAddr),
        queues: Vec<QueueName>,
    ) -> Granted {
        let limits = self.tables.broker.with(|row| row.locks).unwrap_or_default();
        let granted = self
            .locks
            .lock(group, (client_id, source_of(address)), queues, limits);
        if granted.full.is_some() {
            self.counters.locks_refused.one();
        }
        granted
    }
}

/// 42: unlocks the client's queues. Declines a body that it cannot read.
pub(crate) fn unlock(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Ok(request) = serde_json::from_slice::<LockRequest>(context.frame.body) else {
        return Handled::Declined;
    };
    let locks = &context.shared.locks;
    locks.unlock(&request.consumer_group, &request.client_id, &request.mq_set);
    context.reply(0, None, out);
    Handled::Native
}
