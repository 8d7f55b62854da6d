//! When the consume queues of a store are written, and made durable: some at a time, all in one go.
//!
//! A write for which the disk has no room may be tried again, and so may the flush that it was part
//! of, or that found no file descriptor: no sync failed, and what it took note of is kept. A sync
//! that failed may not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::pending::ALL_BYTES_MAX;
use super::queue::ConsumeQueue;
use super::sparse_files::{self, Dirty};
use super::table::ConsumeQueues;
use crate::files::io_error;
use crate::types::StoreError;

/// Most files synced one by one; more are synced with all of the file system at once.
const SYNCS_MAX: usize = 256;
/// Queues that are written more often than they are flushed.
pub(crate) const FEW_QUEUES: usize = 256;

impl ConsumeQueues {
    /// Lets readers see what was appended to these queues. It is written later, unless too much is
    /// pending. Called by the dispatcher alone; again with the same queues after a full disk.
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

    /// Writes all that is pending.
    pub(crate) fn write_pending(&self) -> Result<(), StoreError> {
        // A copy: who publishes does not wait for the disk.
        let noted = self.noted.lock().clone();
        noted.iter().try_for_each(|queue| queue.write_pending())
    }

    /// Writes all that is pending, if it is of few queues: with many, units of each have to gather
    /// until the next flush for a write to be worth its while.
    pub(crate) fn write_few(&self) -> Result<(), StoreError> {
        match self.are_few() {
            true => self.write_pending(),
            false => Ok(()),
        }
    }

    /// Whether few queues got units since the last flush.
    pub(crate) fn are_few(&self) -> bool {
        self.noted.lock().len() <= FEW_QUEUES
    }

    /// Has the next [`Self::flush`] look at a queue.
    pub(crate) fn flush_later(&self, queue: &Arc<ConsumeQueue>) {
        if queue.note() {
            self.noted.lock().push(Arc::clone(queue));
        }
    }

    /// One pass that writes what is pending and makes everything written so far durable. Once it
    /// failed it always does, unless it was for a write on a full disk.
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
            // For want of a descriptor.
            self.keep_noted(&queues, dirty);
        }
        synced
    }

    /// Takes back queues that were to be flushed, the first of which gave what is dirty of them.
    fn keep_noted(&self, queues: &[Arc<ConsumeQueue>], dirty: Vec<[Dirty; 2]>) {
        let tried = queues.len().min(dirty.len() + 1);
        let (tried, others) = queues.split_at(tried);
        // These still count as noted.
        self.noted.lock().extend(others.iter().cloned());
        tried.iter().for_each(|queue| self.flush_later(queue));
        for (queue, dirty) in tried.iter().zip(dirty) {
            queue.keep_dirty(dirty);
        }
    }
}

/// Makes durable what was written of these queues, each with what is dirty of it.
fn sync(queues: &[Arc<ConsumeQueue>], dirty: &[[Dirty; 2]]) -> Result<(), StoreError> {
    let mut directories = BTreeSet::new();
    for (dirty, queue) in dirty.iter().zip(queues) {
        queue.flush_files(dirty, &mut directories)?;
    }
    sparse_files::sync_directories(&directories)
}
