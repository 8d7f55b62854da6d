//! When a pull that failed is sent again, and when no more.

use std::time::{Duration, Instant};

use crate::backoff::Backoff;

const PAUSE_MAX: Duration = Duration::from_secs(3);

/// The failures of one pull in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outage {
    backoff: Backoff,
}

impl Outage {
    /// Counts a failure; when to send the pull again, None once the budget is spent.
    pub fn failed(&mut self, now: Instant, budget: Duration) -> Option<Instant> {
        self.backoff.failed(now, budget, PAUSE_MAX)
    }

    /// Whether the next attempt asks the slave: each second one does.
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
