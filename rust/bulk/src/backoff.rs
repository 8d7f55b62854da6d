//! When a request that failed is sent again: pauses that grow, within a budget of time.

use std::time::{Duration, Instant};

/// The pause before the second attempt; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The failures of one request in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    since: Option<Instant>,
    failures: u32,
}

impl Backoff {
    /// Counts a failure; when to send the request again, None once the budget is spent, which
    /// begins with the first failure.
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

    /// The failures so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}
