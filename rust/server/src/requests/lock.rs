//! Requests of orderly consumers: lock queues (41), and unlock them (42).

use crate::requests::context::{Context, Handled};
use crate::state::queue_locks::{Granted, LockReply, LockRequest};
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
    let client = (&*client_id, source);
    let granted = context.core.state.lock(&consumer_group, client, mq_set);
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

/// 42: unlocks the client's queues. Declines a body that it cannot read.
pub(crate) fn unlock(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let Ok(request) = serde_json::from_slice::<LockRequest>(context.frame.body) else {
        return Handled::Declined;
    };
    let locks = &context.core.state.locks;
    locks.unlock(&request.consumer_group, &request.client_id, &request.mq_set);
    context.reply(0, None, out);
    Handled::Native
}
