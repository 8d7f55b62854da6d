//! Derives queues and index from the log, in log order. Each record enters its queue, the further
//! queues that it names, and the index. Then readers see it, and the listener is called.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::arrivals::{ArrivalListener, Arrivals, Arrived};
use crate::derive::index::writer::IndexWriter;
use crate::derive::queues::queue::{Appended, ConsumeQueue};
use crate::derive::queues::queue_cache::QueueCache;
use crate::derive::queues::table::ConsumeQueues;
use crate::files::io_error;
use crate::listeners::Listener;
use crate::scan::log_scanner::{LogRead, LogScanner, Records, Step};
use crate::settings::MultiDispatch;
use crate::types::StoreError;
use mq_format::consume_queue::QueueEntry;
use mq_format::consume_queue_ext::ExtUnit;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{CheckCrc, Outline, RecordView, sys_flag};

/// Records per batch, at least and at most, and per queue of the batch. Bounds the memory of a
/// batch.
const BATCH_RECORDS: usize = 4_096;
const BATCH_RECORDS_PER_QUEUE: usize = 16;
const BATCH_RECORDS_MAX: usize = 65_536;

/// Returns the filter bitmap for the extension entry of a message; None if it needs none.
pub type BitmapSource = dyn Fn(&RecordView<'_>) -> Option<Vec<u8>> + Send + Sync;

/// The files derived from the log, and their progress.
pub struct Dispatch {
    queues: Arc<ConsumeQueues>,
    index: Option<IndexWriter>,
    levels: DelayLevels,
    multi_dispatch: MultiDispatch,
    bitmaps: Arc<Listener<BitmapSource>>,
    progress: Arc<Progress>,
    queue_cache: QueueCache,
    batch: Batch,
}

/// Records that were read and are not visible to readers yet.
#[derive(Default)]
struct Batch {
    records: usize,
    /// Queues with entries to publish; a queue may occur twice.
    queues: Vec<Arc<ConsumeQueue>>,
    /// Empty without a listener.
    arrivals: Vec<Arrived>,
    is_told: bool,
    store_timestamp_ms: i64,
}

/// Progress of dispatch, readable by other threads.
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

    /// Notes that records up to `offset` are in their queues and the index.
    pub(crate) fn set_dispatched(&self, offset: u64) {
        self.dispatched.store(offset, Ordering::Release);
    }

    /// Store time of the last record dispatched, milliseconds since the epoch, 0 for none.
    pub(crate) fn store_timestamp_ms(&self) -> i64 {
        self.store_timestamp_ms.load(Ordering::Acquire)
    }

    /// Records dispatched since the start.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Records that entered no queue because their header is invalid.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

impl Dispatch {
    /// Queues and index, complete up to the offset where dispatch will start.
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
            bitmaps: Arc::new(Listener::new("bitmap-source")),
            progress: Arc::default(),
            queue_cache: QueueCache::default(),
            batch: Batch::default(),
        }
    }

    /// Enables multi-dispatch: messages also enter the further queues that they name.
    pub fn with_multi_dispatch(mut self, multi_dispatch: MultiDispatch) -> Self {
        self.multi_dispatch = multi_dispatch;
        self
    }

    /// The slot for the source of filter bitmaps.
    pub(crate) fn bitmaps(&self) -> Arc<Listener<BitmapSource>> {
        Arc::clone(&self.bitmaps)
    }

    /// Progress of dispatch.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Sets the store time up to which queues and index are complete, before the first record.
    pub(crate) fn complete_to(&mut self, store_timestamp_ms: i64) {
        self.batch.store_timestamp_ms = store_timestamp_ms;
        let progress = &self.progress.store_timestamp_ms;
        progress.store(store_timestamp_ms, Ordering::Release);
    }

    /// Dispatches all records from the scanner's position to `limit`, in batches. After a full disk
    /// it may be called again and continues: records of the batch stay in memory and are published
    /// once.
    pub fn follow(
        &mut self,
        log: &impl LogRead,
        scanner: &mut LogScanner,
        limit: u64,
        listener: Option<&ArrivalListener>,
    ) -> Result<(), StoreError> {
        scanner.forget();
        self.batch.is_told = listener.is_some();
        let followed = self.follow_on(log, scanner, limit, listener);
        scanner.forget();
        followed
    }

    fn follow_on(
        &mut self,
        log: &impl LogRead,
        scanner: &mut LogScanner,
        limit: u64,
        listener: Option<&ArrivalListener>,
    ) -> Result<(), StoreError> {
        loop {
            // Check first: after a full disk, the batch may be full already.
            if self.batch.is_full() {
                self.publish_from(scanner, listener)?;
            }
            let offset = scanner.offset();
            match scanner.steps(log, limit).map_err(log_error(offset))? {
                Step::Record(records) => self.ingest(&records)?,
                Step::Blank => {}
                Step::Invalid => {
                    return Err(StoreError::Damaged {
                        root: "(open)".into(),
                        what: format!("no record at physical offset {offset} of the written log"),
                    });
                }
                Step::End => return self.publish_from(scanner, listener),
            }
        }
    }

    /// Like [`Self::publish`], but fails if the scanner finds that it read wrong bytes.
    fn publish_from(
        &mut self,
        scanner: &mut LogScanner,
        listener: Option<&ArrivalListener>,
    ) -> Result<(), StoreError> {
        let offset = scanner.offset();
        scanner.check().map_err(log_error(offset))?;
        self.publish(offset, listener)
    }

    /// Adds records to their queues and the index.
    fn ingest(&mut self, records: &Records<'_>) -> Result<(), StoreError> {
        for (offset, bytes) in records.iter() {
            self.batch.records += 1;
            match Outline::parse(bytes) {
                Ok(record) => self.ingest_one(offset, bytes, &record)?,
                Err(_) => {
                    self.progress.skipped.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(
                        offset,
                        "skipped a record in dispatch: its fields are invalid"
                    );
                }
            }
        }
        Ok(())
    }

    fn ingest_one(
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
        let multi = self.multi_dispatch;
        let mut further = multi.further_queues(record.properties, record.queue_id);
        further.try_for_each(|(name, queue_id, queue_offset)| {
            self.append((name, queue_id), queue_offset, entry, None)
        })
    }

    /// Adds the entry to the record's own queue, the only one with an extension.
    fn enqueue_with_ext(
        &mut self,
        entry: QueueEntry,
        bytes: &[u8],
        record: &Outline<'_>,
    ) -> Result<(), StoreError> {
        // Without a bitmap, readers evaluate their filters themselves.
        let bitmap = self.bitmaps.call(|source| {
            let whole = RecordView::parse(bytes, CheckCrc::No).ok()?;
            source(&whole)
        });
        let bitmap = bitmap.flatten();
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
        let slot = self.queue_cache.get(&self.queues, topic, queue_id);
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
                    "skipped a record in dispatch: its header is invalid, so it enters no queue"
                );
            }
        }
        Ok(())
    }

    /// Makes the batch visible to readers, then calls the listener. If a write fails on a full
    /// disk, nothing counts as dispatched, and the next call continues with the rest.
    fn publish(
        &mut self,
        offset: u64,
        listener: Option<&ArrivalListener>,
    ) -> Result<(), StoreError> {
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
    /// The index of a queue in the batch; `place` caches it.
    fn place_of(&mut self, queue: &Arc<ConsumeQueue>, place: &mut usize) -> usize {
        let is_there = |there: &Arc<ConsumeQueue>| Arc::ptr_eq(there, queue);
        if !self.queues.get(*place).is_some_and(is_there) {
            *place = self.queues.len();
            self.queues.push(Arc::clone(queue));
        }
        *place
    }

    /// With many queues a batch is larger, so that each queue's write is worth its cost.
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

/// On a full disk, a record's keys stay in memory; they are written before the batch is published.
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
