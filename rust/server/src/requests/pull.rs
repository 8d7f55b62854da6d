//! PULL_MESSAGE (11), answered from the published tables and the store.
//!
//! Native code serves pulls that pass every check. It declines all others, and Python replies with
//! RocketMQ's error texts.

use std::cell::RefCell;
use std::num::NonZeroI64;
use std::str::FromStr;
use std::sync::Arc;

use crate::conn::peers::Peer;
use crate::fair::share::{self, NO_ROOM};
use crate::limits::HOLD_MS_MAX;
use crate::requests::context::Context;
use crate::requests::offset_moved;
use crate::requests::pull_filter::{inline_filter, known_filter};
use crate::shared::Shared;
use crate::tables::PERM_READ;
use crate::tables::broker_row::BrokerRow;
use crate::traffic::Sums;
use mq_format::codes::{
    PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SUCCESS, SYSTEM_BUSY,
};
use mq_format::remoting::{FieldValue, Frame, Head, ReplyTo, Serialize};
use mq_store::{GetRequest, GetResult, GetStatus, MessageFilter, ReadMode, Store, WouldBlock};

/// Bits of a pull's system flag.
const COMMIT_OFFSET: i32 = 1;
const SUSPEND: i32 = 2;
const SUBSCRIPTION: i32 = 4;

/// Fields of a pull, borrowed from its frame.
struct Asked<'a> {
    group: &'a str,
    topic: &'a str,
    queue_id: i32,
    offset: i64,
    max_count: i32,
    sys_flag: i32,
    sub_version: i64,
    commit_offset: i64,
    suspend_ms: i64,
}

/// A pull that outlives its frame: a long poll, or a pull that waits for the disk. Kept small,
/// because a server may have a hundred thousand long polls.
pub struct PullTask {
    pub(crate) peer: Arc<Peer>,
    pub(crate) to: ReplyTo,
    /// The names in the tables, not copies.
    group: Arc<str>,
    pub(crate) topic: Arc<str>,
    pub(crate) queue_id: i32,
    pub(crate) offset: i64,
    max_count: i32,
    /// None if the subscription came with the request.
    sub_version: Option<i64>,
    pub(crate) filter: MessageFilter,
    /// Monotonic milliseconds until which it may be a long poll; None if it may not, or no longer.
    hold_until_ms: Option<NonZeroI64>,
}

/// A pull for the cold-read threads.
pub type ColdPull = Box<PullTask>;

/// Result of a pull.
pub(crate) enum Pulled {
    /// It is answered, or its client is gone.
    Done,
    /// It found no message and may become a long poll.
    Hold(PullTask),
    /// Only a cold-read thread can answer it.
    Cold(PullTask),
}

thread_local! {
    /// Records are read into this buffer and then copied after their header.
    static RECORDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Size of the record buffer that a thread keeps between pulls, bytes.
const RECORDS_KEPT_BYTES: usize = 1 << 20;

/// 11. None if Python must decide.
pub(crate) fn pull(context: &Context<'_>, out: &mut Vec<u8>) -> Option<Pulled> {
    let shared = context.shared;
    let (store, broker) = (shared.store.as_deref()?, shared.tables.broker()?);
    let asked = Asked::read(context.frame)?;
    let inline = asked.sys_flag & SUBSCRIPTION != 0;
    let filter = match inline {
        true => inline_filter(context.frame),
        false => known_filter(shared, asked.group, asked.topic, asked.sub_version),
    };
    let filter = filter.filter(|found| broker.property_filter || !found.is_sql());
    let filter = match filter {
        Some(MessageFilter::All) if broker.filter_retry => {
            let retried = shared.tables.retried_filter(asked.topic);
            Some(retried.unwrap_or(MessageFilter::All))
        }
        filter => filter,
    };
    let ((group, topic), filter) = (asked.allowed(shared, &broker)?, filter?);
    if asked.sys_flag & COMMIT_OFFSET != 0 {
        let Asked {
            group,
            topic,
            queue_id,
            commit_offset,
            ..
        } = asked;
        if !store.commit(group, topic, queue_id, commit_offset, broker.offsets_max) {
            shared.counters.offsets_refused.one();
        }
    }
    let hold_ms = match asked.sys_flag & SUSPEND {
        0 => None,
        _ if broker.long_polling => Some(asked.suspend_ms),
        _ => Some(broker.short_polling_ms),
    };
    let task = PullTask {
        peer: Arc::clone(context.peer),
        to: context.frame.reply_to(),
        group,
        topic,
        queue_id: asked.queue_id,
        offset: asked.offset,
        max_count: asked.max_count,
        sub_version: (!inline).then_some(asked.sub_version),
        filter,
        hold_until_ms: hold_ms
            .map(|hold_ms| hold_ms.clamp(0, HOLD_MS_MAX))
            .and_then(|hold_ms| NonZeroI64::new(shared.clock.monotonic_ms() + hold_ms)),
    };
    Some(task.answer(shared, store, ReadMode::NoWait, out))
}

/// Answers a pull at the end of its long poll, without starting another. The reply is JSON,
/// whatever the request's serialization, as in RocketMQ.
pub(crate) fn rerun(shared: &Shared, mut task: PullTask, out: &mut Vec<u8>) -> Pulled {
    task.hold_until_ms = None;
    task.to.serialize = Serialize::Json;
    let Some(store) = shared.store.as_deref() else {
        return Pulled::Done;
    };
    let takes_answers = !share::must_wait(&shared.peers, &task.peer);
    if takes_answers && task.is_still_allowed(shared) {
        return task.answer(shared, store, ReadMode::NoWait, out);
    }
    // The client sends a new pull at once, and that pull gets the usual error reply.
    let status = GetStatus::NoMatchedMessage;
    let result = GetResult {
        status,
        next_begin_offset: task.offset,
        min_offset: store.min_offset(&task.topic, task.queue_id),
        max_offset: store.max_offset(&task.topic, task.queue_id),
        message_count: 0,
        suggest_slave: false,
        behind_bytes: 0,
    };
    task.reply(shared, PULL_RETRY_IMMEDIATELY, &result, &[], out);
    Pulled::Done
}

impl PullTask {
    /// Whether its client is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.peer.is_closing()
    }

    /// Monotonic milliseconds until which it is a long poll; the past if it may not be one.
    pub(crate) fn deadline_ms(&self) -> i64 {
        self.hold_until_ms.map_or(i64::MIN, NonZeroI64::get)
    }

    /// Bytes of its filter, 0 if the filter belongs to the tables.
    pub(crate) fn filter_bytes(&self) -> usize {
        let is_own = self.sub_version.is_none() || matches!(self.filter, MessageFilter::Retried(_));
        if is_own { self.filter.own_bytes() } else { 0 }
    }

    /// Reads and answers, unless the pull must wait for a message or for the disk.
    pub(crate) fn answer(
        self,
        shared: &Shared,
        store: &Store,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Pulled {
        if self.is_gone() {
            return Pulled::Done;
        }
        if let Some(moved) = store.take_reset(&self.group, &self.topic, self.queue_id) {
            return self.finish(shared, &moved, &[], out);
        }
        RECORDS.with_borrow_mut(|records| {
            records.clear();
            let request = GetRequest {
                topic: &self.topic,
                queue_id: self.queue_id,
                offset: self.offset,
                max_count: self.max_count,
                filter: &self.filter,
                mode,
            };
            let begin_ms = shared.clock.rough_monotonic_ms();
            let outcome = match store.get(&request, records) {
                Ok(result) => {
                    let took_ms = shared.clock.rough_monotonic_ms() - begin_ms;
                    self.count(shared, &result, records.len(), took_ms);
                    self.finish(shared, &result, records, out)
                }
                Err(WouldBlock) => Pulled::Cold(self),
            };
            records.shrink_to(RECORDS_KEPT_BYTES);
            outcome
        })
    }

    /// Counts the messages found, for the statistics.
    fn count(&self, shared: &Shared, result: &GetResult, bytes: usize, took_ms: i64) {
        if result.status == GetStatus::Found {
            let messages = usize::try_from(result.message_count).unwrap_or(0);
            let sums = Sums {
                behind_bytes: result.behind_bytes.max(0).unsigned_abs(),
                ..Sums::one(messages, bytes, took_ms.unsigned_abs())
            };
            shared
                .traffic
                .get(&self.topic, &self.group, self.queue_id, sums);
        }
    }

    fn finish(
        self,
        shared: &Shared,
        result: &GetResult,
        records: &[u8],
        out: &mut Vec<u8>,
    ) -> Pulled {
        let code = response_code(result.status, self.offset);
        if code == PULL_NOT_FOUND && self.hold_until_ms.is_some() {
            return Pulled::Hold(self);
        }
        if code == PULL_OFFSET_MOVED {
            let asked = (&*self.topic, self.queue_id, self.offset);
            offset_moved::note(shared, &self.group, asked, result.next_begin_offset);
        }
        self.reply(shared, code, result, records, out);
        Pulled::Done
    }

    fn reply(
        &self,
        shared: &Shared,
        code: i32,
        result: &GetResult,
        records: &[u8],
        out: &mut Vec<u8>,
    ) {
        let suggested = shared.tables.next_broker(&self.group, result.suggest_slave);
        let fields = [
            ("suggestWhichBrokerId", FieldValue::Number(suggested)),
            (
                "nextBeginOffset",
                FieldValue::Number(result.next_begin_offset),
            ),
            ("maxOffset", FieldValue::Number(result.max_offset)),
            ("minOffset", FieldValue::Number(result.min_offset)),
        ];
        if !shared.has_room(records.len()) {
            shared.counters.overloaded.one();
            Head::reply(self.to, SYSTEM_BUSY, Some(NO_ROOM)).encode(&[], &[], out);
            return;
        }
        let head = Head::reply(self.to, code, Some(result.status.as_str()));
        head.encode(&fields, records, out);
    }

    /// Repeats the checks of the first attempt, because much may have changed during the long poll.
    fn is_still_allowed(&self, shared: &Shared) -> bool {
        let asked = Asked {
            group: &self.group,
            topic: &self.topic,
            queue_id: self.queue_id,
            offset: self.offset,
            max_count: self.max_count,
            sys_flag: 0,
            sub_version: 0,
            commit_offset: 0,
            suspend_ms: 0,
        };
        let subscribed = self.sub_version.is_none_or(|version| {
            known_filter(shared, &self.group, &self.topic, version).is_some()
        });
        subscribed
            && shared
                .tables
                .broker()
                .is_some_and(|broker| asked.allowed(shared, &broker).is_some())
    }
}

impl<'a> Asked<'a> {
    fn read(frame: &'a Frame<'_>) -> Option<Self> {
        Some(Self {
            group: frame.ext.get("consumerGroup")?,
            topic: frame.ext.get("topic")?,
            queue_id: number(frame, "queueId")?,
            offset: number(frame, "queueOffset")?,
            max_count: number(frame, "maxMsgNums")?,
            sys_flag: number(frame, "sysFlag")?,
            sub_version: match frame.ext.get("subVersion") {
                Some(version) => version.parse().ok()?,
                None => 0,
            },
            commit_offset: number(frame, "commitOffset")?,
            suspend_ms: number(frame, "suspendTimeoutMillis")?,
        })
    }

    /// Returns the names of group and topic in the tables, if broker, group and topic allow reads
    /// and the topic has the queue.
    fn allowed(&self, shared: &Shared, broker: &BrokerRow) -> Option<(Arc<str>, Arc<str>)> {
        let tables = &shared.tables;
        let (group, may_consume) = tables.groups.named(self.group, |row| row.consume_enable)?;
        let (topic, is_readable) = tables.topics.named(self.topic, |row| {
            row.perm & PERM_READ != 0 && (0..row.read_queues).contains(&self.queue_id)
        })?;
        let is_allowed = broker.permission & PERM_READ != 0 && may_consume && is_readable;
        is_allowed.then_some((group, topic))
    }
}

fn number<N: FromStr>(frame: &Frame<'_>, name: &str) -> Option<N> {
    frame.ext.get(name)?.parse().ok()
}

/// RocketMQ's response code for a store status (`PullMessageProcessor.processRequest`).
fn response_code(status: GetStatus, offset: i64) -> i32 {
    match status {
        GetStatus::Found => SUCCESS,
        GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving => PULL_RETRY_IMMEDIATELY,
        GetStatus::NoMatchedLogicQueue | GetStatus::NoMessageInQueue if offset == 0 => {
            PULL_NOT_FOUND
        }
        GetStatus::OffsetFoundNull | GetStatus::OffsetOverflowOne => PULL_NOT_FOUND,
        GetStatus::NoMatchedLogicQueue
        | GetStatus::NoMessageInQueue
        | GetStatus::OffsetOverflowBadly
        | GetStatus::OffsetReset
        | GetStatus::OffsetTooSmall => PULL_OFFSET_MOVED,
    }
}
