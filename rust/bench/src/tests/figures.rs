//! Percentiles of distributions with known percentiles.

use std::time::Duration;

use super::super::report::{Latency, Meter};

/// A percentile is exact to three digits.
const OFF_MAX: f64 = 0.001;
const WORKERS: usize = 7;

/// Distributes the latencies over workers in turn, and merges the workers.
fn percentiles(latencies_us: impl Iterator<Item = u64>) -> Latency {
    let mut workers: Vec<Meter> = (0..WORKERS).map(|_| Meter::new()).collect();
    for (turn, us) in latencies_us.enumerate() {
        let latency = Duration::from_micros(us);
        workers[turn % WORKERS].count(Duration::ZERO, latency, 1, 0);
    }
    let mut whole = Meter::new();
    workers.into_iter().for_each(|worker| whole.add(worker));
    whole.report(Duration::from_secs(1)).latency_us
}

fn assert_near(found: &[(&str, f64, f64)]) {
    for (name, found, expected) in found {
        let off = (found / expected - 1.0).abs();
        assert!(off <= OFF_MAX, "{name}: {found} where {expected} is right");
    }
}

#[test]
fn of_evenly_spread_latencies() {
    // Every value of 1 to 100,000 us once, in mixed order: 30,011 and 100,000 are coprime.
    let found = percentiles((0..100_000).map(|turn| turn * 30_011 % 100_000 + 1));
    assert_eq!(found.count, 100_000);
    assert_near(&[
        ("mean", found.mean, 50_000.5),
        ("min", found.min, 1.0),
        ("p50", found.p50, 50_000.0),
        ("p90", found.p90, 90_000.0),
        ("p99", found.p99, 99_000.0),
        ("p99.9", found.p999, 99_900.0),
        ("p99.99", found.p9999, 99_990.0),
        ("max", found.max, 100_000.0),
    ]);
}

/// A percentile is the last value of its share, not the first beyond it. Each step of the tail ends
/// at a percentile.
#[test]
fn of_a_tail_in_steps() {
    let steps = [(99_000, 100), (900, 10_000), (90, 500_000), (10, 5_000_000)];
    let latencies = steps.map(|(count, us)| std::iter::repeat_n(us, count));
    let found = percentiles(latencies.into_iter().flatten());
    assert_near(&[
        ("p50", found.p50, 100.0),
        ("p90", found.p90, 100.0),
        ("p99", found.p99, 100.0),
        ("p99.9", found.p999, 10_000.0),
        ("p99.99", found.p9999, 500_000.0),
        ("max", found.max, 5_000_000.0),
    ]);
}
