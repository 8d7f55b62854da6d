//! A request on its way to Python and back: its frame, and its one reply.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::clients::Clients;
use crate::clients::peers::{NO_ROOM, Peer};
use crate::handoff_bytes::HandoffBytes;
use crate::route::Family;
use crate::state::known_heartbeats::Beat;
use mq_format::codes::{self, SYSTEM_BUSY, SYSTEM_ERROR};
use mq_format::remoting::{
    ExtFields, FLAG_ONEWAY, FLAG_RESPONSE, Frame, Language, MAX_FRAME_BYTES, Serialize, VERSION,
};

/// The number and bytes of the requests in Python's hands.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Number of requests without long polls. A stop waits for these.
    open: AtomicUsize,
    /// Bytes of the frames of all requests and long polls, and of sends that wait for a request.
    pub(crate) bytes: HandoffBytes,
}

impl InFlight {
    /// No requests; their frames may take `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            open: AtomicUsize::new(0),
            bytes: HandoffBytes::new(bytes_max),
        }
    }

    /// Counts a request on its way to Python.
    fn count(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the count: the request was answered or became a long poll.
    fn uncount(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Number of requests that Python has or will get, without long polls.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }
}

/// Requests whose successful reply RocketMQ always writes with a JSON header.
const FOUND_IN_JSON: [i32; 2] = [codes::QUERY_MESSAGE, codes::VIEW_MESSAGE_BY_ID];
/// Largest body of a reply, bytes; the rest of the frame is for the header.
const BODY_BYTES_MAX: usize = MAX_FRAME_BYTES - (64 << 10);

/// Header fields that Python needs before it decodes the others.
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
    /// Serialization of the header; the reply uses the same.
    pub serialize: Serialize,
}

/// One request in Python's hands. Its owner must call [`Request::end`] before dropping it.
pub struct Request {
    /// The connection it came from.
    pub(crate) peer: Arc<Peer>,
    pub(crate) head: JobHead,
    /// 0, or 1 after a wake-up or a second routing.
    pub(crate) attempt: u8,
    frame: Bytes,
    family: Family,
    /// Monotonic milliseconds at which it was queued.
    queued_ms: i64,
    /// Serialization of an ordinary reply.
    reply_as: Serialize,
    /// The topic whose later sends wait for this one.
    turn: Option<String>,
    /// The heartbeat, if the request is one.
    beat: Option<Beat>,
    /// Whether it is counted in `InFlight::open`.
    counted: bool,
    answered: bool,
}

impl Request {
    /// `bytes`: the whole frame. `turn`: the topic whose later sends wait for this one. `beat`: the
    /// heartbeat, if the request is one.
    pub(crate) fn new(
        load: &InFlight,
        peer: &Arc<Peer>,
        (bytes, frame): (Bytes, &Frame<'_>),
        (family, attempt): (Family, u8),
        turn: Option<String>,
        beat: Option<Beat>,
    ) -> Self {
        load.count();
        load.bytes.add(bytes.len());
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
            frame: bytes,
            family,
            queued_ms: 0,
            turn,
            beat,
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

    /// Whether other sends wait for this one; its reply stores them.
    pub(crate) fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Takes the topic whose later sends wait; the caller must resume them.
    pub(crate) fn take_turn(&mut self) -> Option<String> {
        self.turn.take()
    }

    /// Whether the client expects no reply.
    pub(crate) fn is_oneway(&self) -> bool {
        self.head.flag & FLAG_ONEWAY != 0
    }

    /// Monotonic milliseconds at which it was queued.
    pub(crate) fn queued_ms(&self) -> i64 {
        self.queued_ms
    }

    pub(crate) fn note_queued(&mut self, now_ms: i64) {
        self.queued_ms = now_ms;
    }

    /// Records that the request became a long poll. A stop does not wait for it, and its reply is
    /// written as RocketMQ writes the reply to a woken long poll.
    pub(crate) fn note_held(&mut self, load: &InFlight) {
        self.attempt = 1;
        self.reply_as = Serialize::Json;
        self.uncount(load);
    }

    /// Records that the long poll was woken.
    pub(crate) fn note_woken(&mut self, load: &InFlight) {
        load.count();
        self.counted = true;
    }

    /// Replies in the request's serialization.
    pub(crate) fn respond(
        &mut self,
        clients: &Clients,
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
        self.reply(clients, serialize, (code, remark), fields, body);
    }

    /// Replies with code 1, as RocketMQ does when a processor throws: always in JSON.
    pub(crate) fn fail(&mut self, clients: &Clients, remark: &str) {
        self.refuse(clients, SYSTEM_ERROR, remark);
    }

    /// Replies with code 2. A one-way request gets no reply.
    pub(crate) fn busy(&mut self, clients: &Clients, remark: &str) {
        clients.stats.counters.overloaded.one();
        self.refuse(clients, SYSTEM_BUSY, remark);
    }

    fn refuse(&mut self, clients: &Clients, code: i32, remark: &str) {
        let why = (code, Some(remark));
        self.reply(clients, Serialize::Json, why, ExtFields::absent(), &[]);
    }

    /// Ends the request without a reply.
    pub(crate) fn no_reply(&mut self) {
        self.settle(0);
        self.answered = true;
    }

    /// Leaves the reply to other code.
    pub(crate) fn leave(&mut self) {
        self.answered = true;
    }

    /// Whether the request needs no other reply.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Ends the request, with code 1 if it has no reply yet. Returns the topic whose later sends
    /// wait for it; the caller must resume them.
    #[must_use = "later sends of the topic wait"]
    pub(crate) fn end(mut self, clients: &Clients, load: &InFlight) -> Option<String> {
        if !self.answered {
            clients.stats.counters.unanswered.one();
            self.fail(clients, "the request ended without a reply");
        }
        self.uncount(load);
        load.bytes.free(self.frame.len());
        self.turn
    }

    fn reply(
        &mut self,
        clients: &Clients,
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
            let remark = format!("a body of {} bytes is too large for a frame", body.len());
            (reply.code, reply.remark, reply.body) = (SYSTEM_ERROR, Some(remark.into()), &[]);
        }
        if !clients.has_room(reply.body.len()) {
            clients.stats.counters.overloaded.one();
            (reply.code, reply.remark, reply.body) = (SYSTEM_BUSY, Some(NO_ROOM.into()), &[]);
        }
        let mut out = Vec::with_capacity(256 + reply.body.len());
        reply.encode(&mut out);
        clients.write(&self.peer, &out);
    }

    /// Before the client gets the reply, because the request may have changed what heartbeats do.
    fn settle(&mut self, code: i32) {
        match self.beat.take() {
            Some(beat) if code == 0 => self.peer.heart.acknowledge(beat),
            _ if self.head.code == codes::UNREGISTER_CLIENT => self.peer.heart.forget(),
            _ => {}
        }
    }

    fn uncount(&mut self, load: &InFlight) {
        if mem::replace(&mut self.counted, false) {
            load.uncount();
        }
    }
}
