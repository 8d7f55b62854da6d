//! A request on its way to Python and back: its frame, and the one reply it gets.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::conn::frames::Whole;
use crate::conn::peers::Peer;
use crate::fair::share::NO_ROOM;
use crate::handoff::load::Load;
use crate::requests::known_heartbeats::Beat;
use crate::route::Family;
use crate::shared::Shared;
use mq_format::codes::{self, SYSTEM_BUSY, SYSTEM_ERROR};
use mq_format::remoting::{
    ExtFields, FLAG_ONEWAY, FLAG_RESPONSE, Frame, Language, MAX_FRAME_BYTES, Serialize, VERSION,
};

/// RocketMQ writes what these found with a JSON header always.
const FOUND_IN_JSON: [i32; 2] = [codes::QUERY_MESSAGE, codes::VIEW_MESSAGE_BY_ID];
/// Largest body of a reply, bytes: room is left for a header.
const BODY_BYTES_MAX: usize = MAX_FRAME_BYTES - (64 << 10);

/// What Python needs of a request before it decodes the fields.
#[derive(Debug, Clone, Copy)]
pub struct JobHead {
    /// Request code.
    pub code: i32,
    /// The client's correlation number.
    pub opaque: i32,
    /// Flag bits.
    pub flag: i32,
    /// The client's version ordinal.
    pub version: i32,
    /// The client's language.
    pub language: Language,
    /// How the header was written; replies echo it.
    pub serialize: Serialize,
}

/// One request in Python's hands. Whoever lets go of it calls [`Request::end`].
pub struct Request {
    /// The connection it came from.
    pub(crate) peer: Arc<Peer>,
    pub(crate) head: JobHead,
    /// 0, or 1 after a wake-up or a second routing.
    pub(crate) attempt: u8,
    frame: Bytes,
    family: Family,
    /// Monotonic milliseconds when it was queued.
    queued_ms: i64,
    /// How an ordinary reply is written.
    reply_as: Serialize,
    /// The topic whose later sends wait for this one.
    turn: Option<String>,
    /// If it is a heartbeat, which one.
    beat: Option<Beat>,
    /// Counted in `Load::open`.
    counted: bool,
    answered: bool,
}

impl Request {
    /// `turn`: the topic whose later sends wait for this one.
    pub(crate) fn new(
        (shared, load): (&Shared, &Load),
        peer: &Arc<Peer>,
        whole: Whole<'_>,
        frame: &Frame<'_>,
        (family, attempt): (Family, u8),
        turn: Option<String>,
    ) -> Self {
        load.count();
        load.bytes.fetch_add(whole.bytes.len(), Ordering::AcqRel);
        Self {
            peer: Arc::clone(peer),
            head: JobHead {
                code: frame.code,
                opaque: frame.opaque,
                flag: frame.flag,
                version: frame.version,
                language: frame.language,
                serialize: frame.serialize,
            },
            attempt,
            reply_as: frame.serialize,
            frame: whole.keep(),
            family,
            queued_ms: 0,
            turn,
            beat: (frame.code == codes::HEART_BEAT)
                .then(|| shared.heartbeats.read(frame, &peer.heart))
                .flatten(),
            counted: true,
            answered: false,
        }
    }

    /// The whole frame as it came.
    pub(crate) fn frame(&self) -> &Bytes {
        &self.frame
    }

    pub(crate) fn family(&self) -> Family {
        self.family
    }

    /// Whether other sends wait for this one: answering it stores them.
    pub(crate) fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// The topic whose later sends wait for it; somebody else passes the turn on.
    pub(crate) fn take_turn(&mut self) -> Option<String> {
        self.turn.take()
    }

    /// Whether the client wants no reply.
    pub(crate) fn is_oneway(&self) -> bool {
        self.head.flag & FLAG_ONEWAY != 0
    }

    /// When it was queued, monotonic milliseconds.
    pub(crate) fn queued_ms(&self) -> i64 {
        self.queued_ms
    }

    pub(crate) fn note_queued(&mut self, now_ms: i64) {
        self.queued_ms = now_ms;
    }

    /// It is held: a stop does not wait for it, and its reply is written as RocketMQ answers a
    /// woken long poll.
    pub(crate) fn note_held(&mut self, load: &Load) {
        self.attempt = 1;
        self.reply_as = Serialize::Json;
        self.uncount(load);
    }

    /// It is held no more.
    pub(crate) fn note_woken(&mut self, load: &Load) {
        load.count();
        self.counted = true;
    }

    /// Answers in the request's serialisation.
    pub(crate) fn respond(
        &mut self,
        shared: &Shared,
        code: i32,
        remark: Option<&str>,
        fields: ExtFields<'_>,
        body: &[u8],
    ) {
        let found = code == 0 && FOUND_IN_JSON.contains(&self.head.code);
        let serialize = if found {
            Serialize::Json
        } else {
            self.reply_as
        };
        self.reply(shared, serialize, (code, remark), fields, body);
    }

    /// Answers 1 as RocketMQ does when a processor throws: always in JSON.
    pub(crate) fn fail(&mut self, shared: &Shared, remark: &str) {
        self.refuse(shared, SYSTEM_ERROR, remark);
    }

    /// Answers 2. One-way requests get nothing.
    pub(crate) fn busy(&mut self, shared: &Shared, remark: &str) {
        shared.counters.overloaded.one();
        self.refuse(shared, SYSTEM_BUSY, remark);
    }

    fn refuse(&mut self, shared: &Shared, code: i32, remark: &str) {
        let why = (code, Some(remark));
        self.reply(shared, Serialize::Json, why, ExtFields::absent(), &[]);
    }

    /// Done without a reply.
    pub(crate) fn no_reply(&mut self) {
        self.settle(0);
        self.answered = true;
    }

    /// Somebody else answers it.
    pub(crate) fn leave(&mut self) {
        self.answered = true;
    }

    /// It is over: answers 1 if nothing was answered. The topic whose sends waited for it, which
    /// whoever ended it lets go.
    #[must_use = "later sends of the topic wait"]
    pub(crate) fn end(mut self, shared: &Shared, load: &Load) -> Option<String> {
        if !self.answered {
            shared.counters.unanswered.one();
            self.fail(shared, "the request was given up without an answer");
        }
        self.uncount(load);
        load.bytes.fetch_sub(self.frame.len(), Ordering::AcqRel);
        self.turn
    }

    fn reply(
        &mut self,
        shared: &Shared,
        serialize: Serialize,
        (code, remark): (i32, Option<&str>),
        fields: ExtFields<'_>,
        body: &[u8],
    ) {
        self.settle(code);
        if mem::replace(&mut self.answered, true) || self.is_oneway() {
            return;
        }
        let mut reply = Frame {
            code,
            language: Language::PYTHON,
            version: VERSION,
            opaque: self.head.opaque,
            flag: FLAG_RESPONSE,
            remark: remark.map(Cow::Borrowed),
            ext: fields,
            body,
            serialize,
        };
        if body.len() > BODY_BYTES_MAX {
            let remark = format!("the reply's body of {} bytes fits no frame", body.len());
            (reply.code, reply.remark, reply.body) = (SYSTEM_ERROR, Some(remark.into()), &[]);
        }
        if !shared.has_room(reply.body.len()) {
            shared.counters.overloaded.one();
            (reply.code, reply.remark, reply.body) = (SYSTEM_BUSY, Some(NO_ROOM.into()), &[]);
        }
        let mut out = Vec::with_capacity(256 + reply.body.len());
        reply.encode(&mut out);
        shared.write(&self.peer, &out);
    }

    /// Before the client hears of it: what Python did may change what heartbeats do.
    fn settle(&mut self, code: i32) {
        match self.beat.take() {
            Some(beat) if code == 0 => self.peer.heart.acknowledge(beat),
            _ if self.head.code == codes::UNREGISTER_CLIENT => self.peer.heart.forget(),
            _ => {}
        }
    }

    fn uncount(&mut self, load: &Load) {
        if mem::replace(&mut self.counted, false) {
            load.uncount();
        }
    }
}
