//! The only public type: an open store.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clean::cleaner::Cleaner;
use crate::delay::deliver::{DelayThread, DeliveryListener};
use crate::derive::arrivals::{Arrivals, Listener};
use crate::derive::dispatch::BitmapSource;
use crate::derive::follow::Dispatcher;
use crate::directory::deleted::is_deletable;
use crate::directory::layout;
use crate::directory::lock::StoreLock;
use crate::files::{io_error, sync_directory};
use crate::latency::Latency;
use crate::read::reader::Reader;
use crate::settings::Cleaning;
use crate::state::aside::Aside;
use crate::state::transactions::Transactions;
use crate::threads::periodic::Periodic;
use crate::types::{
    AckOutcome, Cleaned, GetRequest, GetResult, Put, PutRequest, PutResult, QueryResult, ReadMode,
    StoreError, Ticket, WouldBlock,
};
use crate::upkeep::Upkeep;
use crate::write::flush::FlushThreads;
use crate::write::put::Puts;
use mq_base::services::{Failures, Services};
use mq_format::consume_queue::QueueEntry;
use mq_log::{Allocator, Segments, fs};

/// An open store directory: one writer, any number of readers.
pub struct Store {
    pub(crate) root: PathBuf,
    pub(crate) log: Arc<Segments>,
    pub(crate) puts: Arc<Puts>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) cleaner: Arc<Cleaner>,
    pub(crate) put_latency: Latency,
    pub(crate) get_latency: Latency,
    /// Which transactions are ended.
    pub(crate) transactions: Transactions,
    /// Damaged ranges of the log that recovery healed.
    pub(crate) healed: usize,
    pub(crate) listener: Arc<OnceLock<Listener>>,
    /// Its threads, as far as they failed.
    pub(crate) services: Arc<Services>,
    /// None once closed.
    pub(crate) running: Mutex<Option<Running>>,
}

/// What ends at close.
pub(crate) struct Running {
    pub(crate) delay: DelayThread,
    pub(crate) flush: FlushThreads,
    pub(crate) upkeep: Periodic,
    pub(crate) cleaning: Periodic,
    pub(crate) allocator: Allocator,
    pub(crate) lock: StoreLock,
}

impl Store {
    /// Appends one message. Waits for a file that a slow disk has yet to make, at most 5 s.
    pub fn put(&self, request: &PutRequest<'_>) -> Put {
        self.put_latency.time(|| self.puts.one(request))
    }

    /// As [`Store::put`], but None, and nothing is appended, where it would wait.
    pub fn try_put(&self, request: &PutRequest<'_>) -> Option<Put> {
        self.put_latency.time(|| self.puts.try_one(request))
    }

    /// As [`Store::put_batch`], but None, and nothing is appended, where it would wait.
    pub fn try_put_batch(&self, request: &PutRequest<'_>) -> Option<Put> {
        self.put_latency.time(|| self.puts.try_batch(request))
    }

    /// Appends a batch body (`MessageDecoder.encodeMessages`) as consecutive records, all or
    /// none. Waits as [`Store::put`] does.
    pub fn put_batch(&self, request: &PutRequest<'_>) -> Put {
        self.put_latency.time(|| self.puts.batch(request))
    }

    /// Calls `reply` exactly once, when the ticket's watermark passes, at its deadline, or at once.
    pub fn park(&self, ticket: Ticket, reply: Box<dyn FnOnce(AckOutcome) + Send>) {
        self.puts.flusher.acks.park(ticket, reply);
    }

    /// Blocks until the put is as durable as configured; gives its final result.
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
        self.upkeep.rates.count(&result);
        Ok(result)
    }

    /// The record that starts at a physical offset, or None.
    pub fn get_at(
        &self,
        physical_offset: i64,
        mode: ReadMode,
    ) -> Result<Option<Vec<u8>>, WouldBlock> {
        self.reader.get_at(physical_offset, mode)
    }

    /// Records whose index key is `topic#key`, newest files first (blocks on disk).
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

    /// First readable offset of a queue (0 when unknown).
    pub fn min_offset(&self, topic: &str, queue_id: i32) -> i64 {
        self.reader.min_offset(topic, queue_id)
    }

    /// One past the last offset of a queue (0 when unknown).
    pub fn max_offset(&self, topic: &str, queue_id: i32) -> i64 {
        self.reader.max_offset(topic, queue_id)
    }

    /// The offset by store time, as `ConsumeQueue.getOffsetInQueueByTime`. Blocks on disk.
    pub fn offset_by_time(&self, topic: &str, queue_id: i32, timestamp_ms: i64) -> i64 {
        self.reader.offset_by_time(topic, queue_id, timestamp_ms)
    }

    /// Store time of the message at an offset, -1 if there is none (blocks on disk).
    pub fn store_time_at(&self, topic: &str, queue_id: i32, offset: i64) -> i64 {
        self.reader.store_time_at(topic, queue_id, offset)
    }

    /// The entries of a queue from `offset` on, at most `count`. Blocks on the disk.
    pub fn entries(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        count: usize,
    ) -> Vec<QueueEntry> {
        self.reader.entries(topic, queue_id, offset, count)
    }

    /// Whether the message at this queue offset lies beyond what RocketMQ deems in memory.
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

    /// When the first and the last message of the log were stored, milliseconds since the epoch;
    /// None for an empty log (blocks on disk).
    pub fn store_time_range(&self) -> Option<(i64, i64)> {
        let first_ms = self.reader.stored_ms(self.min_physical_offset())?;
        let last_ms = &self.puts.flusher.last_store_timestamp_ms;
        Some((first_ms, last_ms.load(Ordering::Acquire)))
    }

    /// Which transactions are ended: those of this run of the store, and what was noted of others.
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// The committed offset of a group in a queue.
    pub fn committed(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.upkeep.offsets.get(group, topic, queue_id)
    }

    /// Commits an offset (in memory; persisted on the interval and at close). False if it would be
    /// the group's first in this queue and there are `entries_max` offsets of all groups already.
    pub fn commit(
        &self,
        group: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
        entries_max: usize,
    ) -> bool {
        let offsets = &self.upkeep.offsets;
        offsets.commit(group, topic, queue_id, offset, entries_max)
    }

    /// Every committed offset: topic@group -> queue -> offset.
    pub fn committed_all(&self) -> BTreeMap<String, BTreeMap<i32, i64>> {
        self.upkeep.offsets.all()
    }

    /// The committed offsets of a group: topic to queue to offset.
    pub fn committed_of_group(&self, group: &str) -> BTreeMap<String, BTreeMap<i32, i64>> {
        self.upkeep.offsets.of_group(group)
    }

    /// Moves a group to another offset of a queue: its next pull there is answered OFFSET_RESET,
    /// and what it commits until then is without effect.
    pub fn reset_offset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.upkeep.offsets.reset(group, topic, queue_id, offset);
    }

    /// What a group's pull must be answered instead of messages, once after a reset.
    pub fn take_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<GetResult> {
        let offset = self.upkeep.offsets.take_reset(group, topic, queue_id)?;
        Some(self.reader.reset_to(topic, queue_id, offset))
    }

    /// Gives a group the offsets that another has in a topic; returns in how many queues.
    pub fn clone_offsets(&self, from_group: &str, to_group: &str, topic: &str) -> usize {
        let offsets = &self.upkeep.offsets;
        offsets.clone_group(from_group, to_group, topic)
    }

    /// Forgets the committed offsets of a group, in one topic or in all; returns how many queues
    /// had one.
    pub fn remove_group(&self, group: &str, topic: Option<&str>) -> usize {
        self.upkeep.offsets.remove(group, topic)
    }

    /// Writes `config/{name}` atomically, the previous copy kept as .bak.
    pub fn save_state(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.upkeep.state.save(name, bytes)
    }

    /// Reads `config/{name}`, or its .bak when it is missing or damaged.
    pub fn load_state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.upkeep.state.load(name, |_| true)
    }

    /// As [`Store::load_state`]; `check` makes of the bytes what is wanted, or says what is wrong.
    pub fn load_checked_state<T>(
        &self,
        name: &str,
        check: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        self.upkeep.state.load_checked(name, check)
    }

    /// Whether the last load of `config/{name}` had to use its .bak.
    pub fn is_state_from_copy(&self, name: &str) -> bool {
        self.upkeep.state.is_from_copy(name)
    }

    /// Keeps entries of a state file that cannot be used, and logs them.
    pub fn set_state_aside(&self, name: &str, entries: &[Aside]) {
        self.upkeep.state.set_aside(name, entries);
    }

    /// Every consume queue that is not of a deleted topic, by topic: how many a topic had, where
    /// nothing else says so.
    pub fn queues(&self) -> BTreeMap<String, Vec<i32>> {
        let mut found = BTreeMap::<String, Vec<i32>>::new();
        let queues = &self.upkeep.queues;
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

    /// Registers the one listener told of messages that became readable, in order.
    pub fn on_arrival(&self, listener: Box<dyn Fn(&Arrivals<'_>) + Send + Sync>) {
        // One server owns the store; a second registration is a mistake without effect.
        let _ = self.listener.set(listener);
    }

    /// Registers the one listener told of each delayed message that was delivered.
    pub fn on_delivery(&self, listener: DeliveryListener) {
        self.upkeep.delay.on_delivery(listener);
    }

    /// The queue of the schedule topic where messages of a delay level wait.
    pub fn delay_queue(&self, level: i32) -> i32 {
        self.upkeep.delay.queue_of(level)
    }

    /// Registers the one way to know whether a reader waits for a message: while none does, what is
    /// stored may become readable a millisecond later, which costs less.
    pub fn set_awaited(&self, is_awaited: Box<dyn Fn() -> bool + Send + Sync>) {
        self.puts.flusher.appended.set_awaited(is_awaited);
    }

    /// Says that a reader has begun to wait.
    pub fn hurry(&self) {
        self.puts.flusher.appended.hurry();
    }

    /// Registers the one source of the filter bitmaps that the consume-queue extension keeps; a
    /// message gets none where it answers None. Called by the dispatcher, in log order.
    pub fn set_bitmap_source(&self, source: BitmapSource) {
        self.dispatcher.set_bitmap_source(source);
    }

    /// Milliseconds the put lock has been held by its present owner, or puts have waited for a file
    /// that a slow disk has yet to make; 0 when free.
    pub fn lock_held_ms(&self) -> i64 {
        self.puts.appender.lock_held_ms()
    }

    /// Why the store accepts no more puts: poisoned, or the disk is full.
    pub fn refusal(&self) -> Option<String> {
        let poison = self.puts.flusher.acks.poison().map(str::to_owned);
        poison.or_else(|| self.upkeep.space.refusal())
    }

    /// Threads of the store that have failed; those whose failure stops the store are told by
    /// [`Store::refusal`] alone.
    pub fn failures(&self) -> BTreeMap<&'static str, Failures> {
        self.services.all()
    }

    /// Deletes what is older than the reserved time (or more, if the disk is nearly full), at most
    /// ten files of the log, whatever the hour; says what went. Blocks on the disk, and for the
    /// pauses between deletions.
    pub fn clean(&self) -> Cleaned {
        self.cleaner.run_now(&sleep)
    }

    /// Takes other settings of cleaning, from the next run on.
    pub fn set_cleaning(&self, settings: &Cleaning) -> Result<(), StoreError> {
        self.cleaner.set(settings)
    }

    /// RocketMQ's DELETE_EXPIRED_COMMITLOG: the next 20 runs of the cleaning thread do not wait
    /// for the hour, and the first of them comes now.
    pub fn clean_soon(&self) {
        self.cleaner.ask();
        if let Some(running) = &*self.running.lock() {
            running.cleaning.wake();
        }
    }

    /// RocketMQ's CLEAN_EXPIRED_CONSUMEQUEUE: drops what queues and index say about messages that
    /// are gone. Blocks on the disk.
    pub fn clean_expired_queues(&self) -> Cleaned {
        self.cleaner.clean_queues()
    }

    /// RocketMQ's CLEAN_UNUSED_TOPIC: deletes the messages of all topics but these, as
    /// [`Store::delete_topic`] does.
    pub fn clean_unused_topics(&self, topics: &HashSet<String>) -> Result<Cleaned, StoreError> {
        self.delete(|topic| !topics.contains(topic))
    }

    /// Deletes the messages of a topic, durably; its queues go on with the same numbers should the
    /// topic come back. Topics of the system keep theirs. Blocks on the disk.
    pub fn delete_topic(&self, topic: &str) -> Result<Cleaned, StoreError> {
        self.delete(|other| other == topic)
    }

    fn delete(&self, is_unwanted: impl Fn(&str) -> bool) -> Result<Cleaned, StoreError> {
        let is_deleted = |topic: &str| is_deletable(topic) && is_unwanted(topic);
        let topics = self.puts.appender.deletions(is_deleted);
        if topics.is_empty() {
            return Ok(Cleaned::default());
        }
        // A log that a power loss cuts would give new messages the places of deleted ones.
        self.flush_log()?;
        self.cleaner.delete(topics)
    }

    /// Flushes everything appended so far, log and derived files.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.flush_log()?;
        self.upkeep.flush_derived()?;
        self.upkeep.save()
    }

    /// Stops threads, flushes, dispatches to the end, writes offsets and checkpoint, removes
    /// `abort`. After an error `abort` stays, and the next start recovers; a queue that lacks
    /// messages of the log is such an error. Idempotent.
    pub fn close(&self) -> Result<(), StoreError> {
        let Some(running) = self.running.lock().take() else {
            return Ok(());
        };
        let Running {
            delay,
            flush,
            upkeep,
            cleaning,
            allocator,
            lock,
        } = running;
        drop((delay, cleaning));
        self.puts.appender.close();
        let flushed = self.flush_log();
        drop((flush, allocator));
        self.puts.flusher.appended.stop();
        self.dispatcher.join();
        drop(upkeep);
        flushed?;
        self.upkeep.repair_index(&*self.log, true);
        self.upkeep.finish()?;
        let (dispatched, end) = (
            self.dispatcher.progress().dispatched(),
            self.log.max_offset(),
        );
        if dispatched < end {
            let what = format!(
                "dispatch ended at {dispatched}, {} bytes before the log",
                end - dispatched
            );
            return Err(StoreError::Poisoned(what));
        }
        self.upkeep.mark_closed(&self.root, &*self.log)?;
        let abort = self.root.join(layout::ABORT);
        fs::remove_file(&abort).map_err(io_error(&abort))?;
        sync_directory(&self.root)?;
        drop(lock);
        Ok(())
    }

    fn flush_log(&self) -> Result<(), StoreError> {
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

/// A pause of a caller's own thread, which nothing ends.
fn sleep(time: Duration) -> bool {
    thread::sleep(time);
    true
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            let root = self.root.display();
            tracing::error!(%error, %root, "the store was not closed cleanly");
        }
    }
}
