//! Rates of puts and reads, from totals that the upkeep thread samples.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::types::{GetResult, GetStatus};

/// The windows of RocketMQ's rates: 10 s, 1 min and 10 min.
const WINDOWS_MS: [i64; 3] = [10_000, 60_000, 600_000];

/// Counts since the store was opened.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) puts: u64,
    /// Reads with messages, and reads without.
    pub(crate) found: u64,
    pub(crate) missed: u64,
    /// Messages returned by reads.
    pub(crate) transferred: u64,
}

/// Counts reads, and keeps the totals of ten minutes.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    found: AtomicU64,
    missed: AtomicU64,
    transferred: AtomicU64,
    /// Monotonic milliseconds and the totals at that time, oldest first.
    samples: Mutex<VecDeque<(i64, Totals)>>,
}

impl Rates {
    /// Counts one read.
    pub(crate) fn count(&self, result: &GetResult) {
        if result.status == GetStatus::Found {
            self.found.fetch_add(1, Ordering::Relaxed);
            let messages = u64::from(result.message_count.unsigned_abs());
            self.transferred.fetch_add(messages, Ordering::Relaxed);
        } else {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The current totals; `puts` are counted elsewhere.
    pub(crate) fn totals(&self, puts: u64) -> Totals {
        Totals {
            puts,
            found: self.found.load(Ordering::Relaxed),
            missed: self.missed.load(Ordering::Relaxed),
            transferred: self.transferred.load(Ordering::Relaxed),
        }
    }

    /// Samples the totals, and drops samples older than the longest window.
    pub(crate) fn sample(&self, now_ms: i64, totals: Totals) {
        let mut samples = self.samples.lock();
        let oldest_ms = now_ms - WINDOWS_MS[2];
        while samples.get(1).is_some_and(|(at_ms, _)| *at_ms <= oldest_ms) {
            samples.pop_front();
        }
        samples.push_back((now_ms, totals));
    }

    /// Rate per second over each window, in RocketMQ's notation "1.0 0.5 0.05". For a store younger
    /// than a window, the rate over its whole life.
    pub(crate) fn text(&self, now_ms: i64, now: Totals, pick: fn(&Totals) -> u64) -> String {
        let samples = self.samples.lock();
        let rate = |window_ms: i64| {
            let since = samples.partition_point(|(at_ms, _)| *at_ms < now_ms - window_ms);
            let Some((at_ms, then)) = samples.get(since) else {
                return 0.0;
            };
            let elapsed_ms = (now_ms - at_ms).max(1) as f64;
            pick(&now).saturating_sub(pick(then)) as f64 / elapsed_ms * 1000.0
        };
        WINDOWS_MS
            .map(|window| format!("{:?}", rate(window)))
            .join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(puts: u64) -> Totals {
        Totals {
            puts,
            ..Totals::default()
        }
    }

    #[test]
    fn rates_cover_their_windows() {
        let rates = Rates::default();
        for second in 0..=700 {
            // One per second; in the last five seconds, ten per second.
            let extra = 9 * u64::try_from((second - 695).max(0)).unwrap();
            rates.sample(second * 1000, totals(second.unsigned_abs() + extra));
        }
        let text = rates.text(700_000, totals(745), |totals| totals.puts);
        let numbers: Vec<f64> = text.split(' ').map(|word| word.parse().unwrap()).collect();
        assert_eq!(numbers, [5.5, 1.75, 1.075]);
        assert!(rates.samples.lock().len() <= 602);
    }

    #[test]
    fn the_rates_of_a_young_store_cover_its_whole_life() {
        let rates = Rates::default();
        assert_eq!(
            rates.text(0, totals(5), |totals| totals.puts),
            "0.0 0.0 0.0"
        );
        rates.sample(0, totals(0));
        let text = rates.text(2000, totals(5), |totals| totals.puts);
        assert_eq!(text, "2.5 2.5 2.5");
    }

    #[test]
    fn reads_are_counted_by_what_they_found() {
        let rates = Rates::default();
        let mut result = GetResult {
            status: GetStatus::Found,
            next_begin_offset: 3,
            min_offset: 0,
            max_offset: 3,
            message_count: 3,
            suggest_slave: false,
            behind_bytes: 0,
        };
        rates.count(&result);
        result.status = GetStatus::OffsetOverflowOne;
        rates.count(&result);
        let now = rates.totals(0);
        assert_eq!((now.found, now.missed, now.transferred), (1, 1, 3));
    }
}
