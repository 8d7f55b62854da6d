//! Queues that dispatch met lately, found without a lock: neighbours in the log go to few queues.

use std::sync::Arc;

use super::consume_queue::ConsumeQueue;
use super::consume_queues::ConsumeQueues;

/// Queues remembered; a power of two.
const SLOTS: usize = 1_024;

/// A queue, and where it was put in a batch.
pub(super) struct Slot {
    pub(super) queue: Arc<ConsumeQueue>,
    pub(super) place: usize,
}

/// At most one queue per slot, the one met last.
#[derive(Default)]
pub(super) struct RecentQueues {
    slots: Vec<Option<Slot>>,
    /// Queues removed when the slots were last emptied.
    removals: u64,
}

impl RecentQueues {
    /// The queue of a record, made if needed; None where no queue can have that name.
    pub(super) fn get(
        &mut self,
        queues: &ConsumeQueues,
        topic: &str,
        queue_id: i32,
    ) -> Option<&mut Slot> {
        let removals = queues.removals();
        if self.slots.is_empty() || self.removals != removals {
            self.slots.clear();
            self.slots.resize_with(SLOTS, || None);
            self.removals = removals;
        }
        let slot = &mut self.slots[place(topic, queue_id)];
        let is_it = |slot: &Slot| slot.queue.queue_id() == queue_id && slot.queue.topic() == topic;
        if !slot.as_ref().is_some_and(is_it) {
            let queue = queues.for_record(topic, queue_id)?;
            *slot = Some(Slot { queue, place: 0 });
        }
        slot.as_mut()
    }
}

/// Topics that follow a scheme differ at their end.
fn place(topic: &str, queue_id: i32) -> usize {
    let last = topic.as_bytes().last_chunk::<8>();
    let last = last.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mixed = (last ^ topic.len() as u64 ^ u64::from(queue_id.unsigned_abs()) << 32)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 54).unwrap_or(0) % SLOTS
}
