//! When a pull that failed is sent again, and when no more.

use std::time::{Duration, Instant};

/// The pause before the second attempt; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// The failures of one pull in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    since: Instant,
    failures: u32,
}

impl Outage {
    /// Begins with the first failure, which `failed` then counts.
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            failures: 0,
        }
    }

    /// Counts a failure; when to send the pull again, None once the budget is spent.
    pub fn failed(&mut self, now: Instant, budget: Duration) -> Option<Instant> {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        let end = self.since + budget;
        (now < end).then(|| (now + pause.min(PAUSE_MAX)).min(end))
    }

    /// Whether the next attempt asks the slave: each second one does.
    pub fn asks_slave(&self) -> bool {
        self.failures % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_budget_is_spent() {
        let begun = Instant::now();
        let budget = Duration::from_secs(10);
        let (mut outage, mut now, mut pauses) = (Outage::new(begun), begun, Vec::new());
        while let Some(at) = outage.failed(now, budget) {
            pauses.push((at - now).as_millis());
            now = at;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3000, 3000, 900]);
        assert_eq!(now, begun + budget);
    }

    #[test]
    fn the_slave_is_asked_after_the_master() {
        let mut outage = Outage::new(Instant::now());
        let mut asked = Vec::new();
        for _ in 0..4 {
            asked.push(outage.asks_slave());
            outage.failed(Instant::now(), Duration::from_secs(1));
        }
        assert_eq!(asked, [false, true, false, true]);
    }
}
