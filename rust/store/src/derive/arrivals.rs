//! The messages that one dispatch batch made readable, passed to the listener in one call.

use std::sync::Arc;

use crate::derive::queues::queue::ConsumeQueue;
use crate::types::Arrival;

/// Called with new readable messages, once per batch.
pub type ArrivalListener = dyn Fn(&Arrivals<'_>) + Send + Sync;

/// Messages that became readable.
pub struct Arrivals<'a> {
    queues: &'a [Arc<ConsumeQueue>],
    arrived: &'a [Arrived],
}

/// A message that became readable in the queue with index `place` of the batch.
pub(crate) struct Arrived {
    pub(crate) place: usize,
    pub(crate) max_offset: i64,
    pub(crate) tags_code: i64,
}

impl<'a> Arrivals<'a> {
    pub(crate) fn new(queues: &'a [Arc<ConsumeQueue>], arrived: &'a [Arrived]) -> Self {
        Self { queues, arrived }
    }

    /// All messages, in log order.
    pub fn iter(&self) -> impl Iterator<Item = Arrival<'_>> {
        self.arrived.iter().map(|arrived| self.arrival(arrived))
    }

    /// Passes messages to `is_awaited` in log order. After it returned false for a queue, later
    /// messages of that queue are left out: a client that starts to wait now finds them in the
    /// queue.
    pub fn while_awaited(&self, mut is_awaited: impl FnMut(&Arrival<'_>) -> bool) {
        let mut is_done = vec![false; self.queues.len()];
        for arrived in self.arrived {
            let is_done = &mut is_done[arrived.place];
            *is_done = *is_done || !is_awaited(&self.arrival(arrived));
        }
    }

    fn arrival(&self, arrived: &Arrived) -> Arrival<'a> {
        let queue = &self.queues[arrived.place];
        Arrival {
            topic: queue.topic(),
            queue_id: queue.queue_id(),
            max_offset: arrived.max_offset,
            tags_code: arrived.tags_code,
        }
    }

    /// Whether a message of the topic may be among them.
    pub(crate) fn may_have(&self, topic: &str) -> bool {
        self.queues.iter().any(|queue| queue.topic() == topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::queues::table::ConsumeQueues;
    use crate::settings::Settings;

    #[test]
    fn a_queue_is_left_out_once_no_client_waits_for_it() {
        let root = tempfile::tempdir().unwrap();
        let queues = ConsumeQueues::open(root.path(), &Settings::default(), false).unwrap();
        let queues = [0, 1, 2].map(|queue_id| queues.for_record("T", queue_id).unwrap());
        let of_all = |number| {
            (0..3).map(move |place| Arrived {
                place,
                max_offset: number,
                tags_code: 0,
            })
        };
        let arrived: Vec<_> = (1..=100).flat_map(of_all).collect();
        let arrivals = Arrivals::new(&queues, &arrived);
        assert_eq!(arrivals.iter().count(), 300);
        let mut asked = Vec::new();
        arrivals.while_awaited(|arrival| {
            asked.push((arrival.queue_id, arrival.max_offset));
            // No client waits; a client is served by the third message; a client waits for another
            // message.
            match arrival.queue_id {
                0 => false,
                1 => arrival.max_offset < 3,
                _ => true,
            }
        });
        let of = |queue_id| asked.iter().filter(move |(of, _)| *of == queue_id).count();
        assert_eq!([of(0), of(1), of(2)], [1, 3, 100]);
    }
}
