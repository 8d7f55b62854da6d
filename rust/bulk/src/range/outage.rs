//! When a failed pull is sent again, and when it is given up.

use std::time::{Duration, Instant};

use crate::backoff::Backoff;

const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Consecutive failures of one pull.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outage {
    backoff: Backoff,
}

impl Outage {
    /// Counts a failure; returns the time of the next attempt, None when the budget is used up.
    pub fn failed(&mut self, now: Instant, budget: Duration) -> Option<Instant> {
        self.backoff.failed(now, budget, PAUSE_MAX)
    }

    /// Whether the next attempt goes to the slave, as every second one does.
    pub fn asks_slave(&self) -> bool {
        self.backoff.failures() % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_budget_is_spent() {
        let begun = Instant::now();
        let budget = Duration::from_secs(10);
        let (mut outage, mut now, mut pauses) = (Outage::default(), begun, Vec::new());
        while let Some(at) = outage.failed(now, budget) {
            pauses.push((at - now).as_millis());
            now = at;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3000, 3000, 900]);
        assert_eq!(now, begun + budget);
    }

    #[test]
    fn the_slave_is_asked_after_the_master() {
        let mut outage = Outage::default();
        let mut asked = Vec::new();
        for _ in 0..4 {
            asked.push(outage.asks_slave());
            outage.failed(Instant::now(), Duration::from_secs(1));
        }
        assert_eq!(asked, [false, true, false, true]);
    }
}
