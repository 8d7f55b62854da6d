//! Requests handed to Python: bounded queues by family, and a reply that is given exactly once.

pub(crate) mod gate;
pub(crate) mod order;
pub(crate) mod overload;
pub(crate) mod queue;

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::conn::frames::Whole;
use crate::conn::peers::Peer;
use crate::core::Core;
use crate::handoff::queue::{BoundedQueue, Popped};
use crate::limits::{HANDOFF_BYTES_MAX, HOLD_MS_MAX, LARGE_HANDOFF_BYTES_MAX};
use crate::requests::dispatch;
use crate::requests::heartbeat::Beat;
use crate::requests::hold::Wish;
use crate::route::{self, Family};
use mq_format::remoting::{
    ExtFields, FLAG_ONEWAY, FLAG_RESPONSE, Frame, Language, MAX_FRAME_BYTES, Serialize, VERSION,
};
use mq_store::TagFilter;

/// RocketMQ's SYSTEM_ERROR.
pub const SYSTEM_ERROR: i32 = 1;
/// RocketMQ's SYSTEM_BUSY.
pub const SYSTEM_BUSY: i32 = 2;
/// QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: RocketMQ writes what it found with a JSON header always.
const FOUND_IN_JSON: [i32; 2] = [12, 33];
/// Largest body of a reply, bytes: room is left for a header.
const BODY_BYTES_MAX: usize = MAX_FRAME_BYTES - (64 << 10);
/// Remark of a request that found its queue full.
const OVERLOAD: &str = "[OVERLOAD]system busy, start flow control for a while";

/// The queues, one a family.
pub struct Handoff {
    families: Vec<(String, BoundedQueue<Job>)>,
    /// Jobs that exist and are not held: what a stop has to wait for.
    open: AtomicUsize,
    /// Bytes of the frames of all jobs, held ones too, and of sends that wait for one.
    bytes: AtomicUsize,
}

impl Handoff {
    /// Queues of these names and capacities.
    pub fn new(families: &[(String, usize)]) -> Self {
        let queues = families.iter();
        Self {
            families: queues
                .map(|(name, capacity)| (name.clone(), BoundedQueue::new(*capacity)))
                .collect(),
            open: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The family of that name.
    pub fn index(&self, name: &str) -> Option<Family> {
        self.families.iter().position(|(known, _)| known == name)
    }

    /// Waits for the next request of a family, whether its client takes its answers or not.
    pub(crate) fn pop(&self, family: Family, timeout: Duration) -> Popped<Job> {
        self.families[family].1.pop(timeout)
    }

    /// Bytes of requests in Python's hands, and of sends that wait for one of them.
    pub(crate) fn bytes(&self) -> &AtomicUsize {
        &self.bytes
    }

    /// Requests waiting, by family.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, usize)> {
        self.families
            .iter()
            .map(|(name, queue)| (name.as_str(), queue.len()))
    }

    /// Milliseconds the oldest request of each family has waited, 0 where none does.
    pub fn head_waits_ms(&self, now_ms: i64) -> impl Iterator<Item = (&str, i64)> {
        self.families.iter().map(move |(name, queue)| {
            let waited = queue.with_oldest(|job| now_ms - job.queued_ms);
            (name.as_str(), waited.unwrap_or(0).max(0))
        })
    }

    /// The oldest request of a family if it has waited for `limit_ms`, and how many are left.
    pub(crate) fn pop_late(
        &self,
        family: Family,
        now_ms: i64,
        limit_ms: i64,
    ) -> Option<(Job, usize)> {
        let queue = &self.families[family].1;
        queue.pop_if(|job| now_ms - job.queued_ms >= limit_ms)
    }

    /// Requests that Python has or will get, held ones not counted.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Ends every wait; what still waits is answered 1.
    pub(crate) fn close(&self) {
        for (_, queue) in &self.families {
            // Dropped outside the queue's lock: each drop writes a reply.
            drop(queue.close());
        }
    }
}

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

/// One request in Python's hands. Answered once; dropped unanswered, it answers 1 itself.
pub struct Job {
    pub(crate) core: Arc<Core>,
    /// The connection it came from.
    pub peer: Arc<Peer>,
    /// Fixed header fields.
    pub head: JobHead,
    /// 0, or 1 after a wake-up or a second routing.
    pub attempt: u8,
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
    /// Counted in `Handoff::open`.
    counted: bool,
    answered: bool,
}

impl Job {
    pub(crate) fn new(
        core: &Arc<Core>,
        peer: &Arc<Peer>,
        whole: Whole<'_>,
        frame: &Frame<'_>,
        route: (Family, u8),
    ) -> Self {
        core.handoff.open.fetch_add(1, Ordering::AcqRel);
        (core.handoff.bytes).fetch_add(whole.bytes.len(), Ordering::AcqRel);
        Self {
            core: Arc::clone(core),
            peer: Arc::clone(peer),
            head: JobHead {
                code: frame.code,
                opaque: frame.opaque,
                flag: frame.flag,
                version: frame.version,
                language: frame.language,
                serialize: frame.serialize,
            },
            attempt: route.1,
            reply_as: frame.serialize,
            frame: whole.keep(),
            family: route.0,
            queued_ms: 0,
            turn: None,
            beat: (frame.code == route::HEART_BEAT)
                .then(|| core.heartbeats.read(frame, &peer.heart))
                .flatten(),
            counted: true,
            answered: false,
        }
    }

    pub(crate) fn with_turn(mut self, topic: Option<String>) -> Self {
        self.turn = topic;
        self
    }

    /// The whole frame as it came.
    pub fn frame(&self) -> Bytes {
        self.frame.clone()
    }

    /// Whether other sends wait for this one: answering it stores them.
    pub fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Whether the client wants no reply.
    pub fn is_oneway(&self) -> bool {
        self.head.flag & FLAG_ONEWAY != 0
    }

    /// Answers in the request's serialisation.
    pub fn respond(mut self, code: i32, remark: Option<&str>, fields: ExtFields<'_>, body: &[u8]) {
        let found = code == 0 && FOUND_IN_JSON.contains(&self.head.code);
        let serialize = if found {
            Serialize::Json
        } else {
            self.reply_as
        };
        self.reply(serialize, code, remark, fields, body);
    }

    /// Answers 1 as RocketMQ does when a processor throws: always in JSON.
    pub fn fail(mut self, remark: &str) {
        self.reply(
            Serialize::Json,
            SYSTEM_ERROR,
            Some(remark),
            ExtFields::absent(),
            &[],
        );
    }

    /// Done without a reply.
    pub fn no_reply(mut self) {
        self.settle(0);
        self.answered = true;
    }

    /// Keeps the request until a message that passes `filter` arrives in the queue at `offset`
    /// or above, or until `timeout`; then Python gets it again, with `attempt` 1.
    pub fn hold(
        mut self,
        topic: Arc<str>,
        queue_id: i32,
        offset: i64,
        filter: TagFilter,
        timeout: Duration,
    ) {
        self.attempt = 1;
        // As RocketMQ answers a woken long poll.
        self.reply_as = Serialize::Json;
        self.uncount();
        let core = Arc::clone(&self.core);
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let deadline_ms = core.clock.monotonic_ms() + timeout_ms.min(HOLD_MS_MAX);
        let wish = Wish {
            topic,
            queue_id,
            offset,
            filter,
            deadline_ms,
        };
        core.holds.hold_job(&core, wish, self);
    }

    /// Routes the same request afresh, as if it had just come; once.
    pub fn again(mut self) {
        if self.attempt > 0 {
            return self.fail("a request was routed again after it had been routed again");
        }
        self.answered = true;
        let frame = self.frame.clone();
        let turn = self.turn.take();
        dispatch::again(&self.core, &self.peer, &frame, turn);
    }

    /// Back to its family's queue, after a hold.
    pub(crate) fn resubmit(mut self) {
        self.core.handoff.open.fetch_add(1, Ordering::AcqRel);
        self.counted = true;
        self.give_back();
    }

    /// Back to its family's queue.
    pub(crate) fn give_back(self) {
        let core = Arc::clone(&self.core);
        let peer = Arc::clone(&self.peer);
        if let Err(Some(topic)) = core.handoff.submit(self) {
            dispatch::next_sends(&core, &peer, &topic);
        }
    }

    /// When it was queued, monotonic milliseconds.
    pub(crate) fn queued_ms(&self) -> i64 {
        self.queued_ms
    }

    /// Answers 2. One-way requests get nothing.
    pub(crate) fn busy(mut self, remark: &str) {
        self.overload(remark);
    }

    fn overload(&mut self, remark: &str) {
        self.core.counters.overloaded.one();
        self.reply(
            Serialize::Json,
            SYSTEM_BUSY,
            Some(remark),
            ExtFields::absent(),
            &[],
        );
    }

    fn reply(
        &mut self,
        serialize: Serialize,
        code: i32,
        remark: Option<&str>,
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
        let mut out = Vec::with_capacity(256 + reply.body.len());
        reply.encode(&mut out);
        self.core.counters.bytes_out.add(out.len() as u64);
        self.peer.note_write(self.core.clock.monotonic_ms());
        self.peer.send(&out);
    }

    /// Before the client hears of it: what Python did may change what heartbeats do.
    fn settle(&mut self, code: i32) {
        match self.beat.take() {
            Some(beat) if code == 0 => self.peer.heart.acknowledge(beat),
            _ if self.head.code == route::UNREGISTER_CLIENT => self.peer.heart.forget(),
            _ => {}
        }
    }

    fn uncount(&mut self) {
        if mem::replace(&mut self.counted, false) {
            self.core.handoff.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Handoff {
    /// Queues a job. A full queue answers it 2; the topic whose turn it had is given back, not
    /// passed on here: thousands of sends may wait, each of which would meet the full queue.
    pub(crate) fn submit(&self, mut job: Job) -> Result<(), Option<String>> {
        job.queued_ms = job.core.clock.monotonic_ms();
        // Queues count requests; a few thousand large ones would still be too much memory.
        let (name, queue) = &self.families[job.family];
        let (bytes, is_large) = (self.bytes.load(Ordering::Acquire), name == route::LARGE);
        let fits = bytes <= HANDOFF_BYTES_MAX && !(is_large && bytes > LARGE_HANDOFF_BYTES_MAX);
        let pushed = if fits { queue.push(job) } else { Err(job) };
        let Err(mut job) = pushed else {
            return Ok(());
        };
        job.overload(OVERLOAD);
        Err(job.turn.take())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.answered {
            self.core.counters.unanswered.one();
            let remark = "the request was given up without an answer";
            self.reply(
                Serialize::Json,
                SYSTEM_ERROR,
                Some(remark),
                ExtFields::absent(),
                &[],
            );
        }
        if let Some(topic) = self.turn.take() {
            dispatch::next_sends(&self.core, &self.peer, &topic);
        }
        self.uncount();
        (self.core.handoff.bytes).fetch_sub(self.frame.len(), Ordering::AcqRel);
    }
}
