//! The records of each queue that the check of the log found.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::derive::queues::queue::ConsumeQueue;
use crate::scan::log_check::Queued;

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
}

impl SeenQueues {
    pub(super) fn note(&self, queued: &Queued<'_>) {
        let mut topics = self.0.borrow_mut();
        if !topics.contains_key(queued.topic) {
            topics.insert(queued.topic.to_owned(), HashMap::new());
        }
        if let Some(queues) = topics.get_mut(queued.topic) {
            let seen = SeenRecords::from(queued);
            let of_queue = queues.entry(queued.queue_id).or_insert(seen);
            (of_queue.last, of_queue.last_physical) = (seen.last, seen.last_physical);
        }
    }

    pub(super) fn of(&self, queue: &ConsumeQueue) -> Option<SeenRecords> {
        let topics = self.0.borrow();
        topics.get(queue.topic())?.get(&queue.queue_id()).copied()
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
        }
    }
}
