//! From a frame to whoever answers it.

use std::sync::Arc;

use bytes::Bytes;

use crate::conn::frames::Whole;
use crate::conn::peers::Peer;
use crate::core::Core;
use crate::handoff::order::Turn;
use crate::handoff::overload;
use crate::handoff::{Job, SYSTEM_BUSY, SYSTEM_ERROR};
use crate::requests::native;
use crate::route::{self, Family};
use mq_format::remoting::{Frame, FrameError, Head, ReplyTo, Serialize};

/// RocketMQ's REQUEST_CODE_NOT_SUPPORTED.
const NOT_SUPPORTED: i32 = 3;

/// How the remark of a denied request begins: clients look for the class's name.
const ACL_EXCEPTION: &str = "org.apache.rocketmq.acl.common.AclException";

/// A request being answered: where it came from and what it says.
pub(crate) struct Context<'a> {
    pub core: &'a Arc<Core>,
    pub peer: &'a Arc<Peer>,
    pub frame: &'a Frame<'a>,
    /// The frame as it came.
    pub whole: Whole<'a>,
}

/// Whether the native side answered, or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Answered, parked, held, or in no need of an answer.
    Native,
    /// Python decides.
    Declined,
}

/// Whether a frame asks for messages, of which there may be many.
pub(crate) fn is_pull(core: &Core, bytes: &[u8]) -> bool {
    Frame::decode_within(bytes, core.settings.header).is_ok_and(|frame| frame.code == route::PULL)
}

/// Takes one frame just read; replies that are ready are appended to `out`.
pub(crate) fn frame(
    core: &Arc<Core>,
    peer: &Arc<Peer>,
    whole: Whole<'_>,
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let frame = Frame::decode_within(whole.bytes, core.settings.header)?;
    if frame.is_response() {
        peer.replied(frame.opaque, whole.bytes);
        return Ok(());
    }
    let context = Context {
        core,
        peer,
        frame: &frame,
        whole,
    };
    if let Some(why) = core.tables.acl.refusal(&frame, peer.remote) {
        context.deny(&why, out);
    } else if peer.fast_port && core.routes.refused_on_fast_port(frame.code) {
        let remark = format!(" request type {} not supported", frame.code);
        context.reply(NOT_SUPPORTED, Some(&remark), out);
    } else if !overload::rejected(core, &frame, out) && !context.waits_for_its_turn(out) {
        context.route(0, false, out);
    }
    Ok(())
}

/// Routes a request afresh; `turn` is the topic whose later sends wait for it.
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
        in_python = context.route(1, turn.is_some(), &mut out);
    }
    if !out.is_empty() {
        peer.send(&out);
    }
    if let Some(topic) = turn.filter(|_| !in_python) {
        next_sends(core, peer, &topic);
    }
}

/// Python is done with a send of `topic`: lets the ones that waited for it go, up to and with the
/// next one that Python decides.
pub(crate) fn next_sends(core: &Arc<Core>, peer: &Arc<Peer>, topic: &str) {
    let mut out = Vec::new();
    let budget = core.handoff.bytes();
    while let Some(bytes) = peer.sends.next(topic, budget, || peer.look_again()) {
        let Ok(frame) = Frame::decode(&bytes) else {
            continue;
        };
        let context = Context {
            core,
            peer,
            frame: &frame,
            whole: Whole::among(&bytes),
        };
        if context.route(0, true, &mut out) {
            break;
        }
    }
    if !out.is_empty() {
        peer.send(&out);
    }
}

/// The topic of a send, in whichever header it has; "" without one.
fn topic_of<'f>(frame: &'f Frame<'_>) -> &'f str {
    let name = if frame.code == route::SEND {
        "topic"
    } else {
        "b"
    };
    frame.ext.get(name).unwrap_or("")
}

impl Context<'_> {
    /// Appends a reply without fields or body; nothing if the client wants none.
    pub(crate) fn reply(&self, code: i32, remark: Option<&str>, out: &mut Vec<u8>) {
        if !self.frame.is_oneway() {
            self.frame.reply(code, remark).encode(&[], &[], out);
        }
    }

    /// Refuses as RocketMQ's dispatcher does when its access hook throws: code 1, always in JSON.
    fn deny(&self, why: &str, out: &mut Vec<u8>) {
        if self.frame.is_oneway() {
            return;
        }
        let remark = format!("{ACL_EXCEPTION}: {why}");
        let to = ReplyTo {
            opaque: self.frame.opaque,
            serialize: Serialize::Json,
        };
        Head::reply(to, SYSTEM_ERROR, Some(&remark)).encode(&[], &[], out);
    }

    /// True if the request is a send that has to wait, or cannot even wait.
    fn waits_for_its_turn(&self, out: &mut Vec<u8>) -> bool {
        if !route::is_send(self.frame.code) || !self.peer.sends.is_busy() {
            return false;
        }
        let budget = self.core.handoff.bytes();
        match self
            .peer
            .sends
            .defer(topic_of(self.frame), self.whole.bytes, budget)
        {
            Turn::Now => false,
            Turn::Later => true,
            Turn::Refused => {
                self.core.counters.overloaded.one();
                let remark = "[OVERLOAD]too many sends wait for an earlier one of this topic";
                self.reply(SYSTEM_BUSY, Some(remark), out);
                true
            }
        }
    }

    /// Native code first, then Python, else silence. True if Python has the request now.
    ///
    /// `has_turn`: later sends of this connection and topic already wait for this one.
    fn route(&self, attempt: u8, has_turn: bool, out: &mut Vec<u8>) -> bool {
        let code = self.frame.code;
        let routes = &self.core.routes;
        if let Some(native) = routes.native(code)
            && native::answer(native, self, out) == Handled::Native
        {
            self.core.counters.native(code);
            return false;
        }
        let Some(family) = routes.family(code, self.whole.bytes.len()) else {
            return false;
        };
        self.core.counters.python(code);
        self.hand_off(family, attempt, has_turn)
    }

    fn hand_off(&self, family: Family, attempt: u8, has_turn: bool) -> bool {
        let topic = route::is_send(self.frame.code).then(|| topic_of(self.frame));
        if let Some(topic) = topic {
            // Before the job can be answered, so that no later send overtakes it.
            self.peer.sends.begin(topic);
        }
        let job = Job::new(
            self.core,
            self.peer,
            self.whole,
            self.frame,
            (family, attempt),
        );
        let job = job.with_turn(topic.map(str::to_owned));
        match self.core.handoff.submit(job) {
            Ok(()) => true,
            Err(turn) => {
                // Whoever holds the turn passes it on itself.
                if let Some(topic) = turn.filter(|_| !has_turn) {
                    next_sends(self.core, self.peer, &topic);
                }
                false
            }
        }
    }
}
