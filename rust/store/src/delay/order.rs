//! The order in which a level's messages are due, where the clock was set back.
//!
//! All messages of a level wait equally long, so they are due in the order of their queue. A clock
//! that was set back gives those stored after the step earlier times. They must not wait for the
//! ones before them, which are due as well: they were stored earlier.

use std::collections::VecDeque;

/// Steps of the clock that are remembered for a level.
const STEPS_MAX: usize = 1_024;

/// What was seen of a level's queue.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Queue offset behind the last entry that was seen.
    seen: i64,
    last_due_ms: i64,
    /// Entries due before the entry in front of them: queue offset and time.
    steps: VecDeque<(i64, i64)>,
}

impl Order {
    /// Where to go on seeing, for a level whose entries from `next` on wait.
    pub(crate) fn unseen(&mut self, next: i64) -> i64 {
        while self.steps.front().is_some_and(|(at, _)| *at <= next) {
            self.steps.pop_front();
        }
        self.seen = self.seen.max(next);
        self.seen
    }

    /// Sees the next entry; `due_ms` is None for an entry that does not say when it is due.
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

    /// When the entry at `offset`, which says `due_ms`, is due.
    pub(crate) fn due_ms(&self, offset: i64, due_ms: i64) -> i64 {
        let behind = self.steps.iter().filter(|(at, _)| *at > offset);
        behind.map(|(_, due_ms)| *due_ms).fold(due_ms, i64::min)
    }
}
