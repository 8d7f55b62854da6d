//! Decides when consume queues are written and synced; one pass handles all of them.
//!
//! A write on a full disk may be tried again, and so may the flush that it belongs to, or a flush
//! that found no free file descriptor: no sync failed, and the noted files are kept. A failed sync
//! may not be tried again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::ConsumeQueue;
use super::queue_buffer::ALL_BYTES_MAX;
use super::queue_files::{self, Dirty};
use super::table::ConsumeQueues;
use crate::files::io_error;
use crate::types::StoreError;

/// Most files synced one by one; for more, the whole file system is synced at once.
const SYNCS_MAX: usize = 256;
/// With at most this many active queues, they are written more often than flushed.
pub(crate) const FEW_QUEUES: usize = 256;

impl ConsumeQueues {
    /// Makes the appended entries of these queues visible to readers. They are written later,
    /// unless too many bytes are pending. Only the dispatcher calls this; after a full disk again
    /// with the same queues.
    pub(crate) fn publish(&self, queues: &[Arc<ConsumeQueue>]) -> Result<(), StoreError> {
        let mut bytes = 0;
        let published = queues.iter().try_for_each(|queue| {
            let (added, is_news) = queue.publish()?;
            bytes += added;
            if is_news {
                self.noted.lock().push(Arc::clone(queue));
            }
            Ok(())
        });
        let before = self.shared.pending.fetch_add(bytes, Ordering::Relaxed);
        match before + bytes > ALL_BYTES_MAX {
            true => published.and_then(|()| self.write_pending()),
            false => published,
        }
    }

    /// Writes all pending entries.
    pub(crate) fn write_pending(&self) -> Result<(), StoreError> {
        // Copy the list, so that a publish does not wait for the disk.
        let noted = self.noted.lock().clone();
        noted.iter().try_for_each(|queue| queue.write_pending())
    }

    /// Writes all pending entries if few queues are active. With many, the entries of each must
    /// gather until the next flush, so that a write is worth its cost.
    pub(crate) fn write_few(&self) -> Result<(), StoreError> {
        match self.are_few() {
            true => self.write_pending(),
            false => Ok(()),
        }
    }

    /// Whether few queues got entries since the last flush.
    pub(crate) fn are_few(&self) -> bool {
        self.noted.lock().len() <= FEW_QUEUES
    }

    /// Adds a queue to the next [`Self::flush`].
    pub(crate) fn flush_later(&self, queue: &Arc<ConsumeQueue>) {
        if queue.note() {
            self.noted.lock().push(Arc::clone(queue));
        }
    }

    /// Writes all pending entries, and syncs everything written so far. After a failure all later
    /// calls fail, unless the failure was a write on a full disk.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut failure = self.flushing.lock();
        if let Some(why) = &*failure {
            return Err(StoreError::Poisoned(why.clone()));
        }
        let flushed = self.flush_noted();
        let lasting = |error: &&StoreError| !matches!(error, StoreError::Full { .. });
        let error = flushed.as_ref().err().filter(lasting);
        *failure = error.map(ToString::to_string);
        flushed
    }

    fn flush_noted(&self) -> Result<(), StoreError> {
        let queues = std::mem::take(&mut *self.noted.lock());
        let mut dirty = Vec::with_capacity(queues.len());
        for queue in &queues {
            match queue.take_dirty() {
                Ok(of_queue) => dirty.push(of_queue),
                Err(error) => {
                    self.keep_noted(&queues, dirty);
                    return Err(error);
                }
            }
        }
        let keeping = queues.iter().filter(|queue| queue.keeps_room());
        keeping.for_each(|queue| self.flush_later(queue));
        let counts = dirty.iter().flatten().map(Dirty::count);
        if counts.sum::<usize>() > SYNCS_MAX {
            let root = &self.shared.root;
            return self.root.sync_file_system().map_err(io_error(root));
        }
        let synced = sync(&queues, &dirty);
        if let Err(StoreError::Full { .. }) = &synced {
            // No descriptor was free.
            self.keep_noted(&queues, dirty);
        }
        synced
    }

    /// Takes back queues of a failed flush. `dirty` holds the unsynced files of the first of them.
    fn keep_noted(&self, queues: &[Arc<ConsumeQueue>], dirty: Vec<[Dirty; 2]>) {
        let tried = queues.len().min(dirty.len() + 1);
        let (tried, others) = queues.split_at(tried);
        // These are still marked as noted.
        self.noted.lock().extend(others.iter().cloned());
        tried.iter().for_each(|queue| self.flush_later(queue));
        for (queue, dirty) in tried.iter().zip(dirty) {
            queue.keep_dirty(dirty);
        }
    }
}

/// Syncs the unsynced files of these queues.
fn sync(queues: &[Arc<ConsumeQueue>], dirty: &[[Dirty; 2]]) -> Result<(), StoreError> {
    let mut directories = BTreeSet::new();
    for (dirty, queue) in dirty.iter().zip(queues) {
        queue.flush_files(dirty, &mut directories)?;
    }
    queue_files::sync_directories(&directories)
}
