//! Queues of topics whose messages were deleted: what of them readers see, and how they number on.

use std::sync::atomic::Ordering;

use super::queue::ConsumeQueue;
use super::table::ConsumeQueues;
use crate::directory::deleted::Deletions;
use crate::types::StoreError;

impl ConsumeQueues {
    /// Follows the deletions of another store: these queues are built for it.
    pub fn obey(&mut self, deletions: Deletions) {
        self.deletions = deletions;
        for queue in self.all() {
            self.obey_deletion(&queue);
        }
    }

    /// Hides a queue's deleted messages from the next [`ConsumeQueue::set_min_from`] on.
    pub(crate) fn obey_deletion(&self, queue: &ConsumeQueue) {
        let deleted_to = self.deletions.log_end_of(queue.topic());
        queue.deleted_to.store(deleted_to, Ordering::Release);
    }

    /// Whether a queue may begin at a later offset than 0 because its first messages were deleted.
    pub(crate) fn begins_deleted(&self, queue: &ConsumeQueue) -> bool {
        let next = self.deletions.next_offset(queue.topic(), queue.queue_id());
        next > 0 && queue.written().0 <= next
    }

    /// Queues that never had a message, or have none because all were deleted, tell nothing of
    /// their topic.
    pub(crate) fn is_emptied(&self, queue: &ConsumeQueue) -> bool {
        let next = self.deletions.next_offset(queue.topic(), queue.queue_id());
        next > 0 && queue.min_offset() == queue.max_offset()
    }

    /// Ends deletions where the log ends, and has each queue number on from where it was when its
    /// messages were deleted, although the log may tell nothing of them any more.
    pub fn settle_deletions(&self, log_end: u64) -> Result<(), StoreError> {
        self.deletions.end_at(log_end.cast_signed())?;
        for (topic, deletion) in self.deletions.all() {
            for (queue_id, next) in deletion.next_offsets {
                let Some(queue) = self.for_record(&topic, queue_id) else {
                    continue;
                };
                self.obey_deletion(&queue);
                if queue.max_offset() < next && queue.end_physical() <= deletion.log_end {
                    queue.pad_to(next)?;
                    self.flush_later(&queue);
                }
            }
        }
        Ok(())
    }
}
