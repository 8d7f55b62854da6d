//! Sends in progress: in flight, or waiting for a retry.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::outgoing::{Key, Outgoing, Place};
use super::retry::Retry;
use super::topics::Queue;

/// Largest number of sends in progress.
const SENDS_MAX: usize = 32;
/// Bytes of the sends in progress.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A send and its failures so far.
#[derive(Debug)]
pub(super) struct Attempt {
    pub outgoing: Outgoing,
    /// The queue of the last attempt.
    pub queue: Option<Queue>,
    pub retry: Retry,
}

/// The sends in progress.
#[derive(Debug, Default)]
pub(super) struct Flight {
    sent: HashMap<u64, Attempt>,
    paused: Vec<(Instant, Attempt)>,
    /// Keys with a send in progress; another send of the key could overtake it.
    busy: HashSet<Key>,
    bytes: usize,
}

impl Flight {
    /// Whether another send may start, in addition to `sends` that are about to call `sent`.
    pub fn has_room_beside(&self, sends: usize) -> bool {
        self.sent.len() + self.paused.len() + sends < SENDS_MAX && self.bytes < BYTES_MAX
    }

    /// Whether a send with this key may start.
    pub fn may_go(&self, key: &Key) -> bool {
        key.place == Place::Any || !self.busy.contains(key)
    }

    /// Starts a send.
    pub fn begin(&mut self, outgoing: Outgoing) -> Attempt {
        self.bytes += outgoing.body.len();
        if outgoing.key.place != Place::Any {
            self.busy.insert(outgoing.key);
        }
        Attempt {
            outgoing,
            queue: None,
            retry: Retry::default(),
        }
    }

    /// Records that a send is in flight.
    pub fn sent(&mut self, token: u64, attempt: Attempt) {
        self.sent.insert(token, attempt);
    }

    /// Returns the send that has an outcome.
    pub fn take(&mut self, token: u64) -> Option<Attempt> {
        self.sent.remove(&token)
    }

    /// Keeps a send until its retry.
    pub fn pause(&mut self, until: Instant, attempt: Attempt) {
        self.paused.push((until, attempt));
    }

    /// Returns the sends whose pause has ended.
    pub fn due(&mut self, now: Instant) -> Vec<Attempt> {
        let due = self.paused.extract_if(.., |(until, _)| *until <= now);
        due.map(|(_, attempt)| attempt).collect()
    }

    /// Returns the end of the next pause.
    pub fn next_due(&self) -> Option<Instant> {
        self.paused.iter().map(|(until, _)| *until).min()
    }

    /// Records that a send is stored.
    pub fn end(&mut self, outgoing: &Outgoing) {
        self.bytes -= outgoing.body.len();
        self.busy.remove(&outgoing.key);
    }

    /// Whether sends are in flight.
    pub fn is_awaited(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Whether no send is in progress.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.paused.is_empty()
    }

    /// Returns the first row that is in progress.
    pub fn first_row(&self) -> Option<u64> {
        let paused = self.paused.iter().map(|(_, attempt)| attempt);
        let all = self.sent.values().chain(paused);
        all.filter_map(|attempt| attempt.outgoing.first_row()).min()
    }
}
