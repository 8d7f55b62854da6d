//! Takes a frame from its arrival to its answer, which may have to wait.

use std::sync::Arc;

use bytes::Bytes;

use crate::conn::frames::Whole;
use crate::conn::peers::Peer;
use crate::core::Core;
use crate::handoff::request::Request;
use crate::handoff::send_order::SendTurn;
use crate::requests::context::{Context, Handled};
use crate::requests::long_poll::LongPoll;
use crate::requests::pull::{self, ColdPull, PullTask, Pulled};
use crate::requests::{heartbeat, lock, offsets, published, send, transaction};
use crate::route::{self, Family, Native};
use crate::shared::Shared;
use mq_format::codes::{self, SYSTEM_BUSY, SYSTEM_ERROR};
use mq_format::remoting::{Frame, FrameError, Head, ReplyTo, Serialize};

/// Start of the remark for a denied request; clients search for the name of this class.
const ACL_EXCEPTION: &str = "org.apache.rocketmq.acl.common.AclException";
/// Remark while the store is overloaded; RocketMQ sends it even to one-way requests.
const REJECTED: &str = "[REJECTREQUEST]system busy, start flow control for a while";
/// Remark for a request whose queue is full.
const FULL: &str = "[OVERLOAD]system busy, start flow control for a while";
/// Number of woken pulls that run one after another. A task for each pull would cost more than the
/// pull, and one task for thousands would keep a worker from its connections.
pub(crate) const PULLS_AT_ONCE: usize = 32;

/// Whether a frame is a pull, whose reply may be large.
pub(crate) fn is_pull(shared: &Shared, bytes: &[u8]) -> bool {
    Frame::decode_within(bytes, shared.settings.header)
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
        core.replied(peer, frame.opaque, whole.bytes);
        return Ok(());
    }
    let context = Context {
        shared: core,
        peer,
        frame: &frame,
        whole,
    };
    if let Some(why) = core.tables.acl.refusal(&frame, peer.remote) {
        deny(&context, &why, out);
    } else if peer.fast_port && core.routes.refused_on_fast_port(frame.code) {
        let remark = format!(" request type {} not supported", frame.code);
        context.reply(codes::REQUEST_CODE_NOT_SUPPORTED, Some(&remark), out);
    } else if !rejected(core, &frame, out) && !waits_for_its_turn(core, &context, out) {
        route_to(core, &context, 0, false, out);
    }
    Ok(())
}

/// Routes a request once more; `turn` is the topic whose later sends wait for it.
pub(crate) fn again(core: &Arc<Core>, peer: &Arc<Peer>, bytes: &Bytes, turn: Option<String>) {
    let mut out = Vec::new();
    let mut in_python = false;
    if let Ok(frame) = Frame::decode(bytes) {
        let context = Context {
            shared: core,
            peer,
            frame: &frame,
            whole: Whole::own(bytes),
        };
        in_python = route_to(core, &context, 1, turn.is_some(), &mut out);
    }
    if !out.is_empty() {
        peer.send(&out);
    }
    if let Some(topic) = turn.filter(|_| !in_python) {
        next_sends(core, peer, &topic);
    }
}

/// Resumes the sends of `topic` that waited for Python's send, until one of them goes to Python
/// again.
pub(crate) fn next_sends(core: &Arc<Core>, peer: &Arc<Peer>, topic: &str) {
    let mut out = Vec::new();
    let budget = &core.handoff.load.bytes;
    while let Some(bytes) = peer.sends.next(topic, budget, || peer.look_again()) {
        let Ok(frame) = Frame::decode(&bytes) else {
            continue;
        };
        let context = Context {
            shared: core,
            peer,
            frame: &frame,
            whole: Whole::among(&bytes),
        };
        if route_to(core, &context, 0, true, &mut out) {
            break;
        }
    }
    if !out.is_empty() {
        peer.send(&out);
    }
}

/// Returns the topic of a send with either header; "" without one.
fn topic_of<'f>(frame: &'f Frame<'_>) -> &'f str {
    let name = if frame.code == codes::SEND_MESSAGE {
        "topic"
    } else {
        "b"
    };
    frame.ext.get(name).unwrap_or("")
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
    core.counters.overloaded.one();
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
            core.counters.overloaded.one();
            let remark = "[OVERLOAD]too many sends wait for an earlier one of this topic";
            context.reply(SYSTEM_BUSY, Some(remark), out);
            true
        }
    }
}

/// Tries native code, then Python; otherwise there is no reply. True if Python has the request now.
///
/// `has_turn`: later sends of this connection and topic already wait for this one.
fn route_to(
    core: &Arc<Core>,
    context: &Context<'_>,
    attempt: u8,
    has_turn: bool,
    out: &mut Vec<u8>,
) -> bool {
    let code = context.frame.code;
    if let Some(native) = core.routes.native(code)
        && answer(core, native, context, out) == Handled::Native
    {
        core.counters.native(code);
        return false;
    }
    let Some(family) = core.routes.family(code, context.whole.bytes.len()) else {
        return false;
    };
    core.counters.python(code);
    hand_off(core, context, (family, attempt), has_turn)
}

/// Calls the native handler; replies that are ready are appended to `out`. Each handler's own file
/// lists the requests that it declines.
fn answer(core: &Arc<Core>, native: Native, context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    match native {
        Native::Send => send::send(context, out),
        Native::Pull => match pull::pull(context, out) {
            Some(outcome) => {
                pulled(core, outcome, out);
                Handled::Native
            }
            None => Handled::Declined,
        },
        Native::QueryOffset => offsets::query(context, out),
        Native::CommitOffset => offsets::commit(context, out),
        Native::MaxOffset => offsets::max(context, out),
        Native::MinOffset => offsets::min(context, out),
        Native::EndTransaction => transaction::end(context, out),
        Native::ConsumerList => published::consumer_list(context, out),
        Native::TopicRoute => published::topic_route(context, out),
        Native::Heartbeat => heartbeat::beat(context, out),
        Native::Lock => lock::lock(context, out),
        Native::Unlock => lock::unlock(context, out),
    }
}

fn hand_off(core: &Arc<Core>, context: &Context<'_>, route: (Family, u8), has_turn: bool) -> bool {
    let (peer, frame) = (context.peer, context.frame);
    let topic = route::is_send(frame.code).then(|| topic_of(frame));
    if let Some(topic) = topic {
        // Before the request can be answered, so that no later send overtakes it.
        peer.sends.begin(topic);
    }
    let turn = topic.map(str::to_owned);
    let parts = (&**core as &Shared, &core.handoff.load);
    let request = Request::new(parts, peer, context.whole, frame, route, turn);
    match submitted(core, request) {
        Ok(()) => true,
        Err(turn) => {
            // If the caller has the turn, the caller resumes the next sends.
            if let Some(topic) = turn.filter(|_| !has_turn) {
                next_sends(core, peer, &topic);
            }
            false
        }
    }
}

/// Queues a request for Python. A full queue replies with code 2, a closed one with code 1. The
/// topic of its turn is returned instead of being resumed here: thousands of sends may wait, and
/// each would find the queue full.
fn submitted(core: &Core, request: Request) -> Result<(), Option<String>> {
    match core.handoff.submit(request, core.clock.monotonic_ms()) {
        None => Ok(()),
        Some(mut request) => {
            if !core.handoff.is_closed() {
                request.busy(core, FULL);
            }
            Err(request.end(core, &core.handoff.load))
        }
    }
}

/// Returns a request to the queue of its family.
pub(crate) fn submit(core: &Arc<Core>, request: Request) {
    let peer = Arc::clone(&request.peer);
    if let Err(Some(topic)) = submitted(core, request) {
        next_sends(core, &peer, &topic);
    }
}

/// Replies with code 2 to a request that waited.
pub(crate) fn refuse(core: &Arc<Core>, mut request: Request, remark: &str) {
    request.busy(core, remark);
    end(core, request);
}

/// Ends a request, and resumes the sends that waited for it.
pub(crate) fn end(core: &Arc<Core>, request: Request) {
    let peer = Arc::clone(&request.peer);
    if let Some(topic) = request.end(core, &core.handoff.load) {
        next_sends(core, &peer, &topic);
    }
}

/// Continues a pull that is not answered yet: as a long poll, or as a read from the disk.
pub(crate) fn pulled(core: &Arc<Core>, outcome: Pulled, out: &mut Vec<u8>) {
    match outcome {
        Pulled::Done => {}
        Pulled::Hold(task) => wake(core, core.long_polls.hold(core, LongPoll::Pull(task))),
        Pulled::Cold(task) => read_later(core, Box::new(task), out),
    }
}

/// Gives a pull to the cold-read threads.
pub(crate) fn read_later(core: &Core, task: ColdPull, out: &mut Vec<u8>) {
    if let Err(task) = core.cold.push(task) {
        core.counters.overloaded.one();
        let remark = "[OVERLOAD]too many pulls wait for the disk, pull again later";
        Head::reply(task.to, SYSTEM_BUSY, Some(remark)).encode(&[], &[], out);
    }
}

/// Resumes long polls that were woken: pulls run on the runtime, others go back to Python.
pub(crate) fn wake(core: &Arc<Core>, woken: Vec<LongPoll>) {
    let mut pulls = Vec::new();
    for held in woken {
        match held {
            LongPoll::Pull(task) if task.is_gone() => {}
            LongPoll::Pull(task) => pulls.push(task),
            LongPoll::Python(held) => {
                let mut request = held.1;
                if request.peer.is_closing() {
                    request.no_reply();
                    end(core, request);
                } else {
                    request.note_woken(&core.handoff.load);
                    submit(core, request);
                }
            }
        }
        if pulls.len() == PULLS_AT_ONCE {
            rerun(core, std::mem::take(&mut pulls));
        }
    }
    if !pulls.is_empty() {
        rerun(core, pulls);
    }
}

fn rerun(core: &Arc<Core>, pulls: Vec<PullTask>) {
    let running = Arc::clone(core);
    core.long_polls.spawn(async move {
        for task in pulls {
            let (peer, mut out) = (Arc::clone(&task.peer), Vec::new());
            let outcome = pull::rerun(&running, task, &mut out);
            pulled(&running, outcome, &mut out);
            running.write(&peer, &out);
        }
    });
}
