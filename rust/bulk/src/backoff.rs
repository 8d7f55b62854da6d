//! Pauses before the retries of a failed request: they grow, within a time budget.

use std::time::{Duration, Instant};

/// The pause before the second attempt; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Consecutive failures of one request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    since: Option<Instant>,
    failures: u32,
}

impl Backoff {
    /// Counts a failure and returns the time of the next attempt. None when the budget, which
    /// starts with the first failure, is used up.
    pub fn failed(
        &mut self,
        now: Instant,
        budget: Duration,
        pause_max: Duration,
    ) -> Option<Instant> {
        let end = *self.since.get_or_insert(now) + budget;
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        (now < end).then(|| (now + pause.min(pause_max)).min(end))
    }

    /// Number of failures so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}
