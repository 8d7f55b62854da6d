//! Counters of one server: sums since its start, and tasks that are waiting now.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::stats::traffic::{SHARDS, own_shard};

/// Codes below this have their own counter.
const CODES: usize = 400;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds one.
    pub fn one(&self) {
        self.add(1);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Adds one to a counter until it is dropped, also when the task that holds it is dropped.
pub(crate) struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    pub(crate) fn new(count: &'c AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All counters.
#[derive(Debug)]
pub struct Counters {
    /// In shards, because all workers would otherwise write the same cache lines with every
    /// request.
    native: [Box<[Counter]>; SHARDS],
    python: Box<[Counter]>,
    /// Bytes read from clients.
    pub bytes_in: Counter,
    /// Bytes written to sockets or queued for them.
    pub bytes_out: Counter,
    /// Connections accepted.
    pub connections_accepted: Counter,
    /// Connections closed on accept because there were too many.
    pub connections_refused: Counter,
    /// Connections closed because they were idle.
    pub connections_idle: Counter,
    /// Connections closed because of an invalid frame.
    pub frames_bad: Counter,
    /// Successful TLS handshakes.
    pub tls_sessions: Counter,
    /// Connections closed because the TLS handshake failed.
    pub tls_failed: Counter,
    /// Connections closed during their TLS handshake to make room for newer ones.
    pub handshakes_given_up: Counter,
    /// Connections closed because incomplete frames used too much memory.
    pub frames_given_up: Counter,
    /// Requests answered with code 2 because a queue was full.
    pub overloaded: Counter,
    /// Requests whose processor did not reply.
    pub unanswered: Counter,
    /// Long polls that started.
    pub holds: Counter,
    /// Events that Python did not take in time.
    pub events_lost: Counter,
    /// Pulls read by the threads that may wait for the disk.
    pub cold_reads: Counter,
    /// Lock requests that did not get all free queues because of a limit.
    pub locks_refused: Counter,
    /// Offsets of pulls that were not committed because of the limit on offsets.
    pub offsets_refused: Counter,
}

impl Default for Counters {
    fn default() -> Self {
        let codes = || (0..CODES).map(|_| Counter::default()).collect();
        Self {
            native: std::array::from_fn(|_| codes()),
            python: codes(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            connections_accepted: Counter::default(),
            connections_refused: Counter::default(),
            connections_idle: Counter::default(),
            frames_bad: Counter::default(),
            tls_sessions: Counter::default(),
            tls_failed: Counter::default(),
            handshakes_given_up: Counter::default(),
            frames_given_up: Counter::default(),
            overloaded: Counter::default(),
            unanswered: Counter::default(),
            holds: Counter::default(),
            events_lost: Counter::default(),
            cold_reads: Counter::default(),
            locks_refused: Counter::default(),
            offsets_refused: Counter::default(),
        }
    }
}

impl Counters {
    /// Counts one request of `code` that was answered natively.
    pub fn native(&self, code: i32) {
        self.native[own_shard()][slot(code)].one();
    }

    /// Counts one request of `code` that went to Python.
    pub fn python(&self, code: i32) {
        self.python[slot(code)].one();
    }

    /// Returns every counter that is not 0, by name; requests as `native.CODE` and `python.CODE`.
    pub fn snapshot(&self) -> BTreeMap<String, u64> {
        let named = [
            ("bytes_in", &self.bytes_in),
            ("bytes_out", &self.bytes_out),
            ("connections_accepted", &self.connections_accepted),
            ("connections_refused", &self.connections_refused),
            ("connections_idle", &self.connections_idle),
            ("frames_bad", &self.frames_bad),
            ("tls_sessions", &self.tls_sessions),
            ("tls_failed", &self.tls_failed),
            ("handshakes_given_up", &self.handshakes_given_up),
            ("frames_given_up", &self.frames_given_up),
            ("overloaded", &self.overloaded),
            ("unanswered", &self.unanswered),
            ("holds", &self.holds),
            ("events_lost", &self.events_lost),
            ("cold_reads", &self.cold_reads),
            ("locks_refused", &self.locks_refused),
            ("offsets_refused", &self.offsets_refused),
        ];
        let mut all: BTreeMap<String, u64> = named
            .map(|(name, counter)| (name.to_owned(), counter.get()))
            .into();
        let native = |slot: usize| {
            self.native
                .iter()
                .map(|codes| codes[slot].get())
                .sum::<u64>()
        };
        let python = |slot: usize| self.python[slot].get();
        for slot in 0..CODES {
            for (plane, count) in [("native", native(slot)), ("python", python(slot))] {
                if count > 0 {
                    let code = if slot == 0 {
                        "other".to_owned()
                    } else {
                        slot.to_string()
                    };
                    all.insert(format!("{plane}.{code}"), count);
                }
            }
        }
        all
    }
}

/// Slot of a code; codes outside the table share slot 0, which no request uses.
fn slot(code: i32) -> usize {
    usize::try_from(code)
        .ok()
        .filter(|code| *code < CODES)
        .unwrap_or(0)
}
