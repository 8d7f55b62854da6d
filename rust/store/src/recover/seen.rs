//! The records of each queue that the check of the log found.

use std::cell::RefCell;
use std::collections::HashMap;

use super::log_check::Queued;
use crate::derive::queues::queue::ConsumeQueue;
use mq_format::message::RecordView;

/// The records of each queue that the check of the log found.
#[derive(Debug, Default)]
pub(super) struct SeenQueues(RefCell<HashMap<String, HashMap<i32, SeenRecords>>>);

/// Queue offset and log offset of a queue's first and last record in the checked log.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenRecords {
    pub first: i64,
    pub first_physical: u64,
    pub last: i64,
    pub last_physical: u64,
    /// Whether the queue offsets rise by one from the first to the last.
    pub is_even: bool,
}

impl SeenQueues {
    pub(super) fn note(&self, queued: &Queued<'_>) {
        let mut topics = self.0.borrow_mut();
        if !topics.contains_key(queued.topic) {
            topics.insert(queued.topic.to_owned(), HashMap::new());
        }
        if let Some(queues) = topics.get_mut(queued.topic) {
            let seen = SeenRecords::from(queued);
            let mut is_first = false;
            let of_queue = queues.entry(queued.queue_id).or_insert_with(|| {
                is_first = true;
                seen
            });
            of_queue.is_even &= is_first || seen.first == of_queue.last.wrapping_add(1);
            (of_queue.last, of_queue.last_physical) = (seen.last, seen.last_physical);
        }
    }

    pub(super) fn of(&self, queue: &ConsumeQueue) -> Option<SeenRecords> {
        self.get(queue.topic(), queue.queue_id())
    }

    fn get(&self, topic: &str, queue_id: i32) -> Option<SeenRecords> {
        self.0.borrow().get(topic)?.get(&queue_id).copied()
    }

    /// Whether a record that is not the first of its queue has the next queue offset, and all
    /// others of its queue have, too.
    pub(super) fn is_in_sequence(&self, record: &RecordView<'_>) -> bool {
        let place = record.physical_offset.cast_unsigned();
        let seen = self.get(record.topic, record.queue_id);
        seen.is_some_and(|seen| {
            let after_first = seen.first_physical + 1..=seen.last_physical;
            seen.is_even && after_first.contains(&place)
        })
    }

    /// Calls `look` for each queue; returns the smallest offset.
    pub(super) fn least(
        &self,
        look: impl Fn(&str, i32, SeenRecords) -> Option<u64>,
    ) -> Option<u64> {
        let topics = self.0.borrow();
        let queues = topics
            .iter()
            .flat_map(|(topic, queues)| queues.iter().map(move |(id, seen)| (topic, id, seen)));
        queues
            .filter_map(|(topic, id, seen)| look(topic, *id, *seen))
            .min()
    }
}

impl From<&Queued<'_>> for SeenRecords {
    fn from(queued: &Queued<'_>) -> Self {
        Self {
            first: queued.first,
            first_physical: queued.first_physical,
            last: queued.last,
            last_physical: queued.last_physical,
            is_even: true,
        }
    }
}
