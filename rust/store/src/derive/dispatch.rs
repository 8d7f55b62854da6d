//! Deriving queues and index from the log: every record enters its queue, the queues that it
//! names beside, and the index; then readers see it and the listener is told. In log order.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::arrivals::{Arrivals, Arrived, Listener};
use crate::derive::index::writer::IndexWriter;
use crate::derive::queues::queue::{Appended, ConsumeQueue};
use crate::derive::queues::recent::RecentQueues;
use crate::derive::queues::table::ConsumeQueues;
use crate::files::io_error;
use crate::records::walk::{LogRead, Records, Step, Walk};
use crate::settings::MultiDispatch;
use crate::types::StoreError;
use mq_format::consume_queue::QueueEntry;
use mq_format::consume_queue_ext::ExtUnit;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{CheckCrc, Outline, RecordView, sys_flag};
use mq_format::multi_dispatch;

/// Records between two writes of a batch, and for each queue in it; bounds what waits in memory.
const BATCH_RECORDS: usize = 4_096;
const BATCH_RECORDS_PER_QUEUE: usize = 16;
const BATCH_RECORDS_MAX: usize = 65_536;

/// Gives the filter bitmap that the extension keeps for a message, None for none.
pub(crate) type BitmapSource = Box<dyn Fn(&RecordView<'_>) -> Option<Vec<u8>> + Send + Sync>;

/// What is derived from the log, and how far.
pub struct Derived {
    queues: Arc<ConsumeQueues>,
    index: Option<IndexWriter>,
    levels: DelayLevels,
    multi_dispatch: MultiDispatch,
    bitmaps: Arc<OnceLock<BitmapSource>>,
    progress: Arc<Progress>,
    recent: RecentQueues,
    batch: Batch,
}

/// Records that were read but that no reader sees yet.
#[derive(Default)]
struct Batch {
    records: usize,
    /// Queues with units to publish; one may be there twice.
    queues: Vec<Arc<ConsumeQueue>>,
    /// Empty where nobody listens.
    arrivals: Vec<Arrived>,
    is_told: bool,
    store_timestamp_ms: i64,
}

/// How far dispatch is, for whoever asks.
#[derive(Debug, Default)]
pub struct Progress {
    dispatched: AtomicU64,
    store_timestamp_ms: AtomicI64,
    skipped: AtomicU64,
    records: AtomicU64,
}

impl Progress {
    /// Log offset up to which records are in their queues and the index.
    pub(crate) fn dispatched(&self) -> u64 {
        self.dispatched.load(Ordering::Acquire)
    }

    /// Says that records up to `offset` are in their queues and the index.
    pub(crate) fn set_dispatched(&self, offset: u64) {
        self.dispatched.store(offset, Ordering::Release);
    }

    /// Store time of the last record dispatched, milliseconds since the epoch, 0 for none.
    pub(crate) fn store_timestamp_ms(&self) -> i64 {
        self.store_timestamp_ms.load(Ordering::Acquire)
    }

    /// Records taken in since the start.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Records that entered no queue because their header makes no sense.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

impl Derived {
    /// Queues and index that are complete up to some place in the log.
    pub fn new(
        queues: Arc<ConsumeQueues>,
        index: Option<IndexWriter>,
        levels: DelayLevels,
    ) -> Self {
        Self {
            queues,
            index,
            levels,
            multi_dispatch: MultiDispatch::default(),
            bitmaps: Arc::default(),
            progress: Arc::default(),
            recent: RecentQueues::default(),
            batch: Batch::default(),
        }
    }

    /// Has messages enter the queues that they name beside their own, where that is enabled.
    pub fn with_multi_dispatch(mut self, multi_dispatch: MultiDispatch) -> Self {
        self.multi_dispatch = multi_dispatch;
        self
    }

    /// Where the source of filter bitmaps goes.
    pub(crate) fn bitmaps(&self) -> Arc<OnceLock<BitmapSource>> {
        Arc::clone(&self.bitmaps)
    }

    /// How far dispatch is.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Says up to which store time it is complete, before there is a record to tell.
    pub(crate) fn complete_to(&mut self, store_timestamp_ms: i64) {
        self.batch.store_timestamp_ms = store_timestamp_ms;
        let progress = &self.progress.store_timestamp_ms;
        progress.store(store_timestamp_ms, Ordering::Release);
    }

    /// Takes in every record from the walk's place to `limit`, in batches. On a full disk it may be
    /// called again, and goes on: what was taken in waits, and is published once.
    pub fn follow(
        &mut self,
        log: &impl LogRead,
        walk: &mut Walk,
        limit: u64,
        listener: Option<&Listener>,
    ) -> Result<(), StoreError> {
        walk.forget();
        self.batch.is_told = listener.is_some();
        let followed = self.follow_on(log, walk, limit, listener);
        walk.forget();
        followed
    }

    fn follow_on(
        &mut self,
        log: &impl LogRead,
        walk: &mut Walk,
        limit: u64,
        listener: Option<&Listener>,
    ) -> Result<(), StoreError> {
        loop {
            // First: after a full disk it may be so already.
            if self.batch.is_full() {
                self.publish_from(walk, listener)?;
            }
            let offset = walk.offset();
            match walk.steps(log, limit).map_err(log_error(offset))? {
                Step::Record(records) => self.take_in(&records)?,
                Step::Blank => {}
                Step::Neither => {
                    return Err(StoreError::Damaged {
                        root: "(open)".into(),
                        what: format!("no record at physical offset {offset} of the written log"),
                    });
                }
                Step::End => return self.publish_from(walk, listener),
            }
        }
    }

    /// As [`Self::publish`], unless what was taken in is not what the log has.
    fn publish_from(
        &mut self,
        walk: &mut Walk,
        listener: Option<&Listener>,
    ) -> Result<(), StoreError> {
        let offset = walk.offset();
        walk.check().map_err(log_error(offset))?;
        self.publish(offset, listener)
    }

    /// Adds records to their queues and the index.
    fn take_in(&mut self, records: &Records<'_>) -> Result<(), StoreError> {
        for (offset, bytes) in records.iter() {
            self.batch.records += 1;
            match Outline::parse(bytes) {
                Ok(record) => self.take_in_one(offset, bytes, &record)?,
                Err(_) => {
                    self.progress.skipped.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(offset, "skipping a record whose fields make no sense");
                }
            }
        }
        Ok(())
    }

    fn take_in_one(
        &mut self,
        offset: u64,
        bytes: &[u8],
        record: &Outline<'_>,
    ) -> Result<(), StoreError> {
        self.batch.store_timestamp_ms = record.store_timestamp_ms;
        if let Some(index) = &mut self.index {
            let added = index.add_record(offset.cast_signed(), record);
            added.or_else(waits_for_room)?;
        }
        if sys_flag::is_queued(record.sys_flag) {
            self.enqueue(offset, bytes, record)?;
        }
        Ok(())
    }

    fn enqueue(
        &mut self,
        offset: u64,
        bytes: &[u8],
        record: &Outline<'_>,
    ) -> Result<(), StoreError> {
        let entry = QueueEntry {
            physical_offset: offset.cast_signed(),
            size_bytes: i32::try_from(bytes.len()).unwrap_or(i32::MAX),
            tags_code: record.tags_code(&self.levels),
        };
        if self.queues.writes_ext() {
            self.enqueue_with_ext(entry, bytes, record)?;
        } else {
            let own = (record.topic, record.queue_id);
            self.append(own, record.queue_offset, entry, None)?;
        }
        if !self.multi_dispatch.enabled {
            return Ok(());
        }
        for (name, queue_offset) in multi_dispatch::dispatches(record.properties) {
            let lmq_enabled = self.multi_dispatch.lmq_enabled;
            let queue_id = multi_dispatch::queue_id_in(name, record.queue_id, lmq_enabled);
            self.append((name, queue_id), queue_offset, entry, None)?;
        }
        Ok(())
    }

    /// The unit in the record's own queue, the only one with an extension.
    fn enqueue_with_ext(
        &mut self,
        entry: QueueEntry,
        bytes: &[u8],
        record: &Outline<'_>,
    ) -> Result<(), StoreError> {
        let whole = RecordView::parse(bytes, CheckCrc::No);
        let source = self.bitmaps.get().zip(whole.as_ref().ok());
        let bitmap = source.and_then(|(source, whole)| source(whole));
        let ext = ExtUnit {
            tags_code: entry.tags_code,
            store_timestamp_ms: record.store_timestamp_ms,
            bitmap: bitmap.as_deref().unwrap_or_default(),
        };
        let own = (record.topic, record.queue_id);
        self.append(own, record.queue_offset, entry, Some(&ext))
    }

    fn append(
        &mut self,
        (topic, queue_id): (&str, i32),
        queue_offset: i64,
        entry: QueueEntry,
        ext: Option<&ExtUnit<'_>>,
    ) -> Result<(), StoreError> {
        let slot = self.recent.get(&self.queues, topic, queue_id);
        let appended = match &slot {
            Some(slot) => slot.queue.append(queue_offset, entry, ext),
            None => Appended::Refused,
        };
        match (appended, slot) {
            (Appended::New, Some(slot)) => {
                let place = self.batch.place_of(&slot.queue, &mut slot.place);
                if self.batch.is_told {
                    self.batch.arrivals.push(Arrived {
                        place,
                        max_offset: queue_offset + 1,
                        tags_code: entry.tags_code,
                    });
                }
            }
            (Appended::Duplicate, _) => {}
            _ => {
                self.progress.skipped.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    offset = entry.physical_offset,
                    topic,
                    queue_id,
                    queue_offset,
                    "a record's header makes no sense, it enters no queue"
                );
            }
        }
        Ok(())
    }

    /// Lets readers see the batch, then tells the listener. Until all is written that does not
    /// wait, nothing counts as dispatched, and another try goes on from there.
    fn publish(&mut self, offset: u64, listener: Option<&Listener>) -> Result<(), StoreError> {
        self.queues.publish(&self.batch.queues)?;
        if let Some(index) = &mut self.index {
            index.write()?;
        }
        self.progress.set_dispatched(offset);
        let records = self.batch.records as u64;
        self.progress.records.fetch_add(records, Ordering::Relaxed);
        let store_timestamp_ms = &self.progress.store_timestamp_ms;
        store_timestamp_ms.store(self.batch.store_timestamp_ms, Ordering::Release);
        if let Some(listener) = listener
            && !self.batch.arrivals.is_empty()
        {
            listener(&Arrivals::new(&self.batch.queues, &self.batch.arrivals));
        }
        self.batch.clear();
        Ok(())
    }
}

impl Batch {
    /// Where a queue is in the batch; `place` tells where it was put last.
    fn place_of(&mut self, queue: &Arc<ConsumeQueue>, place: &mut usize) -> usize {
        let is_there = |there: &Arc<ConsumeQueue>| Arc::ptr_eq(there, queue);
        if !self.queues.get(*place).is_some_and(is_there) {
            *place = self.queues.len();
            self.queues.push(Arc::clone(queue));
        }
        *place
    }

    /// With many queues a batch is larger, so that a write is worth its while.
    fn is_full(&self) -> bool {
        let enough = self.queues.len() * BATCH_RECORDS_PER_QUEUE;
        self.records >= enough.clamp(BATCH_RECORDS, BATCH_RECORDS_MAX)
    }

    fn clear(&mut self) {
        self.records = 0;
        self.queues.clear();
        self.queues.shrink_to(BATCH_RECORDS);
        self.arrivals.clear();
        self.arrivals.shrink_to(BATCH_RECORDS);
    }
}

/// The keys of a record wait on a full disk: they are written before the batch is published.
#[cold]
fn waits_for_room(error: StoreError) -> Result<(), StoreError> {
    match error {
        StoreError::Full { .. } => Ok(()),
        other => Err(other),
    }
}

fn log_error(offset: u64) -> impl FnOnce(std::io::Error) -> StoreError {
    move |source| io_error(format!("commit log at {offset}").as_ref())(source)
}
