//! The figures of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::BenchError;

/// Longer latencies count as this.
const LATENCY_MAX_NS: u64 = 1_000_000_000_000;
/// Three digits distinguish 1.234 ms from 1.235 ms.
const LATENCY_DIGITS: u8 = 3;
/// Number of different errors that are counted separately; all others are counted together.
const ERRORS_MAX: usize = 50;
const OTHER_ERRORS: &str = "other errors";

/// The figures of a run; times and rates of the counted part only.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Messages acknowledged or received; of a connection storm, connections.
    pub messages: u64,
    /// Requests answered well.
    pub requests: u64,
    /// Requests refused, by response code.
    pub refused: BTreeMap<i32, u64>,
    /// The remark of the first refusal.
    pub first_refusal: Option<String>,
    /// Sends stored with less durability than asked for, by code (FLUSH_DISK_TIMEOUT 10,
    /// FLUSH_SLAVE_TIMEOUT 12, SLAVE_NOT_AVAILABLE 11).
    pub lesser_durability: BTreeMap<i32, u64>,
    /// Connections that failed, by error.
    pub errors: BTreeMap<String, u64>,
    /// Bytes of message bodies sent, or of records received.
    pub bytes: u64,
    /// Counted time.
    pub seconds: f64,
    /// From the first send of the run, warm-up included, until the queues were last seen to grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_seconds: Option<f64>,
    /// Messages per second.
    pub messages_per_second: f64,
    /// Megabytes (10^6) per second.
    pub megabytes_per_second: f64,
    /// The requested rate; 0 for as fast as possible.
    pub offered_per_second: f64,
    /// Time from a request (in an open loop: from when it was due) to its reply.
    pub latency_us: Latency,
    /// More latencies: `service_us` (from the write to the reply), `send_delay_us` (from due to
    /// the write), `send_us`, `heartbeat_us`, `create_topic_us`.
    #[serde(flatten)]
    pub more_us: BTreeMap<&'static str, Latency>,
    /// Messages in each second of the counted time.
    pub each_second: Vec<u64>,
    /// Counts of the whole run, warm-up included.
    pub totals: BTreeMap<&'static str, u64>,
    /// Why the run failed; empty for a good run.
    pub problems: Vec<String>,
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    pub max: f64,
}

impl Latency {
    fn of(ns: &Histogram<u64>) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |quantile| us(ns.value_at_quantile(quantile));
        Self {
            count: ns.len(),
            mean: ns.mean() / 1000.0,
            min: us(ns.min()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: us(ns.max()),
        }
    }
}

/// A histogram that grows with its values, because thousands of workers have one each.
fn histogram() -> Histogram<u64> {
    Histogram::new(LATENCY_DIGITS).expect("a number of digits that the histogram accepts")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(LATENCY_MAX_NS);
    // Fails only for a histogram that may not grow; this one may.
    let _ = histogram.record(ns.clamp(1, LATENCY_MAX_NS));
}

/// Collects the figures of one worker, or of all.
pub(super) struct Meter {
    latency_ns: Histogram<u64>,
    requests: u64,
    more_ns: BTreeMap<&'static str, Histogram<u64>>,
    messages: u64,
    bytes: u64,
    refused: BTreeMap<i32, u64>,
    first_refusal: Option<String>,
    lesser_durability: BTreeMap<i32, u64>,
    errors: BTreeMap<String, u64>,
    totals: BTreeMap<&'static str, u64>,
    /// Counted time at the last message.
    last_at: Duration,
    each_second: Vec<u64>,
}

impl Meter {
    pub fn new() -> Self {
        Self {
            latency_ns: histogram(),
            requests: 0,
            more_ns: BTreeMap::new(),
            messages: 0,
            bytes: 0,
            refused: BTreeMap::new(),
            first_refusal: None,
            lesser_durability: BTreeMap::new(),
            errors: BTreeMap::new(),
            totals: BTreeMap::new(),
            last_at: Duration::ZERO,
            each_second: Vec::new(),
        }
    }

    /// Counts messages that came `at` after counting began; `latency` is one request's.
    pub fn count(&mut self, at: Duration, latency: Duration, messages: u64, bytes: u64) {
        record(&mut self.latency_ns, latency);
        self.arrived(at, messages, bytes);
    }

    /// Counts messages without recording a latency.
    pub fn arrived(&mut self, at: Duration, messages: u64, bytes: u64) {
        self.requests += 1;
        self.messages += messages;
        self.bytes += bytes;
        self.last_at = self.last_at.max(at);
        let second = at.as_secs() as usize;
        if second >= self.each_second.len() {
            self.each_second.resize(second + 1, 0);
        }
        self.each_second[second] += messages;
    }

    /// Records one more latency of the run's main kind.
    pub fn took(&mut self, time: Duration) {
        record(&mut self.latency_ns, time);
    }

    /// Records a latency of another kind.
    pub fn note(&mut self, name: &'static str, time: Duration) {
        record(self.more_ns.entry(name).or_insert_with(histogram), time);
    }

    /// Keeps only the latencies of the counted messages, under another name. The run counts its
    /// messages elsewhere.
    pub fn only_latency_as(&mut self, name: &'static str) {
        let whole = std::mem::replace(&mut self.latency_ns, histogram());
        self.more_ns.insert(name, whole);
        (self.requests, self.messages, self.bytes) = (0, 0, 0);
        self.each_second.clear();
    }

    /// Adds to a count of the whole run.
    pub fn total(&mut self, name: &'static str, count: u64) {
        *self.totals.entry(name).or_default() += count;
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, code: i32, remark: &str) {
        *self.refused.entry(code).or_default() += 1;
        self.first_refusal.get_or_insert_with(|| remark.to_owned());
    }

    /// Counts a message that was stored with less durability than requested.
    pub fn store_lesser(&mut self, code: i32) {
        *self.lesser_durability.entry(code).or_default() += 1;
    }

    /// Counts a failure that ended a connection.
    pub fn fail(&mut self, error: &BenchError) {
        self.count_error(error.to_string(), 1);
    }

    fn count_error(&mut self, text: String, count: u64) {
        let is_known = self.errors.contains_key(&text) || self.errors.len() < ERRORS_MAX;
        let text = if is_known {
            text
        } else {
            OTHER_ERRORS.to_owned()
        };
        *self.errors.entry(text).or_default() += count;
    }

    /// Adds another worker's figures.
    pub fn add(&mut self, other: Self) {
        // Cannot fail, because the histogram grows.
        let _ = self.latency_ns.add(&other.latency_ns);
        for (name, ns) in other.more_ns {
            let _ = self.more_ns.entry(name).or_insert_with(histogram).add(&ns);
        }
        self.requests += other.requests;
        self.messages += other.messages;
        self.bytes += other.bytes;
        for (code, count) in other.refused {
            *self.refused.entry(code).or_default() += count;
        }
        for (code, count) in other.lesser_durability {
            *self.lesser_durability.entry(code).or_default() += count;
        }
        for (text, count) in other.errors {
            self.count_error(text, count);
        }
        for (name, count) in other.totals {
            self.total(name, count);
        }
        self.first_refusal = self.first_refusal.take().or(other.first_refusal);
        self.last_at = self.last_at.max(other.last_at);
        for (second, count) in other.each_second.into_iter().enumerate() {
            if second >= self.each_second.len() {
                self.each_second.resize(second + 1, 0);
            }
            self.each_second[second] += count;
        }
    }

    /// The report of the counted time, which is longer if the last message came after its end.
    pub fn report(self, counted: Duration) -> Report {
        let seconds = counted.max(self.last_at).as_secs_f64().max(1e-9);
        let more = self.more_ns.iter();
        Report {
            messages: self.messages,
            requests: self.requests,
            bytes: self.bytes,
            seconds,
            stored_seconds: None,
            messages_per_second: self.messages as f64 / seconds,
            megabytes_per_second: self.bytes as f64 / 1e6 / seconds,
            offered_per_second: 0.0,
            latency_us: Latency::of(&self.latency_ns),
            more_us: more.map(|(name, ns)| (*name, Latency::of(ns))).collect(),
            refused: self.refused,
            first_refusal: self.first_refusal,
            lesser_durability: self.lesser_durability,
            errors: self.errors,
            each_second: self.each_second,
            totals: self.totals,
            problems: Vec::new(),
        }
    }
}

impl Report {
    /// A count of the whole run; 0 if nothing was counted.
    pub fn total(&self, name: &str) -> u64 {
        self.totals.get(name).copied().unwrap_or(0)
    }

    /// Adds a sentence for each bad count to the report's problems; `meanings` has `(count,
    /// meaning)`.
    pub(super) fn complain(&mut self, meanings: &[(&str, &str)]) {
        let refused: u64 = self.refused.values().sum();
        if refused > 0 {
            let remark = self.first_refusal.as_deref().unwrap_or_default();
            let codes = &self.refused;
            let text = format!("{refused} requests refused, by code {codes:?}: {remark}");
            self.problems.push(text);
        }
        for (text, count) in &self.errors {
            self.problems.push(format!("{count} x {text}"));
        }
        for (name, meaning) in meanings {
            match self.total(name) {
                0 => {}
                count => self.problems.push(format!("{count} {meaning}")),
            }
        }
    }
}
