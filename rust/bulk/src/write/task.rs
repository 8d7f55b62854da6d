//! Progress of one write task: rows that are stored, in progress, or not sent yet.

use std::time::Instant;

use super::batches::{Batches, COUNT_MAX};
use super::encoder::{Encoder, text};
use super::error::{Why, WriteError};
use super::flight::{Attempt, Flight};
use super::outgoing::{Key, Outgoing, Place, Run};
use super::pace::Pace;
use super::plan::Plan;
use super::rows::Rows;
use super::send::{Sent, is_retry_topic};
use super::topics::{Queue, Routes, Topics};
use crate::inbox::Outcome;

/// Stored rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The rows, in the order of their offsets.
    pub rows: Vec<Run>,
    /// The topic.
    pub topic: String,
    /// The broker's name.
    pub broker: String,
    /// The queue.
    pub queue_id: i32,
    /// The offset of the first row; the other rows follow it.
    pub first_offset: i64,
}

/// Progress of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rows that were added.
    pub rows: u64,
    /// Rows that brokers acknowledged.
    pub stored: u64,
    /// The first row that no broker acknowledged; `rows` if there is none.
    pub first_missing: u64,
}

/// The rows of one task.
pub(super) struct Task {
    pub plan: Plan,
    topics: Topics,
    encoder: Encoder,
    batches: Batches,
    flight: Flight,
    pace: Pace,
    rows: u64,
    stored: u64,
    pub receipts: Vec<Receipt>,
}

impl Task {
    pub fn new(plan: Plan) -> Self {
        let pace = Pace::new(plan.rate);
        Self {
            topics: Topics::new(plan.first_queue),
            encoder: Encoder::new(&plan),
            batches: Batches::new(pace.count_max(COUNT_MAX), plan.message_bytes_max),
            flight: Flight::default(),
            pace,
            rows: 0,
            stored: 0,
            receipts: Vec::new(),
            plan,
        }
    }

    /// Encodes rows from `next` on until enough wait to be sent; returns the next row.
    pub fn add(
        &mut self,
        rows: &Rows<'_>,
        mut next: usize,
        routes: &mut dyn Routes,
    ) -> Result<usize, WriteError> {
        while next < rows.len && self.batches.has_room() {
            self.add_row(rows, next, routes)?;
            self.rows += 1;
            next += 1;
        }
        Ok(next)
    }

    fn add_row(
        &mut self,
        rows: &Rows<'_>,
        row: usize,
        routes: &mut dyn Routes,
    ) -> Result<(), WriteError> {
        let number = self.rows;
        let bad = |what| WriteError::BadRow { row: number, what };
        let named = rows.topic.and_then(|topics| topics.bytes(row));
        let named = named.filter(|name| !name.is_empty());
        let name = match named {
            Some(name) => text(name, "its topic").map_err(bad)?,
            None => self.plan.topic.as_deref().unwrap_or_default(),
        };
        if name.is_empty() {
            return Err(bad("it has no topic".to_owned()));
        }
        let topic = self.topics.number(name, routes)?;
        let keys = rows.order_key.and_then(|keys| keys.bytes(row));
        let order_key = keys.map(|key| text(key, "its order_key")).transpose();
        let known = self.topics.get(topic);
        let place = order_key.map_err(bad)?.map(|key| known.queue_of(key));
        let place = place.map_or(Place::Any, Place::Queue);
        let key = Key { topic, place };
        let is_delayed = rows.delay_level.is_some_and(|levels| levels.get(row) != 0);
        let encoder = &mut self.encoder;
        if is_delayed || is_retry_topic(&known.name) {
            let (body, kind) = encoder.single(rows, row, number).map_err(bad)?;
            let mut outgoing = Outgoing::new(key, known.name.clone(), kind);
            outgoing.body = body;
            outgoing.note(number);
            self.batches.push(outgoing);
            return Ok(());
        }
        let write = |out: &mut Vec<u8>| encoder.push_item(rows, row, number, out);
        let added = self.batches.add((key, &known.name), number, write);
        added.map_err(bad)
    }

    /// Ends the rows: makes every batch ready to be sent.
    pub fn close(&mut self) {
        self.batches.close_all();
    }

    /// Returns the next sends that may go now, with their queues: retries, or new ones.
    pub fn next_sends(&mut self, now: Instant, routes: &mut dyn Routes) -> Vec<(Attempt, Queue)> {
        let mut sends = self.flight.due(now);
        if !sends.is_empty() {
            self.topics.renew(routes);
        }
        while self.flight.has_room_beside(sends.len()) && self.pace.waits_until(now).is_none() {
            let flight = &self.flight;
            let Some(outgoing) = self.batches.take(|key| flight.may_go(key)) else {
                break;
            };
            self.pace.sent(outgoing.count, now);
            sends.push(self.flight.begin(outgoing));
        }
        let topics = &mut self.topics;
        let with_queue = |attempt: Attempt| {
            let topic = topics.get(attempt.outgoing.key.topic);
            let failed = attempt.queue.as_ref().map(|queue| &*queue.broker);
            let queue = match attempt.outgoing.key.place {
                Place::Any => topic.next(failed).clone(),
                Place::Queue(place) => topic.hashed(place).clone(),
            };
            (attempt, queue)
        };
        sends.into_iter().map(with_queue).collect()
    }

    /// Records that a send is in flight; its outcome has this token.
    pub fn sent(&mut self, token: u64, mut attempt: Attempt, queue: Queue) {
        attempt.queue = Some(queue);
        self.flight.sent(token, attempt);
    }

    /// Processes the outcome of a send; outcomes of an earlier task are ignored.
    pub fn settle(&mut self, outcome: Outcome<Sent>, now: Instant) -> Result<(), WriteError> {
        let Some(mut attempt) = self.flight.take(outcome.token) else {
            return Ok(());
        };
        match outcome.result {
            Ok(first_offset) => {
                self.store(attempt, first_offset);
                Ok(())
            }
            Err(why) => {
                let again = attempt.retry.failed(&why, now, self.plan.retry_timeout);
                self.topics.get(attempt.outgoing.key.topic).is_stale = true;
                let failed = attempt.queue.clone();
                self.flight.pause(again.unwrap_or(now), attempt);
                let queue = failed.filter(|_| again.is_none());
                queue.map_or(Ok(()), |queue| Err(failure(queue, why)))
            }
        }
    }

    fn store(&mut self, attempt: Attempt, first_offset: i64) {
        let outgoing = attempt.outgoing;
        self.flight.end(&outgoing);
        self.stored += outgoing.count;
        self.receipts.extend(attempt.queue.map(|queue| Receipt {
            rows: outgoing.rows,
            topic: outgoing.topic.to_string(),
            broker: queue.broker.to_string(),
            queue_id: queue.id,
            first_offset,
        }));
    }

    /// Time of the next step if no outcome arrives before.
    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let due = self.flight.next_due();
        due.into_iter().chain(self.pace.waits_until(now)).min()
    }

    /// Whether more rows may be added.
    pub fn has_room(&self) -> bool {
        self.batches.has_room()
    }

    /// Whether every row that was added is stored.
    pub fn is_done(&self) -> bool {
        self.batches.is_empty() && self.flight.is_empty()
    }

    /// Whether sends are in flight.
    pub fn is_awaited(&self) -> bool {
        self.flight.is_awaited()
    }

    pub fn progress(&self) -> Progress {
        let missing = [self.batches.first_row(), self.flight.first_row()];
        Progress {
            rows: self.rows,
            stored: self.stored,
            first_missing: missing.into_iter().flatten().min().unwrap_or(self.rows),
        }
    }
}

fn failure(queue: Queue, why: Why) -> WriteError {
    WriteError::Send {
        broker: queue.broker.to_string(),
        address: queue.address.to_string(),
        why,
    }
}
