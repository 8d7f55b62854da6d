//! END_TRANSACTION (37).
//!
//! Requests that name no half message are declined. Python replies with an error text, and asks
//! producers about half messages without an end.

use std::sync::Arc;

use crate::operations::transactions::{self, End};
use crate::requests::acknowledgement;
use crate::requests::context::{Context, Handled};
use crate::waiting::pending_acks::{PendingReply, PendingRequest};
use mq_format::message::sys_flag;
use mq_store::Put;

const UNDECIDED: i32 = 0;
/// Remark of RocketMQ's replies that set no other.
const UNSET_REMARK: &str = "not set any response code";

/// 37.
pub(crate) fn end(context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    let state = &context.core.state;
    if state.store.is_none() || !state.tables.broker.is_published() {
        return Handled::Declined;
    }
    let commits = match context.number("commitOrRollback") {
        // RocketMQ sends no reply.
        Some(UNDECIDED) => return Handled::Native,
        Some(sys_flag::COMMIT) => true,
        Some(sys_flag::ROLLBACK) => false,
        _ => return Handled::Declined,
    };
    let ended = decode(context, commits).and_then(|end| transactions::end(state, &end));
    let Some(ended) = ended else {
        return Handled::Declined;
    };
    // RocketMQ overwrites its preset remark only for a commit.
    let remark = (!commits).then_some(UNSET_REMARK);
    encode(context, ended.op_message, remark, out);
    Handled::Native
}

fn decode<'a>(context: &'a Context<'_>, commits: bool) -> Option<End<'a>> {
    Some(End {
        group: context.frame.ext.get("producerGroup")?,
        queue_offset: context.number("tranStateTableOffset")?,
        physical_offset: context.number("commitLogOffset")?,
        commits,
        is_awaited: !context.frame.is_oneway(),
    })
}

/// Replies 0 whether or not the op message was stored, when it is as durable as configured.
fn encode(
    context: &Context<'_>,
    op_message: Option<Put>,
    remark: Option<&'static str>,
    out: &mut Vec<u8>,
) {
    match op_message {
        _ if context.frame.is_oneway() => {}
        None | Some(Put::Done(_)) => context.reply(0, remark, out),
        Some(Put::Parked(_, ticket)) => {
            let reply = PendingReply {
                peer: Arc::clone(context.peer),
                to: context.frame.reply_to(),
                request: PendingRequest::EndTransaction { remark },
            };
            acknowledgement::park(context.core, ticket, reply, out);
        }
    }
}
