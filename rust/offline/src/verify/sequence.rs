//! Queue offsets in the order of the log: each queue counts on by one.

use std::collections::HashMap;

/// The next offset of each queue that is not on disk as far as the log goes.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    queues: HashMap<String, HashMap<i32, Next>>,
    /// Where the last record was lost, bytes from the start of the log; -1 for nowhere.
    lost_at: i64,
    has_lost: bool,
}

/// What a queue's next record must say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    pub offset: i64,
    /// Where the last record of the queue is.
    pub after: i64,
}

impl Sequences {
    /// Records were lost at this place: offsets may be missing after it.
    pub(super) fn lost(&mut self, at: i64) {
        (self.lost_at, self.has_lost) = (at, true);
    }

    /// Takes a record; returns the offset that it should have had if it jumps ahead. `least` is
    /// what the queue has at least, None where nothing says so.
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
