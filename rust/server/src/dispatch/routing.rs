//! Gives a request to native code or to Python, and continues requests that waited.

use std::sync::Arc;

use bytes::Bytes;

use crate::clients::peers::Peer;
use crate::core::Core;
use crate::handoff::request::Request;
use crate::requests::context::{Context, Handled, Whole};
use crate::requests::pull::{self, Pulled};
use crate::requests::{heartbeat, lock, offsets, published, send, transaction};
use crate::route::{self, Family, Native};
use crate::waiting::long_polls::LongPoll;
use crate::waiting::pull_task::{ColdPull, PullTask};
use mq_format::codes::{self, SYSTEM_BUSY};
use mq_format::remoting::{Frame, Head};

/// Remark for a request whose queue is full.
const FULL: &str = "[OVERLOAD]system busy, start flow control for a while";
/// Number of woken pulls that run one after another. A task for each pull would cost more than the
/// pull, and one task for thousands would keep a worker from its connections.
pub(crate) const PULLS_AT_ONCE: usize = 32;
/// Number of deferred sends that are resumed together: their replies are one write.
const SENDS_AT_ONCE: usize = 64;

/// Routes a request once more; `turn` is the topic whose later sends wait for it.
pub(crate) fn again(core: &Arc<Core>, peer: &Arc<Peer>, bytes: &Bytes, turn: Option<String>) {
    let mut out = Vec::new();
    let mut in_python = false;
    if let Ok(frame) = Frame::decode(bytes) {
        let context = Context {
            core,
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
fn next_sends(core: &Arc<Core>, peer: &Arc<Peer>, topic: &str) {
    while resume_sends(core, peer, topic) {}
}

/// Resumes up to `SENDS_AT_ONCE` of these sends; returns whether more may wait.
fn resume_sends(core: &Arc<Core>, peer: &Arc<Peer>, topic: &str) -> bool {
    let (mut out, mut may_wait) = (Vec::new(), true);
    let budget = &core.handoff.load.bytes;
    for _ in 0..SENDS_AT_ONCE {
        let Some(bytes) = peer.sends.next(topic, budget, || peer.look_again()) else {
            may_wait = false;
            break;
        };
        let Ok(frame) = Frame::decode(&bytes) else {
            continue;
        };
        let context = Context {
            core,
            peer,
            frame: &frame,
            whole: Whole::among(&bytes),
        };
        if route_to(core, &context, 0, true, &mut out) {
            may_wait = false;
            break;
        }
    }
    if !out.is_empty() {
        peer.send(&out);
    }
    may_wait
}

/// Returns the topic of a send with either header; "" without one.
pub(super) fn topic_of<'f>(frame: &'f Frame<'_>) -> &'f str {
    let name = if frame.code == codes::SEND_MESSAGE {
        "topic"
    } else {
        "b"
    };
    frame.ext.get(name).unwrap_or("")
}

/// Tries native code, then Python; otherwise there is no reply. True if Python has the request now.
///
/// `has_turn`: later sends of this connection and topic already wait for this one.
pub(super) fn route_to(
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
        core.stats.counters.native(code);
        return false;
    }
    let Some(family) = core.routes.family(code, context.whole.bytes.len()) else {
        return false;
    };
    core.stats.counters.python(code);
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
    let beat = match frame.code {
        codes::HEART_BEAT => {
            let sender = (frame.language.0, frame.version);
            let heartbeats = &core.state.heartbeats;
            heartbeats.read(frame.body, sender, &peer.heart)
        }
        _ => None,
    };
    let whole = (context.whole.keep(), frame);
    let request = Request::new(&core.handoff.load, peer, whole, route, turn, beat);
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
                request.busy(&core.clients, FULL);
            }
            Err(request.end(&core.clients, &core.handoff.load))
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
    request.busy(&core.clients, remark);
    end(core, request);
}

/// Ends a request, and resumes the sends that waited for it.
pub(crate) fn end(core: &Arc<Core>, request: Request) {
    let peer = Arc::clone(&request.peer);
    if let Some(topic) = request.end(&core.clients, &core.handoff.load) {
        next_sends(core, &peer, &topic);
    }
}

/// Ends a request that Python dropped. The sends that waited for it continue on the runtime,
/// because thousands may wait, and the thread that dropped the request may hold Python's lock.
pub(crate) fn abandon(core: &Arc<Core>, request: Request) {
    let peer = Arc::clone(&request.peer);
    let Some(topic) = request.end(&core.clients, &core.handoff.load) else {
        return;
    };
    let resuming = Arc::clone(core);
    core.waiting.spawn(async move {
        while resume_sends(&resuming, &peer, &topic) {
            tokio::task::yield_now().await;
        }
    });
}

/// Continues a pull that is not answered yet: as a long poll, or as a read from the disk.
pub(crate) fn pulled(core: &Arc<Core>, outcome: Pulled, out: &mut Vec<u8>) {
    match outcome {
        Pulled::Done => {}
        Pulled::Hold(task) => wake(
            core,
            core.waiting
                .long_polls
                .hold(&core.state, LongPoll::Pull(task)),
        ),
        Pulled::Cold(task) => read_later(core, Box::new(task), out),
    }
}

/// Gives a pull to the cold-read threads.
pub(crate) fn read_later(core: &Core, task: ColdPull, out: &mut Vec<u8>) {
    if let Err(task) = core.waiting.cold.push(task) {
        core.stats.counters.overloaded.one();
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
    core.waiting.spawn(async move {
        for task in pulls {
            let (peer, mut out) = (Arc::clone(&task.peer), Vec::new());
            let outcome = pull::rerun(&running, task, &mut out);
            pulled(&running, outcome, &mut out);
            running.clients.write(&peer, &out);
        }
    });
}
