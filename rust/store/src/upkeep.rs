//! What has to be written every so often: derived files, offsets, the checkpoint.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::delay::deliver::Delay;
use crate::derive::dispatch::Progress;
use crate::derive::index::files::IndexFiles;
use crate::derive::queues::table::ConsumeQueues;
use crate::files::io_error;
use crate::rates::Rates;
use crate::records::walk::LogRead;
use crate::recover::{LogEnd, Marker};
use crate::state::checkpoint::Checkpoint;
use crate::state::files::State;
use crate::state::offsets::Offsets;
use crate::threads::periodic::Every;
use crate::types::StoreError;
use crate::write::ack::Acks;
use crate::write::space::Space;
use mq_base::clock::Clock;
use mq_base::services;

/// Rounds from one flush of the queues to the next where many get messages.
const MANY_QUEUES_ROUNDS: u32 = 3;

/// Writes what is not the log.
pub(crate) struct Upkeep {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) acks: Arc<Acks>,
    pub(crate) space: Arc<Space>,
    pub(crate) state: Arc<State>,
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
}

impl Upkeep {
    /// Does a round. One that panics leaves it open what is on the disk, and a later flush would
    /// vouch for it in the checkpoint: it stops the store.
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
            // Pages may be lost, and a later flush would vouch for them in the checkpoint.
            self.failed(&format!("flush of the consume queues: {error}"), &error);
            if self.acks.poison().is_some() {
                return;
            }
        }
        let now_ms = self.clock.monotonic_ms();
        if self.save_every.is_due(now_ms) {
            told(self.save_offsets());
        }
        if self.save_delay_every.is_due(now_ms) {
            told(self.save_delay());
        }
    }

    /// Lets those who read the files see what few queues got lately.
    pub(crate) fn write_queues(&self) {
        if self.acks.poison().is_none()
            && let Err(error) = self.queues.write_few()
        {
            self.failed(&format!("write of the consume queues: {error}"), &error);
        }
    }

    /// Stops the store, or its puts while the disk is full: the next round tries again.
    fn failed(&self, what: &str, error: &StoreError) {
        match error {
            StoreError::Full { .. } => self.space.note_full(what.to_owned()),
            _ => self.acks.fail(what.to_owned()),
        }
    }

    /// Takes note of the totals, for the rates of runtime info. puts: messages so far.
    pub(crate) fn sample(&self, puts: u64) {
        let now_ms = self.clock.monotonic_ms();
        self.rates.sample(now_ms, self.rates.totals(puts));
    }

    /// Makes queues durable, and index files that are full.
    pub(crate) fn flush_derived(&self) -> Result<(), StoreError> {
        self.unflushed_rounds.store(0, Ordering::Relaxed);
        // Before the flush: what is dispatched meanwhile is not covered.
        let dispatched_ms = self.progress.store_timestamp_ms();
        self.queues.flush()?;
        if dispatched_ms > 0 {
            self.checkpoint.set_queue_timestamp(dispatched_ms);
        }
        self.index
            .as_ref()
            .map_or(Ok(()), |index| index.flush(&self.checkpoint))
    }

    /// Makes index files anew that look-ups found damaged; the newest one once dispatch
    /// `has_ended`.
    pub(crate) fn repair_index(&self, log: &impl LogRead, has_ended: bool) {
        if let Some(index) = self.index.as_ref().filter(|_| self.acks.poison().is_none())
            && let Err(error) = index.repair(log, has_ended)
        {
            tracing::error!(%error, "an index file cannot be made anew; try: mqstore rebuild");
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

    /// Makes everything durable, at the end of a store whose log is flushed. A store that its last
    /// rounds poisoned saves the offsets alone: a flush that succeeds now would vouch for pages
    /// that a failed one lost.
    pub(crate) fn finish(&self) -> Result<(), StoreError> {
        if let Some(reason) = self.acks.poison() {
            told(self.save_offsets());
            return Err(StoreError::Poisoned(reason.to_owned()));
        }
        self.flush_derived()?;
        if let Some(index) = &self.index {
            index.flush_all(&self.checkpoint)?;
        }
        self.save()
    }

    /// Leaves the figures of the closed store, so that the next open knows what must be there.
    pub(crate) fn mark_closed(&self, root: &Path, log: &impl LogRead) -> Result<(), StoreError> {
        let index = self.index.as_deref();
        let end = LogEnd::of(log, log.max_offset(), self.progress.store_timestamp_ms());
        let end = end.map_err(io_error(&root.join("commitlog")))?;
        Marker::of(end, self.checkpoint.crc()?, &self.queues, index).save(root)
    }
}

/// Says what could not be saved: the files keep what they had, the next round tries again.
fn told(saved: Result<(), StoreError>) {
    if let Err(error) = saved {
        tracing::error!(%error, "offsets or checkpoint could not be saved");
    }
}
