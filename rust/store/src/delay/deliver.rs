//! Delivers delayed messages. The thread follows each level's queue of the schedule topic and
//! stores every message again, in its real topic, when it is due.
//!
//! Messages of one level are due in the order they were stored, so the first one that is not due
//! ends the level's turn. The thread sleeps until the earliest of these times, or until a message
//! arrives at the head of a level. Progress is one queue offset per level, kept in
//! `config/delayOffset.json`. After a crash, messages delivered since the last save are delivered
//! again, as in RocketMQ.
//!
//! RocketMQ's `enableScheduleAsyncDeliver` lets a level continue while a delivered message waits
//! for its flush or for slaves. Our delivery never waits for these, so the setting has no effect.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use super::order::Order;
use super::progress::DelayOffsets;
use super::redeliver::{Delivery, Spans, real_request};
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::entry_repair::{EntryRepair, EntryRepairer};
use crate::listeners::{AlreadyRegistered, register};
use crate::scan::record::{DamagedRecords, Place, RecordFault};
use crate::threads::signal::{Signal, Woken};
use crate::types::{Delivered, PutRequest, PutResult, PutStatus, ReadMode, StoreError};
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::delay_levels::DelayLevels;
use mq_format::message::SCHEDULE_TOPIC;
use mq_statefile::StateFiles;

/// Messages of one level per turn. If all levels have a backlog, each gets a turn every few
/// milliseconds.
const TURN_MESSAGES: usize = 512;
/// Reads of `TURN_MESSAGES` entries per turn, to find out whether the clock was set back.
const SEEN_TURNS: usize = 16;
/// Name of the delivering thread.
const THREAD: &str = "mq-delay";
/// Delay before another try, after a refused put or a failed read.
const RETRY_MS: i64 = 100;
/// After this many failed reads in a row, a message is skipped, so that it does not block its
/// level.
const READ_FAILURES_MAX: u32 = 100;
/// Longest sleep; a wall clock that is set forward is noticed after at most this time.
const SLEEP_MS_MAX: i64 = 1_000;

/// Called for each delivered message, on the delivering thread.
pub type DeliveryListener = dyn Fn(&Delivered<'_>) + Send + Sync;

/// Progress of the levels, and the signal that wakes the thread.
pub(crate) struct Delay {
    levels: DelayLevels,
    queues: Arc<ConsumeQueues>,
    clock: Arc<dyn Clock>,
    signal: Signal,
    offsets: DelayOffsets,
    /// By level; only the delivering thread uses it.
    orders: Mutex<BTreeMap<i32, Order>>,
    /// Failed reads in a row.
    read_failures: AtomicU32,
    /// Called for each delivered message.
    listener: OnceLock<Box<DeliveryListener>>,
    damaged: Arc<DamagedRecords>,
    /// Messages that the cleaner deleted before they were due.
    deleted: AtomicU64,
    repairer: Option<Arc<EntryRepairer>>,
}

/// When a level needs its next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// At once: there are more due messages.
    Now,
    /// At this time, milliseconds since the epoch.
    At(i64),
    /// When its queue grows beyond this offset.
    Beyond(i64),
}

impl Delay {
    /// Loads the progress of all levels, limited to the range of their queues. Warns about messages
    /// at levels that the table does not have.
    pub(crate) fn load(
        levels: DelayLevels,
        queues: Arc<ConsumeQueues>,
        clock: Arc<dyn Clock>,
        state: &StateFiles,
    ) -> Result<Self, StoreError> {
        let within = |level, offset| within(&queues, level, offset);
        let offsets = DelayOffsets::load(state, levels.max_level(), within)?;
        let delay = Self {
            levels,
            queues,
            clock,
            signal: Signal::default(),
            offsets,
            orders: Mutex::default(),
            read_failures: AtomicU32::new(0),
            listener: OnceLock::new(),
            damaged: Arc::default(),
            deleted: AtomicU64::new(0),
            repairer: None,
        };
        for (level, messages) in delay.stranded() {
            let levels = delay.levels.max_level();
            tracing::warn!(
                level,
                messages,
                levels,
                "delayed messages wait at a level that messageDelayLevel does not have; to deliver \
                 them, add the level again"
            );
        }
        Ok(delay)
    }

    /// Levels with messages that the table does not have, and the number of these messages.
    pub(crate) fn stranded(&self) -> Vec<(i32, i64)> {
        let is_stranded = |queue: &Arc<ConsumeQueue>| {
            queue.topic() == SCHEDULE_TOPIC && queue.queue_id() >= self.levels.max_level()
        };
        let waiting = |queue: Arc<ConsumeQueue>| {
            let level = queue.queue_id() + 1;
            let next = self.offsets.next(level).unwrap_or(0);
            (level, queue.max_offset() - next.max(queue.min_offset()))
        };
        let queues = self.queues.all().into_iter().filter(is_stranded);
        queues
            .map(waiting)
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// Counts damaged records in `damaged`, together with those that other readers find.
    pub(crate) fn counting(mut self, damaged: Arc<DamagedRecords>) -> Self {
        self.damaged = damaged;
        self
    }

    /// Repairs damaged queue entries from the log.
    pub(crate) fn repairing_with(mut self, repairer: Arc<EntryRepairer>) -> Self {
        self.repairer = Some(repairer);
        self
    }

    fn repaired(&self, place: Place<'_>) -> EntryRepair {
        let repair = |repairer: &Arc<EntryRepairer>| {
            repairer.repair(place.topic, place.queue_id, place.queue_offset)
        };
        self.repairer.as_ref().map_or(EntryRepair::No, repair)
    }

    /// Called when a message arrives in a queue of the schedule topic, which now ends at
    /// `max_offset`. Wakes the thread only if no earlier message of the level is pending.
    pub(crate) fn notify(&self, queue_id: i32, max_offset: i64) {
        let next = self.offsets.next(queue_id.saturating_add(1));
        if next.is_some_and(|next| next + 1 >= max_offset) {
            self.signal.ring();
        }
    }

    /// Registers the one listener.
    pub(crate) fn on_delivery(
        &self,
        listener: Box<DeliveryListener>,
    ) -> Result<(), AlreadyRegistered> {
        register(&self.listener, listener, "delivery-listener")
    }

    /// Reads the saved progress again: on a slave, its file comes from the master.
    pub(crate) fn reload(&self, state: &StateFiles) -> Result<(), StoreError> {
        let levels = self.levels.max_level();
        let within = |level, offset| within(&self.queues, level, offset);
        self.orders.lock().clear();
        self.offsets.reload(state, levels, within)
    }

    /// The queue of the schedule topic for a level.
    pub(crate) fn queue_of(&self, level: i32) -> i32 {
        self.levels.clamp(level) - 1
    }

    /// Saves changed offsets whose messages are durable: the log is flushed up to `flushed`.
    pub(crate) fn save(&self, state: &StateFiles, flushed: u64) -> Result<(), StoreError> {
        self.offsets.save(state, flushed.cast_signed())
    }

    /// Offset and queue end of each level of the table, from level 1.
    pub(crate) fn progress(&self) -> Vec<(i64, i64)> {
        let levels = 1..=self.levels.max_level();
        let of_level = |level| (self.offsets.next(level).unwrap_or(0), self.end(level - 1));
        levels.map(of_level).collect()
    }

    /// Messages that were deleted before they were due, since the store was opened.
    pub(crate) fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Skips, counts and logs messages that the cleaner deleted before they were due.
    pub(crate) fn skip_deleted(&self) {
        for level in self.offsets.all().into_keys() {
            if let Some(queue) = self.queues.get(SCHEDULE_TOPIC, level - 1) {
                self.skip_deleted_of(level, queue.min_offset());
            }
        }
    }

    fn skip_deleted_of(&self, level: i32, first: i64) {
        let deleted = self.offsets.advance(level, first, 0);
        if deleted > 0 {
            self.deleted.fetch_add(deleted, Ordering::Relaxed);
            tracing::error!(
                level,
                deleted,
                "deleted delayed messages with expired log files before they were due: \
                 the level's delay is longer than fileReservedTime, or the disk is nearly full"
            );
        }
    }

    fn end(&self, queue_id: i32) -> i64 {
        let queue = self.queues.get(SCHEDULE_TOPIC, queue_id);
        queue.map_or(0, |queue| queue.max_offset())
    }

    fn run(&self, delivery: &impl Delivery, services: &Services) {
        loop {
            let turn = services.round(THREAD, || self.deliver_due(delivery));
            // After a panic the state of the turn is unknown, so try again later.
            let next = turn.unwrap_or_else(|_| vec![Next::At(self.clock.wall_ms() + RETRY_MS)]);
            let sleep_ms = self.sleep_ms(&next);
            let sleep = Duration::from_millis(sleep_ms.unsigned_abs());
            // With no time to sleep, only check for a stop.
            let is_news = || sleep.is_zero() || self.has_arrivals(&next);
            if self.signal.wait(Some(sleep), is_news) == Woken::Stop {
                return;
            }
        }
    }

    /// Time until the next turn if nothing arrives.
    pub(crate) fn sleep_ms(&self, next: &[Next]) -> i64 {
        let now_ms = self.clock.wall_ms();
        let sleep_ms = next.iter().map(|next| match next {
            Next::Now => 0,
            Next::At(at_ms) => at_ms - now_ms,
            Next::Beyond(_) => SLEEP_MS_MAX,
        });
        let first_ms = sleep_ms.min().unwrap_or(SLEEP_MS_MAX);
        first_ms.clamp(0, SLEEP_MS_MAX)
    }

    /// Whether a queue that had no more entries has new ones.
    fn has_arrivals(&self, next: &[Next]) -> bool {
        let has_grown = |(queue_id, next): (i32, &Next)| match next {
            Next::Beyond(offset) => self.end(queue_id) > *offset,
            Next::Now | Next::At(_) => false,
        };
        (0..).zip(next).any(has_grown)
    }

    /// Gives each level one turn.
    pub(crate) fn deliver_due(&self, delivery: &impl Delivery) -> Vec<Next> {
        (1..=self.levels.max_level())
            .map(|level| self.deliver_level(level, delivery))
            .collect()
    }

    fn deliver_level(&self, level: i32, delivery: &impl Delivery) -> Next {
        let Some(queue) = self.queues.get(SCHEDULE_TOPIC, level - 1) else {
            return Next::Beyond(self.offsets.next(level).unwrap_or(0));
        };
        self.skip_deleted_of(level, queue.min_offset());
        let offset = self.offsets.next(level).unwrap_or(0);
        let now_ms = self.clock.wall_ms();
        let (entries, next) = match self.due(level, &queue, offset, now_ms, delivery) {
            Ok(due) => due,
            Err(retry) => return retry,
        };
        let mut spans = Spans::new(&entries);
        for (offset, entry) in (offset..).zip(&entries) {
            let place = waiting_at(level - 1, offset);
            let Some(log_end) = self.deliver(place, entry, &mut spans, delivery) else {
                return Next::At(now_ms + RETRY_MS);
            };
            self.offsets.advance(level, offset + 1, log_end);
        }
        next
    }

    /// The due entries from `offset` on, and the time of the next turn. Err if the queue cannot be
    /// read.
    fn due(
        &self,
        level: i32,
        queue: &ConsumeQueue,
        offset: i64,
        now_ms: i64,
        delivery: &impl Delivery,
    ) -> Result<(Vec<QueueEntry>, Next), Next> {
        if offset >= queue.max_offset() {
            return Ok((Vec::new(), Next::Beyond(offset)));
        }
        let mut entry_bytes = Vec::with_capacity(TURN_MESSAGES * ENTRY_BYTES);
        let read = queue.read(
            offset,
            TURN_MESSAGES * ENTRY_BYTES,
            ReadMode::Wait,
            &mut entry_bytes,
        );
        if !matches!(read, Ok(true)) || entry_bytes.is_empty() {
            return Err(Next::At(now_ms + SLEEP_MS_MAX));
        }
        let mut orders = self.orders.lock();
        let order = orders.entry(level).or_default();
        see(order, queue, offset);
        let mut codes = queue.tags_codes(ReadMode::Wait);
        let mut due = Vec::with_capacity(entry_bytes.len() / ENTRY_BYTES);
        for (offset, mut entry) in (offset..).zip(QueueEntry::decode_all(&entry_bytes)) {
            if !entry.is_used() {
                match self.repaired(waiting_at(level - 1, offset)) {
                    EntryRepair::Entry(right) => entry = right,
                    EntryRepair::Later => return Ok((due, Next::At(now_ms + RETRY_MS))),
                    EntryRepair::No => {}
                }
            }
            // A hole holds no message; pass it at once.
            let due_ms = if entry.is_hole() {
                now_ms
            } else if let Ok(Some(code)) = codes.tags_code(&entry) {
                let due_ms = order.due_ms(offset, code);
                self.levels.believed_due_ms(level, due_ms, now_ms)
            } else {
                // The extension is damaged. Compute the due time from the record's store time.
                let place = waiting_at(level - 1, offset);
                self.due_by_record((level, place), &entry, now_ms, delivery)
            };
            if due_ms > now_ms {
                return Ok((due, Next::At(due_ms)));
            }
            due.push(entry);
        }
        Ok((due, Next::Now))
    }

    fn due_by_record(
        &self,
        (level, place): (i32, Place<'_>),
        entry: &QueueEntry,
        now_ms: i64,
        delivery: &impl Delivery,
    ) -> i64 {
        let mut spans = Spans::new(std::slice::from_ref(entry));
        match spans.record(entry, place, delivery) {
            Ok(Ok(record)) => self.levels.deliver_at_ms(level, record.store_timestamp_ms),
            _ => now_ms,
        }
    }

    /// Stores a message in its real topic. Returns its end in the log, 0 if it cannot be delivered
    /// and is skipped, or None if delivery must be tried again.
    fn deliver(
        &self,
        place: Place<'_>,
        entry: &QueueEntry,
        spans: &mut Spans<'_>,
        delivery: &impl Delivery,
    ) -> Option<i64> {
        let offset = entry.physical_offset;
        if entry.is_hole() {
            return Some(0);
        }
        let record = match spans.record(entry, place, delivery) {
            Ok(record) => record,
            Err(error) => return self.read_failed(offset, &error),
        };
        self.read_failures.store(0, Ordering::Relaxed);
        if record.is_err() {
            match self.repaired(place) {
                EntryRepair::Entry(right) if right != *entry => {
                    let mut spans = Spans::new(std::slice::from_ref(&right));
                    return self.deliver(place, &right, &mut spans, delivery);
                }
                EntryRepair::Later => return None,
                EntryRepair::Entry(_) | EntryRepair::No => {}
            }
        }
        let record = match record {
            Ok(record) => record,
            Err(RecordFault::Short { .. }) => {
                tracing::error!(offset, "skipped a delayed message: its record is gone");
                return Some(0);
            }
            Err(wrong) => {
                self.damaged.note(offset, Some(place), wrong);
                return Some(0);
            }
        };
        let put = |request: &PutRequest<'_>| {
            let result = delivery.put(request);
            self.report(place.queue_id, request.topic, &result);
            result
        };
        let Some(result) = real_request(&record, put) else {
            tracing::warn!(offset, "skipped a delayed message: it has no real topic");
            return Some(0);
        };
        outcome(offset, &result)
    }

    fn report(&self, queue_id: i32, topic: &str, result: &PutResult) {
        let is_stored = result.status.is_stored();
        if let Some(listener) = self.listener.get().filter(|_| is_stored) {
            listener(&Delivered {
                queue_id,
                topic,
                size_bytes: usize::try_from(result.size_bytes).unwrap_or(0),
            });
        }
    }

    fn read_failed(&self, offset: i64, error: &io::Error) -> Option<i64> {
        let failures = self.read_failures.fetch_add(1, Ordering::Relaxed);
        let is_final = failures >= READ_FAILURES_MAX;
        tracing::error!(offset, %error, is_skipped = is_final, "cannot read a delayed message");
        is_final.then_some(0)
    }
}

/// Notes the due times of new entries in a level's queue. Entries from `next` on are pending.
fn see(order: &mut Order, queue: &ConsumeQueue, next: i64) {
    let mut entry_bytes = Vec::new();
    for _ in 0..SEEN_TURNS {
        let from = order.unseen(next);
        if from >= queue.max_offset() {
            return;
        }
        entry_bytes.clear();
        let bytes = TURN_MESSAGES * ENTRY_BYTES;
        let read = queue.read(from, bytes, ReadMode::Wait, &mut entry_bytes);
        if !matches!(read, Ok(true)) || entry_bytes.is_empty() {
            return;
        }
        let mut codes = queue.tags_codes(ReadMode::Wait);
        for (offset, entry) in (from..).zip(QueueEntry::decode_all(&entry_bytes)) {
            let code = match entry.is_hole() {
                true => None,
                false => codes.tags_code(&entry).ok().flatten(),
            };
            order.see(offset, code);
        }
    }
}

/// The queue position of a pending message.
fn waiting_at(queue_id: i32, queue_offset: i64) -> Place<'static> {
    Place {
        topic: SCHEDULE_TOPIC,
        queue_id,
        queue_offset,
    }
}

/// The progress of a level, limited to its queue; `offset` is None if the file lacks the level.
fn within(queues: &ConsumeQueues, level: i32, offset: Option<i64>) -> i64 {
    let queue = queues.get(SCHEDULE_TOPIC, level - 1);
    let range = queue.map_or((0, 0), |queue| (queue.min_offset(), queue.max_offset()));
    offset.map_or(range.0, |offset| offset.min(range.1))
}

/// The end of the message in the log; 0 if it is dropped, None if delivery must be tried again.
fn outcome(offset: i64, result: &PutResult) -> Option<i64> {
    match result.status {
        // Another try cannot succeed. RocketMQ would retry forever and block the level.
        PutStatus::MessageIllegal | PutStatus::PropertiesSizeExceeded | PutStatus::UnknownError => {
            tracing::error!(offset, status = ?result.status, "dropped a delayed message");
            Some(0)
        }
        PutStatus::Ok
        | PutStatus::FlushDiskTimeout
        | PutStatus::FlushSlaveTimeout
        | PutStatus::SlaveNotAvailable => {
            Some(result.physical_offset + i64::from(result.size_bytes))
        }
        PutStatus::CreateMappedFileFailed
        | PutStatus::ServiceNotAvailable
        | PutStatus::OsPageCacheBusy
        | PutStatus::LmqConsumeQueueNumExceeded => None,
    }
}

/// The delivering thread. Dropping stops it.
pub(crate) struct DelayThread {
    delay: Arc<Delay>,
    thread: Option<JoinHandle<()>>,
}

impl DelayThread {
    /// Starts delivering.
    pub(crate) fn start(
        delay: Arc<Delay>,
        delivery: impl Delivery,
        services: &Arc<Services>,
    ) -> io::Result<Self> {
        delay.signal.resume();
        let (seen, services) = (Arc::clone(&delay), Arc::clone(services));
        let run = move || seen.run(&delivery, &services);
        let thread = Some(thread::Builder::new().name(THREAD.into()).spawn(run)?);
        Ok(Self { delay, thread })
    }
}

impl Drop for DelayThread {
    fn drop(&mut self) {
        self.delay.signal.stop();
        if let Some(thread) = self.thread.take() {
            // The join cannot fail: `Services::round` catches panics.
            let _ = thread.join();
        }
    }
}
