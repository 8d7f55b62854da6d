//! Completes queues that are shorter than recorded in [`QueueEnds`].

use super::missing_entries::MissingEntries;
use super::recovery::Recovery;
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::directory::log_facts::LogFacts;
use crate::directory::queue_ends::{EndOfQueue, Found, QueueEnds};
use crate::types::StoreError;

impl Recovery<'_> {
    /// The recorded ends, empty if there are none, and whether their file is damaged.
    pub(super) fn known_ends(&self) -> Result<(QueueEnds, bool), StoreError> {
        let found = QueueEnds::read(self.root)?;
        let is_ours = LogFacts::is_there(self.root) && !self.log.starts().is_empty();
        if matches!(found, Found::Missing) && is_ours {
            tracing::warn!(
                "mqstack/queue_ends is missing: the start cannot tell whether the last entries of \
                 quiet consume queues are there; mqstore verify can"
            );
        }
        if matches!(found, Found::Damaged) {
            tracing::warn!(
                "mqstack/queue_ends is damaged: the consume queues are completed from the whole log"
            );
        }
        Ok(match found {
            Found::Ends(ends) => (ends, false),
            Found::Missing => (QueueEnds::default(), false),
            Found::Damaged => (QueueEnds::default(), true),
        })
    }

    /// Whether a queue lacks entries before its recorded end whose records are in the log.
    pub(super) fn is_short(
        &self,
        queues: &ConsumeQueues,
        queue: &ConsumeQueue,
        ends: &QueueEnds,
    ) -> bool {
        let end = ends.of(queue.topic(), queue.queue_id());
        end.is_some_and(|end| {
            queue.max_offset() < end.end
                && self.is_in_log(queues, &end)
                && !is_new_since(queue, ends)
        })
    }

    /// Whether all recorded queues exist and none is short.
    pub(super) fn has_known_ends(
        &self,
        queues: &ConsumeQueues,
        ends: &QueueEnds,
        lost: &MissingEntries<'_>,
    ) -> bool {
        let mut all = queues.all().into_iter();
        all.all(|queue| !self.is_short(queues, &queue, ends))
            && !self.misses_queue(queues, ends, lost)
    }

    /// Whether a recorded queue with records in the log does not exist.
    pub(super) fn misses_queue(
        &self,
        queues: &ConsumeQueues,
        ends: &QueueEnds,
        lost: &MissingEntries<'_>,
    ) -> bool {
        let missing = ends.all().find(|end| {
            queues.get(end.topic, end.queue_id).is_none()
                && self.is_in_log(queues, end)
                && lost.is_known(end.topic)
        });
        if let Some(end) = missing {
            tracing::warn!(
                topic = end.topic,
                queue_id = end.queue_id,
                "rebuilding a consume queue: it is missing, but the log has records of it"
            );
        }
        missing.is_some()
    }

    /// Whether the log may still contain the last record before an end, and it was not deleted.
    fn is_in_log(&self, queues: &ConsumeQueues, end: &EndOfQueue<'_>) -> bool {
        let log_start = self.log.min_offset().cast_signed();
        end.end_physical > log_start.max(queues.deletions.log_end_of(end.topic))
    }

    /// Adds holes to the queues that are still short because damage took records from the log, so
    /// that none of their offsets is used again.
    pub(super) fn reach_known_ends(
        queues: &ConsumeQueues,
        ends: &QueueEnds,
    ) -> Result<(), StoreError> {
        for end in ends.all() {
            let Some(queue) = queues.get(end.topic, end.queue_id) else {
                continue;
            };
            if queue.max_offset() < end.end && !is_new_since(&queue, ends) {
                queue.pad_to(end.end)?;
                queues.flush_later(&queue);
            }
        }
        Ok(())
    }
}

/// Whether a queue was created again after the ends were recorded, for example because RocketMQ
/// deleted its topic.
fn is_new_since(queue: &ConsumeQueue, ends: &QueueEnds) -> bool {
    let (first, end) = queue.written();
    let entry = queue.stored_entry(first).filter(|_| first < end);
    entry.is_some_and(|entry| {
        !entry.is_hole() && entry.physical_offset >= ends.log_end.cast_signed()
    })
}
