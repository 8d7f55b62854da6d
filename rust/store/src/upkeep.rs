//! The upkeep thread: calls the owners of the store's files at their times.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::derive::derived_files::DerivedFiles;
use crate::derive::queues::ends_saver::EndsSaver;
use crate::positions::Positions;
use crate::stats::rates::Rates;
use crate::threads::periodic::{Every, Periodic};
use crate::types::StoreError;
use crate::write::put::Puts;
use mq_base::clock::Clock;
use mq_base::services::{self, Services};

/// Name of the thread.
const THREAD: &str = "mq-upkeep";
/// How often queues are written, so that tools that read the queue files see the messages.
const WRITE_EVERY: Duration = Duration::from_millis(200);
/// One of this many queue writes is also a flush: `flushIntervalConsumeQueue`.
const WRITES_PER_FLUSH: u32 = 5;

/// What the thread calls, and when.
pub(crate) struct Upkeep {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) puts: Arc<Puts>,
    pub(crate) derived: Arc<DerivedFiles>,
    pub(crate) positions: Arc<Positions>,
    pub(crate) ends: EndsSaver,
    pub(crate) rates: Arc<Rates>,
    /// `flushConsumerOffsetInterval`.
    pub(crate) save_every: Every,
    /// `flushDelayOffsetInterval`.
    pub(crate) save_delay_every: Every,
}

impl Upkeep {
    /// Starts the thread.
    pub(crate) fn start(self: &Arc<Self>, services: &Arc<Services>) -> io::Result<Periodic> {
        let upkeep = Arc::clone(self);
        upkeep.sample();
        let mut writes = 0_u32;
        Periodic::start(THREAD, WRITE_EVERY, services, move || {
            writes = writes.wrapping_add(1);
            upkeep.guarded(|| match writes.is_multiple_of(WRITES_PER_FLUSH) {
                true => upkeep.round(),
                false => upkeep.derived.write_queues(),
            });
        })
    }

    /// Runs a round. After a panic we do not know what reached the disk, and the next checkpoint
    /// could call it durable. So the store is poisoned.
    fn guarded(&self, round: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(round)) {
            let reason = services::words(&*panic);
            let acks = &self.puts.flusher.acks;
            acks.fail(format!("upkeep panicked: {reason}"));
            resume_unwind(panic);
        }
    }

    /// One round with a flush.
    pub(crate) fn round(&self) {
        self.flush_and_save();
        self.derived.repair_index(&*self.puts.flusher.log, false);
        self.sample();
    }

    fn flush_and_save(&self) {
        let flusher = &self.puts.flusher;
        flusher.space.refresh();
        if flusher.acks.poison().is_some() {
            return;
        }
        self.derived.flush_round();
        if flusher.acks.poison().is_some() {
            return;
        }
        let now_ms = self.clock.monotonic_ms();
        if self.save_every.is_due(now_ms) {
            log_failure(self.positions.save_offsets());
        }
        if self.save_delay_every.is_due(now_ms) {
            log_failure(self.positions.save_delay());
        }
        log_failure(self.ends.save_when_due(now_ms));
    }

    /// Samples the totals for the rates in the runtime info.
    fn sample(&self) {
        let puts = self.puts.appender.counters.messages();
        let now_ms = self.clock.monotonic_ms();
        self.rates.sample(now_ms, self.rates.totals(puts));
    }
}

/// Logs a failed save. The files keep their old content, and the next round tries again.
pub(crate) fn log_failure(saved: Result<(), StoreError>) {
    if let Err(error) = saved {
        tracing::error!(%error, "cannot save offsets, checkpoint or the ends of queues");
    }
}
