//! What a run measured.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies are kept from 1 ns to this; longer ones count as this.
const LATENCY_MAX_NS: u64 = 100_000_000_000;
/// Three digits: 1.234 ms and 1.235 ms are told apart.
const LATENCY_DIGITS: u8 = 3;

/// The figures of a run; times of the counted part only.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Messages acknowledged or received.
    pub messages: u64,
    /// Requests answered well.
    pub requests: u64,
    /// Requests refused, by response code.
    pub refused: BTreeMap<i32, u64>,
    /// The remark of the first refusal.
    pub first_refusal: Option<String>,
    /// Bytes of message bodies sent, or of records received.
    pub bytes: u64,
    /// Counted time.
    pub seconds: f64,
    /// Messages per second.
    pub messages_per_second: f64,
    /// Megabytes (10^6) per second.
    pub megabytes_per_second: f64,
    /// Time from a request to its reply.
    pub latency_us: Latency,
    /// Messages in each second of the counted time.
    pub each_second: Vec<u64>,
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    pub max: f64,
}

/// Collects the figures of one worker, or of all.
pub(super) struct Meter {
    latency_ns: Histogram<u64>,
    messages: u64,
    bytes: u64,
    refused: BTreeMap<i32, u64>,
    first_refusal: Option<String>,
    each_second: Vec<u64>,
}

impl Meter {
    pub fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS)
            .expect("constant bounds that the histogram accepts");
        Self {
            latency_ns,
            messages: 0,
            bytes: 0,
            refused: BTreeMap::new(),
            first_refusal: None,
            each_second: Vec::new(),
        }
    }

    /// Counts a reply that came `at` after counting began.
    pub fn count(&mut self, at: Duration, latency: Duration, messages: u64, bytes: u64) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NS);
        self.latency_ns.saturating_record(ns.max(1));
        self.messages += messages;
        self.bytes += bytes;
        let second = at.as_secs() as usize;
        if second >= self.each_second.len() {
            self.each_second.resize(second + 1, 0);
        }
        self.each_second[second] += messages;
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, code: i32, remark: &str) {
        *self.refused.entry(code).or_default() += 1;
        self.first_refusal.get_or_insert_with(|| remark.to_owned());
    }

    /// Adds another worker's figures.
    pub fn add(&mut self, other: Self) {
        // Both have the same bounds, which is all that adding asks for.
        let _ = self.latency_ns.add(&other.latency_ns);
        self.messages += other.messages;
        self.bytes += other.bytes;
        for (code, count) in other.refused {
            *self.refused.entry(code).or_default() += count;
        }
        self.first_refusal = self.first_refusal.take().or(other.first_refusal);
        for (second, count) in other.each_second.into_iter().enumerate() {
            if second >= self.each_second.len() {
                self.each_second.resize(second + 1, 0);
            }
            self.each_second[second] += count;
        }
    }

    /// The report of `seconds` of counted time.
    pub fn report(self, counted: Duration) -> Report {
        let seconds = counted.as_secs_f64().max(1e-9);
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |quantile| us(self.latency_ns.value_at_quantile(quantile));
        Report {
            messages: self.messages,
            requests: self.latency_ns.len(),
            bytes: self.bytes,
            seconds,
            messages_per_second: self.messages as f64 / seconds,
            megabytes_per_second: self.bytes as f64 / 1e6 / seconds,
            latency_us: Latency {
                mean: self.latency_ns.mean() / 1000.0,
                min: us(self.latency_ns.min()),
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                p999: at(0.999),
                p9999: at(0.9999),
                max: us(self.latency_ns.max()),
            },
            refused: self.refused,
            first_refusal: self.first_refusal,
            each_second: self.each_second,
        }
    }
}
