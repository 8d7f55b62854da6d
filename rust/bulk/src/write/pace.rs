//! Limits the rate of sends.

use std::time::{Duration, Instant};

/// An average rate: a batch is sent at once, and the next one is delayed accordingly.
#[derive(Debug)]
pub(super) struct Pace {
    per_second: Option<f64>,
    /// Time of the next batch; None means now.
    next: Option<Instant>,
}

impl Pace {
    /// per_second: messages; None for no limit.
    pub fn new(per_second: Option<f64>) -> Self {
        Self {
            per_second,
            next: None,
        }
    }

    /// Returns the time of the next batch, if that is not now.
    pub fn waits_until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// Counts a batch that is sent now.
    pub fn sent(&mut self, messages: u64, now: Instant) {
        if let Some(per_second) = self.per_second {
            let pause = Duration::from_secs_f64(messages as f64 / per_second);
            self.next = Some(self.next.map_or(now, |next| next.max(now)) + pause);
        }
    }

    /// Returns the number of messages in a batch, so that pauses are short.
    pub fn count_max(&self, count_max: u64) -> u64 {
        let quarter = |per_second: f64| (per_second / 4.0) as u64;
        let paced = self.per_second.map_or(count_max, quarter);
        paced.clamp(1, count_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_the_rate_and_are_small() {
        let begun = Instant::now();
        let mut pace = Pace::new(Some(100.0));
        assert_eq!(pace.count_max(500), 25);
        let mut now = begun;
        for _ in 0..8 {
            now = pace.waits_until(now).unwrap_or(now);
            pace.sent(25, now);
        }
        assert_eq!(now - begun, Duration::from_millis(1750));
        assert_eq!(Pace::new(Some(0.5)).count_max(500), 1);
    }

    #[test]
    fn without_a_rate_no_batch_waits() {
        let now = Instant::now();
        let mut pace = Pace::new(None);
        pace.sent(1000, now);
        assert_eq!(pace.waits_until(now), None);
        assert_eq!(pace.count_max(500), 500);
    }
}
