//! Queue offsets in log order: each queue counts up by one.

use std::collections::HashMap;

/// The next offset of each queue. Used for records whose entry is not on disk.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    queues: HashMap<String, HashMap<i32, Next>>,
    /// Physical offset of the last lost record, valid if `has_lost`.
    lost_at: i64,
    has_lost: bool,
}

/// The expectation for the next record of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    pub offset: i64,
    /// Physical offset of the queue's last record.
    pub after: i64,
}

impl Sequences {
    /// Notes a lost record: queue offsets may be missing after it.
    pub(super) fn lost(&mut self, at: i64) {
        (self.lost_at, self.has_lost) = (at, true);
    }

    /// Notes a record. Returns the expected offset if the record skips ahead of it. `least` is the
    /// smallest possible end of the queue, if known.
    pub(super) fn jump(
        &mut self,
        (topic, queue_id, offset): (&str, i32, i64),
        at: i64,
        least: Option<i64>,
    ) -> Option<i64> {
        if !self.queues.contains_key(topic) {
            self.queues.insert(topic.to_owned(), HashMap::new());
        }
        let queues = self.queues.get_mut(topic)?;
        let known = queues.insert(
            queue_id,
            Next {
                offset: offset.saturating_add(1),
                after: at,
            },
        );
        let lost_since = |after: i64| self.has_lost && self.lost_at > after;
        let (expected, after) = match (known, least) {
            (Some(known), least) => (known.offset.max(least.unwrap_or(0)), known.after),
            (None, Some(least)) => (least, -1),
            (None, None) => return None,
        };
        (offset > expected && !lost_since(after)).then_some(expected)
    }
}
