//! Following the log: every record that became readable enters its queue and the index, and the
//! listener is told. One thread, in log order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::consume_queue::{Appended, ConsumeQueue};
use super::consume_queues::ConsumeQueues;
use super::files::io_error;
use super::index::IndexWriter;
use super::types::{Arrival, StoreError};
use super::walk::{LogRead, Step, Walk};
use crate::format::consume_queue::QueueEntry;
use crate::format::consume_queue_ext::ExtUnit;
use crate::format::delay_levels::DelayLevels;
use crate::format::message::{CheckCrc, RecordView, sys_flag};

/// Records between two writes of a batch; bounds what waits in memory.
const BATCH_RECORDS: usize = 4_096;

/// Told of each message that became readable.
pub(crate) type Listener = Box<dyn Fn(&Arrival<'_>) + Send + Sync>;

/// What is derived from the log, and how far.
pub(crate) struct Derived {
    queues: Arc<ConsumeQueues>,
    index: Option<IndexWriter>,
    levels: DelayLevels,
    progress: Arc<Progress>,
    batch: Batch,
}

/// Records that were read but that no reader sees yet.
#[derive(Default)]
struct Batch {
    records: usize,
    queues: HashMap<u64, Arc<ConsumeQueue>>,
    arrivals: Vec<(Arc<ConsumeQueue>, i64, i64)>,
    store_timestamp_ms: i64,
}

/// How far dispatch is, for whoever asks.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    dispatched: AtomicU64,
    store_timestamp_ms: AtomicI64,
    skipped: AtomicU64,
}

impl Progress {
    /// Log offset up to which records are in their queues and the index.
    pub(crate) fn dispatched(&self) -> u64 {
        self.dispatched.load(Ordering::Acquire)
    }

    /// Store time of the last record dispatched, milliseconds since the epoch, 0 for none.
    pub(crate) fn store_timestamp_ms(&self) -> i64 {
        self.store_timestamp_ms.load(Ordering::Acquire)
    }

    /// Records that entered no queue because their header makes no sense.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

impl Derived {
    /// Queues and index that are complete up to some place in the log.
    pub(crate) fn new(
        queues: Arc<ConsumeQueues>,
        index: Option<IndexWriter>,
        levels: DelayLevels,
    ) -> Self {
        Self {
            queues,
            index,
            levels,
            progress: Arc::default(),
            batch: Batch::default(),
        }
    }

    /// How far dispatch is.
    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Says up to which store time it is complete, before there is a record to tell.
    pub(crate) fn complete_to(&mut self, store_timestamp_ms: i64) {
        self.batch.store_timestamp_ms = store_timestamp_ms;
        let progress = &self.progress.store_timestamp_ms;
        progress.store(store_timestamp_ms, Ordering::Release);
    }

    /// Takes in every record from the walk's place to `limit`, in batches.
    pub(crate) fn follow(
        &mut self,
        log: &impl LogRead,
        walk: &mut Walk,
        limit: u64,
        listener: Option<&Listener>,
    ) -> Result<(), StoreError> {
        walk.forget();
        loop {
            let offset = walk.offset();
            match walk.step(log, limit).map_err(log_error(offset))? {
                Step::Record(bytes) => self.take_in(offset, bytes)?,
                Step::Blank => {}
                Step::Neither => {
                    return Err(StoreError::Damaged {
                        root: "(open)".into(),
                        what: format!("no record at physical offset {offset} of the written log"),
                    });
                }
                Step::End => return self.publish(walk.offset(), listener),
            }
            if self.batch.records >= BATCH_RECORDS {
                self.publish(walk.offset(), listener)?;
            }
        }
    }

    /// Adds one record to its queue and the index.
    pub(crate) fn take_in(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.batch.records += 1;
        let Ok(record) = RecordView::parse(bytes, CheckCrc::No) else {
            self.progress.skipped.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(offset, "skipping a record whose fields make no sense");
            return Ok(());
        };
        self.batch.store_timestamp_ms = record.store_timestamp_ms;
        if sys_flag::is_queued(record.sys_flag) {
            self.enqueue(offset, bytes.len(), &record)?;
        }
        if let Some(index) = &mut self.index {
            index.add_record(offset.cast_signed(), &record)?;
        }
        Ok(())
    }

    fn enqueue(
        &mut self,
        offset: u64,
        size: usize,
        record: &RecordView<'_>,
    ) -> Result<(), StoreError> {
        let entry = QueueEntry {
            physical_offset: offset.cast_signed(),
            size_bytes: i32::try_from(size).unwrap_or(i32::MAX),
            tags_code: record.tags_code(&self.levels),
        };
        let ext = ExtUnit {
            tags_code: entry.tags_code,
            store_timestamp_ms: record.store_timestamp_ms,
            bitmap: &[],
        };
        let queue = self.queues.for_record(record.topic, record.queue_id);
        let appended = match &queue {
            Some(queue) => queue.append(record.queue_offset, entry, Some(&ext))?,
            None => Appended::Refused,
        };
        match (appended, queue) {
            (Appended::New, Some(queue)) => {
                let max_offset = record.queue_offset + 1;
                self.batch
                    .queues
                    .entry(queue.number())
                    .or_insert_with(|| Arc::clone(&queue));
                self.batch
                    .arrivals
                    .push((queue, max_offset, entry.tags_code));
            }
            (Appended::Duplicate, _) => {}
            _ => {
                self.progress.skipped.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    offset,
                    topic = record.topic,
                    queue_id = record.queue_id,
                    queue_offset = record.queue_offset,
                    "a record's header makes no sense, it enters no queue"
                );
            }
        }
        Ok(())
    }

    /// Lets readers see the batch, then tells the listener.
    fn publish(&mut self, offset: u64, listener: Option<&Listener>) -> Result<(), StoreError> {
        self.queues
            .write_pending(self.batch.queues.drain().map(|(_, queue)| queue))?;
        self.progress.dispatched.store(offset, Ordering::Release);
        let store_timestamp_ms = &self.progress.store_timestamp_ms;
        store_timestamp_ms.store(self.batch.store_timestamp_ms, Ordering::Release);
        self.batch.records = 0;
        for (queue, max_offset, tags_code) in self.batch.arrivals.drain(..) {
            if let Some(listener) = listener {
                listener(&Arrival {
                    topic: queue.topic(),
                    queue_id: queue.queue_id(),
                    max_offset,
                    tags_code,
                });
            }
        }
        Ok(())
    }
}

fn log_error(offset: u64) -> impl FnOnce(std::io::Error) -> StoreError {
    let place = format!("commit log at {offset}");
    move |source| io_error(place.as_ref())(source)
}

/// The thread that keeps [`Derived`] up with the log.
pub(crate) struct Dispatcher {
    progress: Arc<Progress>,
    listener: Arc<OnceLock<Listener>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Dispatcher {
    /// Starts following `log` from `from`, up to which `derived` is complete.
    ///
    /// `readable_beyond(offset)` waits until records beyond `offset` may be read and returns how
    /// far; None ends the thread. `failed` is called once if the thread cannot go on.
    pub(crate) fn start<L: LogRead + 'static>(
        log: Arc<L>,
        mut derived: Derived,
        from: u64,
        mut readable_beyond: impl FnMut(u64) -> Option<u64> + Send + 'static,
        failed: impl FnOnce(StoreError) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let progress = derived.progress();
        progress.dispatched.store(from, Ordering::Release);
        let listener: Arc<OnceLock<Listener>> = Arc::default();
        let told = Arc::clone(&listener);
        let body = move || {
            let mut walk = Walk::from(from);
            while let Some(limit) = readable_beyond(walk.offset()) {
                if let Err(error) = derived.follow(&*log, &mut walk, limit, told.get()) {
                    tracing::error!(%error, "dispatch stopped");
                    return failed(error);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("mq-dispatch".into())
            .spawn(body)
            .map_err(io_error("dispatch thread".as_ref()))?;
        Ok(Self {
            progress,
            listener,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Registers the one listener; later ones are ignored.
    pub(crate) fn on_arrival(&self, listener: Listener) {
        let _ = self.listener.set(listener);
    }

    /// How far dispatch is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits for the thread to end, after `readable_beyond` answered None.
    pub(crate) fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
