//! Makes queues and index durable, and repairs the index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::derive::dispatch::Progress;
use crate::derive::index::files::IndexFiles;
use crate::derive::queues::table::ConsumeQueues;
use crate::scan::log_scanner::LogRead;
use crate::state::checkpoint::Checkpoint;
use crate::types::StoreError;
use crate::write::ack::Acks;
use crate::write::space::Space;

/// If many queues receive messages, they are flushed once per this many rounds.
const MANY_QUEUES_ROUNDS: u32 = 3;

/// The files that are derived from the log.
pub(crate) struct DerivedFiles {
    pub(crate) queues: Arc<ConsumeQueues>,
    pub(crate) index: Option<Arc<IndexFiles>>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) checkpoint: Arc<Checkpoint>,
    pub(crate) acks: Arc<Acks>,
    pub(crate) space: Arc<Space>,
    /// Rounds since the last flush of the queues.
    pub(crate) unflushed_rounds: AtomicU32,
}

impl DerivedFiles {
    /// Writes the queues if only few received messages, so that tools that read their files see
    /// these.
    pub(crate) fn write_queues(&self) {
        if self.acks.poison().is_none()
            && let Err(error) = self.queues.write_few()
        {
            self.failed(&format!("write of the consume queues: {error}"), &error);
        }
    }

    /// One round of flushes. A failed flush poisons the store, because pages may be lost, and the
    /// next checkpoint could call them durable.
    pub(crate) fn flush_round(&self) {
        let rounds = self.unflushed_rounds.fetch_add(1, Ordering::Relaxed) + 1;
        if (rounds >= MANY_QUEUES_ROUNDS || self.queues.are_few())
            && let Err(error) = self.flush()
        {
            self.failed(&format!("flush of the consume queues: {error}"), &error);
        }
    }

    /// Syncs the queues and full index files.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
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

    /// Like [`DerivedFiles::flush`], with the newest index file: for a close.
    pub(crate) fn flush_all(&self) -> Result<(), StoreError> {
        self.flush()?;
        self.index
            .as_ref()
            .map_or(Ok(()), |index| index.flush_all(&self.checkpoint))
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

    /// Poisons the store. On a full disk only refuses puts; the next round tries again.
    fn failed(&self, what: &str, error: &StoreError) {
        match error {
            StoreError::Full { .. } => self.space.note_full(what.to_owned()),
            _ => self.acks.fail(what.to_owned()),
        }
    }
}
