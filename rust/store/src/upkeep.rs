//! Periodic work: writes derived files, offsets and the checkpoint.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::delay::deliver::Delay;
use crate::derive::dispatch::Progress;
use crate::derive::index::files::IndexFiles;
use crate::derive::queues::table::ConsumeQueues;
use crate::directory::queue_ends::QueueEnds;
use crate::files::io_error;
use crate::rates::Rates;
use crate::records::log_scanner::LogRead;
use crate::recover::{CleanStop, LogEnd};
use crate::state::checkpoint::Checkpoint;
use crate::state::offsets::Offsets;
use crate::threads::periodic::Every;
use crate::types::StoreError;
use crate::write::ack::Acks;
use crate::write::space::Space;
use mq_base::clock::Clock;
use mq_base::services;
use mq_statefile::StateFiles;

/// If many queues receive messages, they are flushed once per this many rounds.
const MANY_QUEUES_ROUNDS: u32 = 3;
/// Interval of saving the ends of the queues, milliseconds.
const SAVE_ENDS_MS: u64 = 60_000;

/// Writes all files other than the log.
pub(crate) struct Upkeep {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) acks: Arc<Acks>,
    pub(crate) space: Arc<Space>,
    pub(crate) state: Arc<StateFiles>,
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) delay: Arc<Delay>,
    pub(crate) checkpoint: Arc<Checkpoint>,
    pub(crate) queues: Arc<ConsumeQueues>,
    pub(crate) index: Option<Arc<IndexFiles>>,
    pub(crate) progress: Arc<Progress>,
    /// `flushConsumerOffsetInterval`.
    pub(crate) save_every: Every,
    /// `flushDelayOffsetInterval`.
    pub(crate) save_delay_every: Every,
    pub(crate) rates: Rates,
    /// Rounds since the last flush of the queues.
    pub(crate) unflushed_rounds: AtomicU32,
    pub(crate) ends: EndsSaver,
}

/// Saves the ends of the queues after their records have been flushed.
pub(crate) struct EndsSaver {
    every: Every,
    state: Mutex<Ends>,
}

#[derive(Default)]
struct Ends {
    /// Ends whose records may not have been flushed.
    waiting: Option<QueueEnds>,
    /// End of the log when the ends were last read.
    log_end: u64,
}

impl EndsSaver {
    /// A start has recorded the ends of a log that ends at `log_end`.
    pub(crate) fn from(log_end: u64, now_ms: i64) -> Self {
        let every = Every::new(SAVE_ENDS_MS);
        every.is_due(now_ms);
        let state = Mutex::new(Ends {
            waiting: None,
            log_end,
        });
        Self { every, state }
    }
}

impl Upkeep {
    /// Runs a round. After a panic we do not know what reached the disk, and the next checkpoint
    /// could call it durable. So the store is poisoned.
    pub(crate) fn guarded(&self, round: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(round)) {
            let reason = services::words(&*panic);
            self.acks.fail(format!("upkeep panicked: {reason}"));
            resume_unwind(panic);
        }
    }

    /// One round of the upkeep thread.
    pub(crate) fn round(&self) {
        self.space.refresh();
        if self.acks.poison().is_some() {
            return;
        }
        let rounds = self.unflushed_rounds.fetch_add(1, Ordering::Relaxed) + 1;
        if (rounds >= MANY_QUEUES_ROUNDS || self.queues.are_few())
            && let Err(error) = self.flush_derived()
        {
            // Pages may be lost, and the next checkpoint could call them durable.
            self.failed(&format!("flush of the consume queues: {error}"), &error);
            if self.acks.poison().is_some() {
                return;
            }
        }
        let now_ms = self.clock.monotonic_ms();
        if self.save_every.is_due(now_ms) {
            log_failure(self.save_offsets());
        }
        if self.save_delay_every.is_due(now_ms) {
            log_failure(self.save_delay());
        }
        log_failure(self.save_ends(now_ms));
    }

    /// Saves the ends of the queues if messages arrived since the last call.
    fn save_ends(&self, now_ms: i64) -> Result<(), StoreError> {
        let mut state = self.ends.state.lock();
        let dispatched = self.progress.dispatched();
        if self.ends.every.is_due(now_ms) && dispatched != state.log_end {
            state.log_end = dispatched;
            state.waiting = Some(self.queues.ends(dispatched));
        }
        let flushed = self.acks.flushed();
        let durable = state.waiting.take_if(|ends| ends.log_end <= flushed);
        durable.map_or(Ok(()), |ends| ends.save(&self.queues.shared.root))
    }

    /// Writes the queues if only few received messages, so that tools that read their files see
    /// these.
    pub(crate) fn write_queues(&self) {
        if self.acks.poison().is_none()
            && let Err(error) = self.queues.write_few()
        {
            self.failed(&format!("write of the consume queues: {error}"), &error);
        }
    }

    /// Poisons the store. On a full disk only refuses puts; the next round tries again.
    fn failed(&self, what: &str, error: &StoreError) {
        match error {
            StoreError::Full { .. } => self.space.note_full(what.to_owned()),
            _ => self.acks.fail(what.to_owned()),
        }
    }

    /// Samples the totals for the rates in the runtime info; `puts` is the number of messages so
    /// far.
    pub(crate) fn sample(&self, puts: u64) {
        let now_ms = self.clock.monotonic_ms();
        self.rates.sample(now_ms, self.rates.totals(puts));
    }

    /// Syncs the queues and full index files.
    pub(crate) fn flush_derived(&self) -> Result<(), StoreError> {
        self.unflushed_rounds.store(0, Ordering::Relaxed);
        // Read this before the flush, which does not cover messages dispatched meanwhile.
        let dispatched_ms = self.progress.store_timestamp_ms();
        self.queues.flush()?;
        if dispatched_ms > 0 {
            self.checkpoint.set_queue_timestamp(dispatched_ms);
        }
        self.index
            .as_ref()
            .map_or(Ok(()), |index| index.flush(&self.checkpoint))
    }

    /// Rebuilds index files in which look-ups found damage. The newest one is rebuilt only when
    /// dispatch `has_ended`.
    pub(crate) fn repair_index(&self, log: &impl LogRead, has_ended: bool) {
        if let Some(index) = self.index.as_ref().filter(|_| self.acks.poison().is_none())
            && let Err(error) = index.repair(log, has_ended)
        {
            tracing::error!(%error, "cannot rebuild an index file; try: mqstore rebuild");
        }
    }

    /// Saves consumer offsets, delay offsets and the checkpoint.
    pub(crate) fn save(&self) -> Result<(), StoreError> {
        self.save_delay()?;
        self.save_offsets()
    }

    fn save_offsets(&self) -> Result<(), StoreError> {
        self.offsets.save(&self.state)?;
        self.checkpoint.flush()
    }

    fn save_delay(&self) -> Result<(), StoreError> {
        self.delay.save(&self.state, self.acks.flushed())
    }

    /// Makes everything durable before a close; the log is flushed already. A poisoned store only
    /// saves the offsets, because a successful flush now could call pages durable that a failed
    /// flush lost.
    pub(crate) fn finish(&self) -> Result<(), StoreError> {
        if let Some(reason) = self.acks.poison() {
            log_failure(self.save_offsets());
            return Err(StoreError::Poisoned(reason.to_owned()));
        }
        self.flush_derived()?;
        if let Some(index) = &self.index {
            index.flush_all(&self.checkpoint)?;
        }
        self.save()
    }

    /// Records the state of the closed store, which the next open compares.
    pub(crate) fn mark_closed(&self, root: &Path, log: &impl LogRead) -> Result<(), StoreError> {
        let index = self.index.as_deref();
        let end = LogEnd::of(log, log.max_offset(), self.progress.store_timestamp_ms());
        let end = end.map_err(io_error(&root.join("commitlog")))?;
        self.queues.ends(end.log_end).save(root)?;
        CleanStop::of(end, self.checkpoint.crc()?, &self.queues, index).save(root)
    }
}

/// Logs a failed save. The files keep their old content, and the next round tries again.
fn log_failure(saved: Result<(), StoreError>) {
    if let Err(error) = saved {
        tracing::error!(%error, "cannot save offsets, checkpoint or the ends of queues");
    }
}
