//! Facts about queues that a put needs: the next offset of each, and whether there are too many
//! light queues.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::settings::MultiDispatch;
use mq_format::multi_dispatch;
use std::sync::atomic::{AtomicU32, Ordering};

/// Offsets of queues with ids below this are in a dense array.
const DENSE_IDS: usize = 1_024;

/// The next offset of every queue.
#[derive(Debug, Default)]
pub(crate) struct QueueOffsets {
    /// Index in `queues`. A look-up of a known topic copies no name.
    topics: HashMap<Arc<str>, usize>,
    queues: Vec<(Arc<str>, Queues)>,
    /// Index of the last topic, which is often the next one, too.
    last: usize,
}

/// Next offsets of one topic's queues; compact, because there may be many topics.
#[derive(Debug, Default)]
struct Queues {
    dense: Vec<i64>,
    others: BTreeMap<i32, i64>,
}

impl QueueOffsets {
    /// The next offset of a queue; 0 for a new one.
    pub(crate) fn entry(&mut self, topic: &str, queue_id: i32) -> &mut i64 {
        let is_last = self.queues.get(self.last);
        if is_last.is_none_or(|(name, _)| **name != *topic) {
            self.last = self.place_of(topic);
        }
        self.queues[self.last].1.entry(queue_id)
    }

    fn place_of(&mut self, topic: &str) -> usize {
        if let Some(place) = self.topics.get(topic) {
            return *place;
        }
        let (name, place) = (Arc::<str>::from(topic), self.queues.len());
        self.topics.insert(Arc::clone(&name), place);
        self.queues.push((name, Queues::default()));
        place
    }

    /// The wanted topics, with the next offset of each queue that has had a message.
    pub(crate) fn of_topics(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&str, BTreeMap<i32, i64>)> {
        let wanted = self
            .queues
            .iter()
            .filter(move |(topic, _)| is_wanted(topic));
        wanted.map(|(topic, queues)| (&**topic, queues.used()))
    }

    /// The next offset in each queue of INNER_MULTI_DISPATCH; 0 for an impossible queue name.
    pub(crate) fn multi(&mut self, text: &[u8], queue_id: i32, lmq_enabled: bool) -> Vec<i64> {
        multi_dispatch::dispatch_names(text)
            .map(|name| match multi_dispatch::is_queue_name(name) {
                true => *self.multi_entry(name, queue_id, lmq_enabled),
                false => 0,
            })
            .collect()
    }

    /// Takes the offsets that [`QueueOffsets::multi`] returned. A queue named twice takes one
    /// offset.
    pub(crate) fn advance_multi(
        &mut self,
        text: &[u8],
        queue_id: i32,
        lmq_enabled: bool,
        taken: &[i64],
    ) {
        for (name, offset) in multi_dispatch::dispatch_names(text).zip(taken) {
            if multi_dispatch::is_queue_name(name) {
                *self.multi_entry(name, queue_id, lmq_enabled) = offset + 1;
            }
        }
    }

    fn multi_entry(&mut self, name: &str, queue_id: i32, lmq_enabled: bool) -> &mut i64 {
        let queue_id = multi_dispatch::queue_id_in(name, queue_id, lmq_enabled);
        self.entry(name, queue_id)
    }
}

impl Queues {
    fn used(&self) -> BTreeMap<i32, i64> {
        let ids = (0_i32..).zip(&self.dense);
        let all = ids.chain(self.others.iter().map(|(id, next)| (*id, next)));
        all.filter(|(_, next)| **next > 0)
            .map(|(id, next)| (id, *next))
            .collect()
    }

    fn entry(&mut self, queue_id: i32) -> &mut i64 {
        match usize::try_from(queue_id) {
            Ok(place) if place < DENSE_IDS => {
                if place >= self.dense.len() {
                    self.dense.reserve_exact(place + 1 - self.dense.len());
                    self.dense.resize(place + 1, 0);
                }
                &mut self.dense[place]
            }
            _ => self.others.entry(queue_id).or_insert(0),
        }
    }
}

/// Counts the light queues on disk, for the limit `maxLmqConsumeQueueNum`.
#[derive(Debug)]
pub(crate) struct LightQueues {
    /// None if light queues are disabled; then there is no limit.
    most: Option<u32>,
    count: AtomicU32,
}

impl LightQueues {
    pub(crate) fn new(settings: MultiDispatch) -> Self {
        let limited = settings.enabled && settings.lmq_enabled;
        Self {
            most: limited.then_some(settings.lmq_queues_max),
            count: AtomicU32::new(0),
        }
    }

    /// Notes that a queue of this topic was created.
    pub(crate) fn added(&self, topic: &str) {
        self.count
            .fetch_add(multi_dispatch::is_lmq(topic).into(), Ordering::Relaxed);
    }

    /// Notes that a queue of this topic was removed.
    pub(crate) fn removed(&self, topic: &str) {
        self.count
            .fetch_sub(multi_dispatch::is_lmq(topic).into(), Ordering::Relaxed);
    }

    /// Whether the limit is exceeded, so that no message may enter further queues. RocketMQ then
    /// also refuses reads of light queues; we do not.
    pub(crate) fn are_too_many(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        self.most.is_some_and(|most| count > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_its_own_next_offset() {
        let mut offsets = QueueOffsets::default();
        for (add, topic) in [(1, "A"), (100, "B")] {
            for queue_id in [3, 0, -1, 1_023, 1_024, i32::MAX] {
                *offsets.entry(topic, queue_id) += i64::from(queue_id) + add;
            }
        }
        for (add, topic) in [(1, "A"), (100, "B")] {
            for queue_id in [3, 0, -1, 1_023, 1_024, i32::MAX] {
                assert_eq!(*offsets.entry(topic, queue_id), i64::from(queue_id) + add);
            }
        }
        assert_eq!(*offsets.entry("A", 2), 0);
    }

    #[test]
    fn a_queue_named_twice_takes_one_offset() {
        let mut offsets = QueueOffsets::default();
        let text = b"INNER_MULTI_DISPATCH\x01%LMQ%a,b,b,../c";
        for expected in 0..3 {
            let taken = offsets.multi(text, 5, true);
            assert_eq!(taken, [expected, expected, expected, 0]);
            offsets.advance_multi(text, 5, true, &taken);
        }
        assert_eq!(*offsets.entry("%LMQ%a", 0), 3);
        assert_eq!(*offsets.entry("b", 5), 3);
    }
}
