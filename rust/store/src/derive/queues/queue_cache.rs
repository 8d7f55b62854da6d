//! A cache of queues for dispatch. A look-up takes no lock and touches no other queue, because with
//! many queues each touch is a cache miss.

use std::sync::Arc;

use super::queue::ConsumeQueue;
use super::table::ConsumeQueues;

/// Initial and largest number of slots; powers of two. A slot takes 24 bytes.
const SLOTS_MIN: usize = 1_024;
const SLOTS_MAX: usize = 65_536;

/// A queue, and its index in a dispatch batch.
pub(crate) struct Slot {
    /// Hash of topic and queue id.
    mixed: u64,
    pub(crate) queue: Arc<ConsumeQueue>,
    pub(crate) place: usize,
}

/// A queue is in one of two neighbouring slots. There are twice as many slots as queues, up to
/// [`SLOTS_MAX`]; then a new queue replaces an old one.
#[derive(Default)]
pub(crate) struct QueueCache {
    slots: Vec<Option<Slot>>,
    /// Number of used slots.
    filled: usize,
    /// Value of [`ConsumeQueues::removals`] when the slots were last cleared.
    removals: u64,
}

impl QueueCache {
    /// The queue of a record, created if needed; None if no queue can have that name.
    pub(crate) fn get(
        &mut self,
        queues: &ConsumeQueues,
        topic: &str,
        queue_id: i32,
    ) -> Option<&mut Slot> {
        let removals = queues.removals();
        if self.slots.is_empty() || self.removals != removals {
            self.resize(SLOTS_MIN);
            self.removals = removals;
        }
        let mixed = mixed(topic, queue_id);
        let is_it = |slot: &Option<Slot>| {
            slot.as_ref().is_some_and(|slot| {
                let queue = &slot.queue;
                slot.mixed == mixed && queue.queue_id() == queue_id && queue.topic() == topic
            })
        };
        let mut places = self.places_of(mixed).into_iter();
        let found = places.find(|at| is_it(&self.slots[*at]));
        let at = match found {
            Some(at) => at,
            None => self.insert(Slot {
                mixed,
                queue: queues.for_record(topic, queue_id)?,
                place: 0,
            }),
        };
        self.slots[at].as_mut()
    }

    /// Inserts a queue; returns its slot.
    fn insert(&mut self, slot: Slot) -> usize {
        if self.filled * 2 >= self.slots.len() && self.slots.len() < SLOTS_MAX {
            let old = std::mem::take(&mut self.slots);
            self.resize(old.len() * 2);
            for slot in old.into_iter().flatten() {
                self.put(slot);
            }
        }
        self.put(slot)
    }

    fn put(&mut self, slot: Slot) -> usize {
        let places = self.places_of(slot.mixed);
        let at = places.into_iter().find(|at| self.slots[*at].is_none());
        self.filled += usize::from(at.is_some());
        let at = at.unwrap_or(places[0]);
        self.slots[at] = Some(slot);
        at
    }

    fn resize(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize_with(slots, || None);
        self.filled = 0;
    }

    /// The two possible slots of a queue, the preferred one first.
    fn places_of(&self, mixed: u64) -> [usize; 2] {
        let bits = self.slots.len().trailing_zeros();
        let first = usize::try_from(mixed >> (64 - bits)).unwrap_or(0);
        [first, first ^ 1]
    }
}

/// Hashes the end of the topic, because topics of one naming scheme differ there.
fn mixed(topic: &str, queue_id: i32) -> u64 {
    let topic = topic.as_bytes();
    let last = match topic.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => topic
            .iter()
            .fold(0, |last, byte| last << 8 | u64::from(*byte)),
    };
    (last ^ topic.len() as u64 ^ u64::from(queue_id.unsigned_abs()) << 32)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn each_queue_is_found_when_there_are_more_than_slots() {
        let root = tempfile::tempdir().unwrap();
        let queues = ConsumeQueues::open(root.path(), &Settings::default(), false).unwrap();
        let mut recent = QueueCache::default();
        // Two topics have the same hash, and there are more queues than slots.
        let topics = [
            "A",
            "B",
            "LongEnough-1",
            "LongEnough-2",
            "OtherLongEnough-2",
        ];
        for round in 0..2 {
            for queue_id in 0..14_000 {
                for topic in topics {
                    let slot = recent.get(&queues, topic, queue_id).unwrap();
                    assert_eq!(slot.queue.topic(), topic);
                    assert_eq!(slot.queue.queue_id(), queue_id);
                    if round == 0 {
                        assert_eq!(slot.place, 0);
                        slot.place = 7;
                    }
                }
            }
        }
        assert_eq!(recent.slots.len(), SLOTS_MAX);
        assert!(recent.filled <= SLOTS_MAX);
        assert!(recent.get(&queues, "../A", 0).is_none());
        let gone = queues.get("LongEnough-1", 13_999).unwrap();
        queues.remove(&gone).unwrap();
        let anew = &recent.get(&queues, "LongEnough-1", 13_999).unwrap().queue;
        assert!(!Arc::ptr_eq(anew, &gone));
    }
}
