//! Latency of puts and reads, in RocketMQ's histogram classes.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// Names of the classes and their upper bounds in milliseconds.
const CLASSES: [(&str, u64); 13] = [
    ("<=0ms", 0),
    ("0~10ms", 10),
    ("10~50ms", 50),
    ("50~100ms", 100),
    ("100~200ms", 200),
    ("200~500ms", 500),
    ("500ms~1s", 1_000),
    ("1~2s", 2_000),
    ("2~3s", 3_000),
    ("3~4s", 4_000),
    ("4~5s", 5_000),
    ("5~10s", 10_000),
    ("10s~", u64::MAX),
];
/// Shortest length of a window. The figures cover the last full window and the current one.
const WINDOW_MS: i64 = 60_000;

/// Measures calls. A call below 1 ms costs two reads of a coarse clock and no write; only slower
/// calls are counted here.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    max_ms: AtomicU64,
    /// Slow calls since the store was opened, by class; the first class stays 0.
    slow: [AtomicU64; CLASSES.len()],
    windows: Mutex<[Window; 2]>,
}

/// The counts at the start of a window.
#[derive(Debug, Default, Clone, Copy)]
struct Window {
    at_ms: i64,
    calls: u64,
    slow: [u64; CLASSES.len()],
}

/// The latency of recent calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    /// The slowest call since the store was opened.
    pub(crate) max_ms: u64,
    classes: [u64; CLASSES.len()],
}

impl Latency {
    /// Measures one call.
    pub(crate) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let begin_ms = coarse_ms();
        let result = work();
        self.note(coarse_ms().saturating_sub(begin_ms));
        result
    }

    fn note(&self, took_ms: u64) {
        if took_ms > 0 {
            let class = CLASSES.partition_point(|(_, most_ms)| *most_ms < took_ms);
            self.slow[class].fetch_add(1, Ordering::Relaxed);
            self.max_ms.fetch_max(took_ms, Ordering::Relaxed);
        }
    }

    /// The figures at a monotonic time. `calls` is the number of all calls since the store was
    /// opened.
    pub(crate) fn look(&self, now_ms: i64, calls: u64) -> Spread {
        let now = Window {
            at_ms: now_ms,
            calls,
            slow: std::array::from_fn(|class| self.slow[class].load(Ordering::Relaxed)),
        };
        let mut windows = self.windows.lock();
        if now_ms - windows[1].at_ms >= WINDOW_MS {
            *windows = [windows[1], now];
        }
        let then = windows[0];
        let mut classes: [u64; CLASSES.len()] =
            std::array::from_fn(|class| now.slow[class] - then.slow[class]);
        let slow: u64 = classes.iter().sum();
        classes[0] = (calls.saturating_sub(then.calls)).saturating_sub(slow);
        Spread {
            max_ms: self.max_ms.load(Ordering::Relaxed),
            classes,
        }
    }
}

impl Spread {
    /// RocketMQ's notation: "[<=0ms]:7 [0~10ms]:8 ...", with a space after each class.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for ((name, _), count) in CLASSES.iter().zip(self.classes) {
            // Writing to a String cannot fail.
            let _ = write!(text, "[{name}]:{count} ");
        }
        text
    }

    /// The upper bound of the class with this percentile, milliseconds.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let total: u64 = self.classes.iter().sum();
        let wanted = total as f64 * share;
        let mut seen = 0;
        for ((_, most_ms), count) in CLASSES.iter().zip(self.classes) {
            seen += count;
            if seen as f64 >= wanted {
                return (*most_ms).min(self.max_ms) as f64;
            }
        }
        self.max_ms as f64
    }
}

/// Monotonic milliseconds of a clock that ticks every few milliseconds and is very cheap.
fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec.unsigned_abs() * 1_000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_class_over_the_last_window_and_this_one() {
        let latency = Latency::default();
        for took_ms in [1, 10, 11, 50, 51, 9_999, 10_000, 10_001] {
            latency.note(took_ms);
        }
        let spread = latency.look(1_000, 100);
        assert_eq!(
            spread.text(),
            "[<=0ms]:92 [0~10ms]:2 [10~50ms]:2 [50~100ms]:1 [100~200ms]:0 [200~500ms]:0 \
             [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:2 [10s~]:1 "
        );
        assert_eq!(spread.max_ms, 10_001);
        latency.look(60_000, 100);
        latency.note(2);
        assert_eq!(latency.look(61_000, 103).classes[..2], [94, 3]);
        assert_eq!(latency.look(120_000, 110).classes[..2], [9, 1]);
        assert_eq!(latency.look(180_000, 110).classes[..2], [0, 0]);
        assert_eq!(latency.look(180_000, 110).max_ms, 10_001);
    }

    #[test]
    fn percentiles_are_upper_bounds_of_classes() {
        let latency = Latency::default();
        assert_eq!(latency.look(0, 0).percentile(0.99), 0.0);
        latency.note(3);
        latency.note(40);
        let spread = latency.look(0, 1_000);
        assert_eq!(spread.percentile(0.99), 0.0);
        assert_eq!(spread.percentile(0.999), 10.0);
        assert_eq!(spread.percentile(1.0), 40.0);
    }

    #[test]
    fn a_slow_call_is_measured() {
        let latency = Latency::default();
        let begin_ms = coarse_ms();
        latency.time(|| while coarse_ms() < begin_ms + 20 {});
        assert!(latency.look(0, 1).max_ms >= 16);
    }
}
