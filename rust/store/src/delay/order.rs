//! The order in which a level's messages are due after the clock was set back.
//!
//! All messages of a level have the same delay, so they are normally due in queue order. After the
//! clock was set back, newer messages get earlier due times than older ones, and must not wait for
//! them. So the older ones count as due at the same time: they have waited at least as long.

use std::collections::VecDeque;

/// Most remembered clock steps of a level.
const STEPS_MAX: usize = 1_024;

/// The due times seen in a level's queue.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Queue offset after the last entry that was seen.
    seen: i64,
    last_due_ms: i64,
    /// Queue offset and due time of entries that are due before the entry in front of them.
    steps: VecDeque<(i64, i64)>,
}

impl Order {
    /// The next entry to see. Entries from `next` on are pending; earlier steps are dropped.
    pub(crate) fn unseen(&mut self, next: i64) -> i64 {
        while self.steps.front().is_some_and(|(at, _)| *at <= next) {
            self.steps.pop_front();
        }
        self.seen = self.seen.max(next);
        self.seen
    }

    /// Notes the next entry; `due_ms` is None if the entry has no due time.
    pub(crate) fn see(&mut self, offset: i64, due_ms: Option<i64>) {
        self.seen = offset + 1;
        let Some(due_ms) = due_ms else {
            return;
        };
        if due_ms < self.last_due_ms && self.steps.len() < STEPS_MAX {
            self.steps.push_back((offset, due_ms));
        }
        self.last_due_ms = due_ms;
    }

    /// The effective due time of the entry at `offset`, whose own due time is `due_ms`.
    pub(crate) fn due_ms(&self, offset: i64, due_ms: i64) -> i64 {
        let behind = self.steps.iter().filter(|(at, _)| *at > offset);
        behind.map(|(_, due_ms)| *due_ms).fold(due_ms, i64::min)
    }
}
