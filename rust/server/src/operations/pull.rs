//! Pulls: the messages of a queue that a group has not read yet.

use std::num::NonZeroI64;
use std::sync::Arc;

use crate::limits::HOLD_MS_MAX;
use crate::operations::offset_moved;
use crate::operations::pull_filter::{inline_filter, known_filter};
use crate::operations::server_state::ServerState;
use crate::stats::traffic::Sums;
use crate::tables::PERM_READ;
use crate::tables::broker_row::BrokerRow;
use mq_store::{GetRequest, GetResult, GetStatus, MessageFilter, ReadMode, Store, WouldBlock};

/// What a client asks for.
pub(crate) struct Asked<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    pub queue_id: i32,
    pub offset: i64,
    pub max_count: i32,
    pub selection: Selection<'a>,
    /// An offset of the group to commit first.
    pub commit_offset: Option<i64>,
    /// Milliseconds for which the client waits for a message; None if it does not wait.
    pub suspend_ms: Option<i64>,
}

/// Which messages of the queue a client wants.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    /// An expression that came with the pull.
    Inline {
        expression: &'a str,
        expression_type: &'a str,
    },
    /// The subscription of the group's heartbeats, in this version or a newer one.
    Known { version: i64 },
}

/// A pull that passed all checks. Kept small, because a server may have a hundred thousand that
/// wait for a message.
pub struct Pull {
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

/// Result of a read.
pub(crate) enum Read {
    /// Everything that the reply needs beside the messages.
    Done(Found, GetResult),
    /// There is no message yet, and the client waits for one.
    Hold,
    /// Only a thread that may wait for the disk can read the messages.
    Cold,
}

/// What a pull found at its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Messages that it selects.
    Messages,
    /// Messages, but none that it selects; the next pull begins after them.
    OnlyOthers,
    /// The end of the queue.
    NothingYet,
    /// The queue does not have the offset; the next pull begins elsewhere.
    NoSuchOffset,
}

/// Checks a pull against the tables, and commits the offset that came with it. None if broker,
/// group or topic do not allow the pull, or if its messages cannot be selected.
pub(crate) fn begin(state: &ServerState, asked: &Asked<'_>) -> Option<Pull> {
    let (store, broker) = (state.store.as_deref()?, state.tables.broker()?);
    let (filter, sub_version) = match asked.selection {
        Selection::Inline {
            expression,
            expression_type,
        } => (inline_filter(expression, expression_type), None),
        Selection::Known { version } => {
            let filter = known_filter(&state.tables, asked.group, asked.topic, version);
            (filter, Some(version))
        }
    };
    let filter = filter.filter(|found| broker.property_filter || !found.is_sql())?;
    let filter = match filter {
        MessageFilter::All if broker.filter_retry => {
            let retried = state.tables.retried_filter(asked.topic);
            retried.unwrap_or(MessageFilter::All)
        }
        filter => filter,
    };
    let (group, topic) = allowed(state, &broker, (asked.group, asked.topic), asked.queue_id)?;
    if let Some(offset) = asked.commit_offset
        && !broker.is_slave
        && !store.commit(&group, &topic, asked.queue_id, offset, broker.offsets_max)
    {
        state.stats.counters.offsets_refused.one();
    }
    let hold_ms = asked.suspend_ms.map(|asked_ms| match broker.long_polling {
        true => asked_ms,
        false => broker.short_polling_ms,
    });
    Some(Pull {
        group,
        topic,
        queue_id: asked.queue_id,
        offset: asked.offset,
        max_count: asked.max_count,
        sub_version,
        filter,
        hold_until_ms: hold_ms
            .map(|hold_ms| hold_ms.clamp(0, HOLD_MS_MAX))
            .and_then(|hold_ms| NonZeroI64::new(state.clock.monotonic_ms() + hold_ms)),
    })
}

impl Pull {
    /// Reads messages to `records`, which is cleared first.
    pub(crate) fn read(
        &self,
        state: &ServerState,
        store: &Store,
        mode: ReadMode,
        records: &mut Vec<u8>,
    ) -> Read {
        records.clear();
        if let Some(moved) = store.take_reset(&self.group, &self.topic, self.queue_id) {
            return self.finish(state, moved);
        }
        let request = GetRequest {
            topic: &self.topic,
            queue_id: self.queue_id,
            offset: self.offset,
            max_count: self.max_count,
            filter: &self.filter,
            mode,
        };
        let begin_ms = state.clock.rough_monotonic_ms();
        match store.get(&request, records) {
            Ok(result) => {
                let took_ms = state.clock.rough_monotonic_ms() - begin_ms;
                self.count(state, &result, records.len(), took_ms);
                self.finish(state, result)
            }
            Err(WouldBlock) => Read::Cold,
        }
    }

    /// Counts the messages found, for the statistics.
    fn count(&self, state: &ServerState, result: &GetResult, bytes: usize, took_ms: i64) {
        if result.status == GetStatus::Found {
            let messages = usize::try_from(result.message_count).unwrap_or(0);
            let sums = Sums {
                behind_bytes: result.behind_bytes.max(0).unsigned_abs(),
                ..Sums::one(messages, bytes, took_ms.unsigned_abs())
            };
            let traffic = &state.stats.traffic;
            traffic.get(&self.topic, &self.group, self.queue_id, sums);
        }
    }

    fn finish(&self, state: &ServerState, mut result: GetResult) -> Read {
        let mut found = found(result.status, self.offset);
        let is_behind = || {
            state
                .tables
                .broker()
                .is_some_and(|row| !row.corrects_offsets)
        };
        if matches!(found, Found::NothingYet | Found::NoSuchOffset) && is_behind() {
            // The copy of a slave may be behind, so that an offset that it lacks is no mistake.
            result.next_begin_offset = self.offset;
            if found == Found::NoSuchOffset {
                found = Found::OnlyOthers;
            }
        }
        if found == Found::NothingYet && self.hold_until_ms.is_some() {
            return Read::Hold;
        }
        if found == Found::NoSuchOffset {
            let asked = (&*self.topic, self.queue_id, self.offset);
            offset_moved::note(state, &self.group, asked, result.next_begin_offset);
        }
        Read::Done(found, result)
    }

    /// Ends the wait for a message: the next read has a result in any case.
    pub(crate) fn end_hold(&mut self) {
        self.hold_until_ms = None;
    }

    /// The result of a pull that reads nothing; the client sends a new one at once.
    pub(crate) fn unread(&self, store: &Store) -> GetResult {
        GetResult {
            status: GetStatus::NoMatchedMessage,
            next_begin_offset: self.offset,
            min_offset: store.min_offset(&self.topic, self.queue_id),
            max_offset: store.max_offset(&self.topic, self.queue_id),
            message_count: 0,
            suggest_slave: false,
            behind_bytes: 0,
        }
    }

    /// The broker from which the group should pull next.
    pub(crate) fn next_broker(&self, state: &ServerState, result: &GetResult) -> i64 {
        state.tables.next_broker(&self.group, result.suggest_slave)
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

    /// Repeats the checks of `begin`, because much may have changed during the long poll.
    pub(crate) fn is_still_allowed(&self, state: &ServerState) -> bool {
        let tables = &state.tables;
        let names = (&*self.group, &*self.topic);
        self.sub_version
            .is_none_or(|version| known_filter(tables, names.0, names.1, version).is_some())
            && tables
                .broker()
                .is_some_and(|broker| allowed(state, &broker, names, self.queue_id).is_some())
    }
}

/// Returns the names of group and topic in the tables, if broker, group and topic allow reads and
/// the topic has the queue.
fn allowed(
    state: &ServerState,
    broker: &BrokerRow,
    (group, topic): (&str, &str),
    queue_id: i32,
) -> Option<(Arc<str>, Arc<str>)> {
    let tables = &state.tables;
    let (group, may_consume) = tables.groups.named(group, |row| row.consume_enable)?;
    let (topic, is_readable) = tables.topics.named(topic, |row| {
        row.perm & PERM_READ != 0 && (0..row.read_queues).contains(&queue_id)
    })?;
    let is_allowed = broker.permission & PERM_READ != 0 && may_consume && is_readable;
    is_allowed.then_some((group, topic))
}

/// What a status of the store means for the client (`PullMessageProcessor.processRequest`).
fn found(status: GetStatus, offset: i64) -> Found {
    match status {
        GetStatus::Found => Found::Messages,
        GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving => Found::OnlyOthers,
        GetStatus::NoMatchedLogicQueue | GetStatus::NoMessageInQueue if offset == 0 => {
            Found::NothingYet
        }
        GetStatus::OffsetFoundNull | GetStatus::OffsetOverflowOne => Found::NothingYet,
        GetStatus::NoMatchedLogicQueue
        | GetStatus::NoMessageInQueue
        | GetStatus::OffsetOverflowBadly
        | GetStatus::OffsetReset
        | GetStatus::OffsetTooSmall => Found::NoSuchOffset,
    }
}
