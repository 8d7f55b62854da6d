//! A frame that a connection has just read: who answers it, and whether it must wait first.

use std::sync::Arc;

use crate::clients::deferred_sends::SendTurn;
use crate::clients::peers::Peer;
use crate::core::Core;
use crate::dispatch::routing::{route_to, topic_of};
use crate::requests::context::{Context, Whole};
use crate::route;
use mq_format::codes::{self, SYSTEM_BUSY, SYSTEM_ERROR};
use mq_format::remoting::{Frame, FrameError, Head, ReplyTo, Serialize};

/// Start of the remark for a denied request; clients search for the name of this class.
const ACL_EXCEPTION: &str = "org.apache.rocketmq.acl.common.AclException";
/// Remark while the store is overloaded; RocketMQ sends it even to one-way requests.
const REJECTED: &str = "[REJECTREQUEST]system busy, start flow control for a while";

/// Whether a frame is a pull, whose reply may be large.
pub(crate) fn is_pull(core: &Core, bytes: &[u8]) -> bool {
    Frame::decode_within(bytes, core.settings.header)
        .is_ok_and(|frame| frame.code == codes::PULL_MESSAGE)
}

/// Handles one frame that was just read; appends replies that are ready to `out`.
pub(crate) fn frame(
    core: &Arc<Core>,
    peer: &Arc<Peer>,
    whole: Whole<'_>,
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let frame = Frame::decode_within(whole.bytes, core.settings.header)?;
    if frame.is_response() {
        core.clients.replied(peer, frame.opaque, whole.bytes);
        return Ok(());
    }
    let context = Context {
        core,
        peer,
        frame: &frame,
        whole,
    };
    if let Some(why) = core.state.tables.acl.refusal(&frame, peer.remote) {
        deny(&context, &why, out);
    } else if peer.fast_port && core.routes.refused_on_fast_port(frame.code) {
        let remark = format!(" request type {} not supported", frame.code);
        context.reply(codes::REQUEST_CODE_NOT_SUPPORTED, Some(&remark), out);
    } else if !rejected(core, &frame, out) && !waits_for_its_turn(core, &context, out) {
        route_to(core, &context, 0, false, out);
    }
    Ok(())
}

/// Refuses a request as RocketMQ's dispatcher does when its access hook throws: code 1, in JSON.
fn deny(context: &Context<'_>, why: &str, out: &mut Vec<u8>) {
    if context.frame.is_oneway() {
        return;
    }
    let remark = format!("{ACL_EXCEPTION}: {why}");
    in_json(context.frame, SYSTEM_ERROR, &remark, out);
}

/// Replies with code 2 to a request that would store a message while the store is overloaded; false
/// if it is not overloaded. RocketMQ sends this reply even to one-way requests, and always in JSON.
fn rejected(core: &Core, frame: &Frame<'_>, out: &mut Vec<u8>) -> bool {
    if !route::stores_a_message(frame.code) || !core.is_page_cache_busy() {
        return false;
    }
    core.stats.counters.overloaded.one();
    in_json(frame, SYSTEM_BUSY, REJECTED, out);
    true
}

fn in_json(frame: &Frame<'_>, code: i32, remark: &str, out: &mut Vec<u8>) {
    let to = ReplyTo {
        opaque: frame.opaque,
        serialize: Serialize::Json,
    };
    Head::reply(to, code, Some(remark)).encode(&[], &[], out);
}

/// True if the request is a send that must wait, or is refused because too many wait.
fn waits_for_its_turn(core: &Core, context: &Context<'_>, out: &mut Vec<u8>) -> bool {
    let (frame, sends) = (context.frame, &context.peer.sends);
    if !route::is_send(frame.code) || !sends.is_busy() {
        return false;
    }
    let budget = &core.handoff.load.bytes;
    match sends.defer(topic_of(frame), context.whole.bytes, budget) {
        SendTurn::Now => false,
        SendTurn::Later => true,
        SendTurn::Refused => {
            core.stats.counters.overloaded.one();
            let remark = "[OVERLOAD]too many sends wait for an earlier one of this topic";
            context.reply(SYSTEM_BUSY, Some(remark), out);
            true
        }
    }
}
