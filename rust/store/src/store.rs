//! The only public type: an open store.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clean::cleaner::Cleaner;
use crate::delay::deliver::DeliveryListener;
use crate::derive::arrivals::ArrivalListener;
use crate::derive::derived_files::DerivedFiles;
use crate::derive::dispatch::BitmapSource;
use crate::derive::dispatch_thread::Dispatcher;
use crate::directory::deleted::is_deletable;
use crate::listeners::{AlreadyRegistered, Listener};
use crate::positions::Positions;
use crate::read::reader::Reader;
use crate::running::Running;
use crate::settings::{Cleaning, Settings};
use crate::state::transactions::Transactions;
use crate::stats::latency::Latency;
use crate::stats::rates::Rates;
use crate::threads::signal::IsAwaited;
use crate::types::{
    AckOutcome, Cleaned, GetRequest, GetResult, Put, PutRequest, PutResult, QueryResult, ReadMode,
    StoreError, Ticket, WouldBlock,
};
use crate::upkeep::Upkeep;
use crate::write::ack::SettledListener;
use crate::write::put::Puts;
use mq_base::clock::Clock;
use mq_base::services::{Failures, Services};
use mq_format::consume_queue::QueueEntry;
use mq_log::Segments;
use mq_statefile::Aside;

/// Most time that the pauses of an operator's cleaning take together.
const CLEAN_PAUSES_MAX: Duration = Duration::from_secs(5);

/// An open store directory: one writer, any number of readers.
pub struct Store {
    pub(crate) root: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<Segments>,
    pub(crate) puts: Arc<Puts>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) derived: Arc<DerivedFiles>,
    pub(crate) positions: Arc<Positions>,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) cleaner: Arc<Cleaner>,
    pub(crate) put_latency: Latency,
    pub(crate) get_latency: Latency,
    pub(crate) rates: Arc<Rates>,
    /// Which transactions have ended.
    pub(crate) transactions: Transactions,
    /// Damaged ranges of the log that recovery repaired.
    pub(crate) repaired: usize,
    pub(crate) on_arrival: Arc<Listener<ArrivalListener>>,
    /// Failures of the store's threads.
    pub(crate) services: Arc<Services>,
    /// None after a close.
    pub(crate) running: Mutex<Option<Running>>,
}

impl Store {
    /// Appends one message. Waits at most 5 s for a log file that a slow disk has not created yet.
    pub fn put(&self, request: &PutRequest<'_>) -> Put {
        self.put_latency.time(|| self.puts.one(request))
    }

    /// Like [`Store::put`], but returns None without appending if it would wait.
    pub fn try_put(&self, request: &PutRequest<'_>) -> Option<Put> {
        self.put_latency.time(|| self.puts.try_one(request))
    }

    /// Like [`Store::put_batch`], but returns None without appending if it would wait.
    pub fn try_put_batch(&self, request: &PutRequest<'_>) -> Option<Put> {
        self.put_latency.time(|| self.puts.try_batch(request))
    }

    /// Appends a batch body (`MessageDecoder.encodeMessages`) as consecutive records, all or none.
    /// Waits like [`Store::put`].
    pub fn put_batch(&self, request: &PutRequest<'_>) -> Put {
        self.put_latency.time(|| self.puts.batch(request))
    }

    /// Returns the outcome if the ticket is settled already. Otherwise the listener of
    /// [`Store::on_settled`] gets `token` exactly once: when the ticket's watermark passes, at its
    /// deadline, or when the store is poisoned. That may be before this call returns.
    pub fn park(&self, ticket: Ticket, token: u64) -> Option<AckOutcome> {
        self.puts.flusher.acks.park(ticket, token)
    }

    /// Registers the listener for settled puts. It gets those of one flush together, on the thread
    /// that flushed, which holds no lock.
    pub fn on_settled(&self, listener: Box<SettledListener>) -> Result<(), AlreadyRegistered> {
        let acks = &self.puts.flusher.acks;
        acks.on_settled.register(listener, &self.services)
    }

    /// Blocks until the put is as durable as configured; returns its final result.
    pub fn wait(&self, put: Put) -> PutResult {
        self.puts.wait(put)
    }

    /// Reads messages of one queue, appending whole records to `out`.
    pub fn get(
        &self,
        request: &GetRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<GetResult, WouldBlock> {
        let result = self.get_latency.time(|| self.reader.get(request, out))?;
        self.rates.count(&result);
        Ok(result)
    }

    /// The record that starts at a physical offset; None if there is none.
    pub fn get_at(
        &self,
        physical_offset: i64,
        mode: ReadMode,
    ) -> Result<Option<Vec<u8>>, WouldBlock> {
        self.reader.get_at(physical_offset, mode)
    }

    /// Records with the index key `topic#key`, newest files first. Blocks on the disk.
    pub fn query(
        &self,
        topic: &str,
        key: &str,
        max_count: i32,
        begin_ms: i64,
        end_ms: i64,
        out: &mut Vec<u8>,
    ) -> QueryResult {
        self.reader
            .query(topic, key, max_count, begin_ms, end_ms, out)
    }

    /// First readable offset of a queue; 0 if the queue is unknown.
    pub fn min_offset(&self, topic: &str, queue_id: i32) -> i64 {
        self.reader.min_offset(topic, queue_id)
    }

    /// One past the last offset of a queue; 0 if the queue is unknown.
    pub fn max_offset(&self, topic: &str, queue_id: i32) -> i64 {
        self.reader.max_offset(topic, queue_id)
    }

    /// The queue offset for a store time, like `ConsumeQueue.getOffsetInQueueByTime`. Blocks on the
    /// disk.
    pub fn offset_by_time(&self, topic: &str, queue_id: i32, timestamp_ms: i64) -> i64 {
        self.reader.offset_by_time(topic, queue_id, timestamp_ms)
    }

    /// Store time of the message at an offset; -1 if there is none. Blocks on the disk.
    pub fn store_time_at(&self, topic: &str, queue_id: i32, offset: i64) -> i64 {
        self.reader.store_time_at(topic, queue_id, offset)
    }

    /// At most `count` entries of a queue from `offset` on. Blocks on the disk.
    pub fn entries(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        count: usize,
    ) -> Vec<QueueEntry> {
        self.reader.entries(topic, queue_id, offset, count)
    }

    /// Whether RocketMQ would count the message at this queue offset as on disk only.
    pub fn is_on_disk(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        self.reader.is_on_disk(topic, queue_id, offset)
    }

    /// Start of the log, bytes.
    pub fn min_physical_offset(&self) -> i64 {
        self.log.min_offset().cast_signed()
    }

    /// End of the log, bytes.
    pub fn max_physical_offset(&self) -> i64 {
        self.log.max_offset().cast_signed()
    }

    /// Store times of the first and the last message, milliseconds since the epoch; None for an
    /// empty log. Blocks on the disk.
    pub fn store_time_range(&self) -> Option<(i64, i64)> {
        let first_ms = self.reader.stored_ms(self.min_physical_offset())?;
        let last_ms = &self.puts.flusher.last_store_timestamp_ms;
        Some((first_ms, last_ms.load(Ordering::Acquire)))
    }

    /// The ended transactions: those of this run, and those noted from the log.
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// The committed offset of a group in a queue.
    pub fn committed(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.positions.offsets.get(group, topic, queue_id)
    }

    /// Commits an offset in memory; it is saved on the interval and at close. False if this would
    /// be the group's first offset in this queue and all groups together have `entries_max`
    /// offsets.
    pub fn commit(
        &self,
        group: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
        entries_max: usize,
    ) -> bool {
        let offsets = &self.positions.offsets;
        offsets.commit(group, topic, queue_id, offset, entries_max)
    }

    /// All committed offsets: topic@group to queue to offset.
    pub fn committed_all(&self) -> BTreeMap<String, BTreeMap<i32, i64>> {
        self.positions.offsets.all()
    }

    /// The committed offsets of a group: topic to queue to offset.
    pub fn committed_of_group(&self, group: &str) -> BTreeMap<String, BTreeMap<i32, i64>> {
        self.positions.offsets.of_group(group)
    }

    /// Resets a group to another offset of a queue. The group's next pull is answered with
    /// OFFSET_RESET; its commits until then have no effect.
    pub fn reset_offset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.positions.offsets.reset(group, topic, queue_id, offset);
    }

    /// After a reset, the reply to the group's next pull instead of messages; returned once.
    pub fn take_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<GetResult> {
        let offset = self.positions.offsets.take_reset(group, topic, queue_id)?;
        Some(self.reader.reset_to(topic, queue_id, offset))
    }

    /// Copies the offsets of one group in a topic to another; returns the number of queues.
    pub fn clone_offsets(&self, from_group: &str, to_group: &str, topic: &str) -> usize {
        let offsets = &self.positions.offsets;
        offsets.clone_group(from_group, to_group, topic)
    }

    /// Removes the committed offsets of a group, in one topic or in all; returns the number of
    /// removed offsets.
    pub fn remove_group(&self, group: &str, topic: Option<&str>) -> usize {
        self.positions.offsets.remove(group, topic)
    }

    /// Deletes the committed offset of a group in one queue; returns whether there was one.
    pub fn remove_offset(&self, group: &str, topic: &str, queue_id: i32) -> bool {
        self.positions.offsets.remove_queue(group, topic, queue_id)
    }

    /// Replaces `config/{name}` atomically and keeps the previous copy as .bak.
    pub fn save_state(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        Ok(self.positions.state.save(name, bytes)?)
    }

    /// Reads `config/{name}`, or its .bak if it is missing or damaged.
    pub fn load_state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.positions.state.load(name, |_| true)?)
    }

    /// Like [`Store::load_state`]; `check` converts the bytes, or returns their fault.
    pub fn load_checked_state<T>(
        &self,
        name: &str,
        check: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.positions.state.load_checked(name, check)?)
    }

    /// Whether the last load of `config/{name}` used its .bak.
    pub fn is_state_from_copy(&self, name: &str) -> bool {
        self.positions.state.is_from_copy(name)
    }

    /// Keeps and logs unusable entries of a state file.
    pub fn set_state_aside(&self, name: &str, entries: &[Aside]) {
        self.positions.state.set_aside(name, entries);
    }

    /// The consume queues of all topics that are not deleted, by topic. Shows the number of queues
    /// of a topic that no topic table has.
    pub fn queues(&self) -> BTreeMap<String, Vec<i32>> {
        let mut found = BTreeMap::<String, Vec<i32>>::new();
        let queues = &self.derived.queues;
        let queues = queues
            .all()
            .into_iter()
            .filter(|queue| !queues.is_emptied(queue));
        for queue in queues {
            let ids = found.entry(queue.topic().to_owned()).or_default();
            ids.push(queue.queue_id());
        }
        found
    }

    /// Registers the listener for new readable messages, which it gets in log order.
    pub fn on_arrival(&self, listener: Box<ArrivalListener>) -> Result<(), AlreadyRegistered> {
        self.on_arrival.register(listener, &self.services)
    }

    /// Registers the listener for delivered delayed messages.
    pub fn on_delivery(&self, listener: Box<DeliveryListener>) -> Result<(), AlreadyRegistered> {
        self.positions.delay.on_delivery(listener)
    }

    /// The queue of the schedule topic for a delay level.
    pub fn delay_queue(&self, level: i32) -> i32 {
        self.positions.delay.queue_of(level)
    }

    /// Registers a function that tells whether a reader waits for new messages. While none does,
    /// new messages may become readable up to 1 ms later, which saves CPU time.
    pub fn set_awaited(&self, is_awaited: Box<IsAwaited>) -> Result<(), AlreadyRegistered> {
        let appended = &self.puts.flusher.appended;
        appended.set_awaited(is_awaited, &self.services)
    }

    /// Notifies the store that a reader has begun to wait.
    pub fn hurry(&self) {
        self.puts.flusher.appended.hurry();
    }

    /// Registers the source of the filter bitmaps in the consume-queue extension; None means no
    /// bitmap. The dispatcher calls it in log order.
    pub fn set_bitmap_source(&self, source: Box<BitmapSource>) -> Result<(), AlreadyRegistered> {
        self.dispatcher.bitmaps.register(source, &self.services)
    }

    /// Milliseconds since the current owner took the put lock, or since puts began to wait for a
    /// log file on a slow disk; 0 if the lock is free.
    pub fn lock_held_ms(&self) -> i64 {
        self.puts.appender.lock_held_ms()
    }

    /// Why the store refuses puts: it is poisoned, it is no master, or the disk is full.
    pub fn refusal(&self) -> Option<String> {
        let poison = self.puts.flusher.acks.poison().map(str::to_owned);
        let of_role = || self.puts.appender.role().refusal().map(str::to_owned);
        let reason = poison.or_else(of_role);
        reason.or_else(|| self.puts.flusher.space.refusal())
    }

    /// Threads of the store that have failed. Failures that poison the store are only in
    /// [`Store::refusal`].
    pub fn failures(&self) -> BTreeMap<&'static str, Failures> {
        self.services.all()
    }

    /// Deletes expired files, or more if the disk is nearly full, but at most ten log files.
    /// Ignores the configured hour. Returns the numbers of deleted files. Blocks on the disk, and
    /// for the pauses between deletions, together at most 5 s: the cleaning thread deletes the rest
    /// of the queues' files. A read-only store deletes nothing.
    pub fn clean(&self) -> Cleaned {
        if !self.puts.appender.role().changes_log() {
            return Cleaned::default();
        }
        let left = Cell::new(CLEAN_PAUSES_MAX);
        self.cleaner
            .run_now(&|time| match left.get().checked_sub(time) {
                Some(after) => {
                    left.set(after);
                    thread::sleep(time);
                    true
                }
                None => false,
            })
    }

    /// Changes the cleaning settings from the next run on.
    pub fn set_cleaning(&self, settings: &Cleaning) -> Result<(), StoreError> {
        self.cleaner.set(settings)
    }

    /// RocketMQ's DELETE_EXPIRED_COMMITLOG: the next 20 runs of the cleaning thread ignore the
    /// configured hour, and the first one starts now.
    pub fn clean_soon(&self) {
        self.cleaner.ask();
        if let Some(running) = &*self.running.lock() {
            running.clean_now();
        }
    }

    /// RocketMQ's CLEAN_EXPIRED_CONSUMEQUEUE: deletes files of queues and index whose messages are
    /// all expired. A read-only store deletes nothing. Blocks on the disk.
    pub fn clean_expired_queues(&self) -> Cleaned {
        if !self.puts.appender.role().changes_log() {
            return Cleaned::default();
        }
        self.cleaner.clean_queues()
    }

    /// RocketMQ's CLEAN_UNUSED_TOPIC: deletes the messages of all topics except these, like
    /// [`Store::delete_topic`].
    pub fn clean_unused_topics(&self, topics: &HashSet<String>) -> Result<Cleaned, StoreError> {
        self.delete(|topic| !topics.contains(topic))
    }

    /// Deletes the messages of a topic durably. If the topic is created again, its queues continue
    /// with the same offsets. Messages of system topics are not deleted. Blocks on the disk.
    pub fn delete_topic(&self, topic: &str) -> Result<Cleaned, StoreError> {
        self.delete(|other| other == topic)
    }

    fn delete(&self, is_unwanted: impl Fn(&str) -> bool) -> Result<Cleaned, StoreError> {
        if !self.puts.appender.role().changes_log() {
            return Err(StoreError::Forbidden("a read-only store deletes nothing"));
        }
        let is_deleted = |topic: &str| is_deletable(topic) && is_unwanted(topic);
        let topics = self.puts.appender.deletions(is_deleted);
        if topics.is_empty() {
            return Ok(Cleaned::default());
        }
        // Flush first. If a power loss truncated the log, new messages would get positions of
        // deleted ones.
        self.flush_log()?;
        self.cleaner.delete(topics)
    }

    /// Flushes everything appended so far: log, derived files and offsets.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.flush_log()?;
        self.derived.flush()?;
        self.positions.save()
    }

    pub(crate) fn flush_log(&self) -> Result<(), StoreError> {
        if self.puts.flusher.flush_all() {
            return Ok(());
        }
        Err(match self.puts.flusher.acks.poison() {
            Some(reason) => StoreError::Poisoned(reason.to_owned()),
            None => StoreError::Full {
                path: self.root.join("commitlog").display().to_string(),
                source: io::Error::other(self.refusal().unwrap_or_default()),
            },
        })
    }
}
