//! Queues of topics with deleted messages: which entries readers see, and the next queue offsets.

use std::sync::atomic::Ordering;

use super::queue::ConsumeQueue;
use super::table::ConsumeQueues;
use crate::directory::deleted::Deletions;
use crate::types::StoreError;

impl ConsumeQueues {
    /// Uses the deletions of another store, for which these queues are built.
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

    /// Whether a queue may start after offset 0 because its first messages were deleted.
    pub(crate) fn begins_deleted(&self, queue: &ConsumeQueue) -> bool {
        let next = self.deletions.next_offset(queue.topic(), queue.queue_id());
        next > 0 && queue.written().0 <= next
    }

    /// Whether all messages of a queue were deleted. Such a queue does not show that its topic
    /// exists.
    pub(crate) fn is_emptied(&self, queue: &ConsumeQueue) -> bool {
        let next = self.deletions.next_offset(queue.topic(), queue.queue_id());
        next > 0 && queue.min_offset() == queue.max_offset()
    }

    /// Limits deletions to the end of the log. Pads each queue to its next offset at the deletion,
    /// because the log may have no record of its messages any more.
    pub fn apply_deletions(&self, log_end: u64) -> Result<(), StoreError> {
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
