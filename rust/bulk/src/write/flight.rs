//! The sends that are under way: sent, or waiting to be sent again.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::outgoing::{Key, Outgoing, Place};
use super::retry::Retry;
use super::topics::Queue;

/// Sends under way.
const SENDS_MAX: usize = 32;
/// Bytes of the sends under way.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A send, and what happened to it before.
#[derive(Debug)]
pub(super) struct Attempt {
    pub outgoing: Outgoing,
    /// The queue it went to last.
    pub queue: Option<Queue>,
    pub retry: Retry,
}

/// The sends that are under way.
#[derive(Debug, Default)]
pub(super) struct Flight {
    sent: HashMap<u64, Attempt>,
    paused: Vec<(Instant, Attempt)>,
    /// Queues with a send under way; another one could overtake it.
    busy: HashSet<Key>,
    bytes: usize,
}

impl Flight {
    /// Whether another send may begin, beside some that are on their way to `sent`.
    pub fn has_room_beside(&self, sends: usize) -> bool {
        self.sent.len() + self.paused.len() + sends < SENDS_MAX && self.bytes < BYTES_MAX
    }

    /// Whether a send with this key may begin.
    pub fn may_go(&self, key: &Key) -> bool {
        key.place == Place::Any || !self.busy.contains(key)
    }

    /// A send begins.
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

    /// A send is sent, and now waits for its outcome.
    pub fn sent(&mut self, token: u64, attempt: Attempt) {
        self.sent.insert(token, attempt);
    }

    /// The send of an outcome.
    pub fn take(&mut self, token: u64) -> Option<Attempt> {
        self.sent.remove(&token)
    }

    /// A send waits to be sent again.
    pub fn pause(&mut self, until: Instant, attempt: Attempt) {
        self.paused.push((until, attempt));
    }

    /// The sends whose pause is over.
    pub fn due(&mut self, now: Instant) -> Vec<Attempt> {
        let due = self.paused.extract_if(.., |(until, _)| *until <= now);
        due.map(|(_, attempt)| attempt).collect()
    }

    /// When the next pause is over.
    pub fn next_due(&self) -> Option<Instant> {
        self.paused.iter().map(|(until, _)| *until).min()
    }

    /// A send is stored.
    pub fn end(&mut self, outgoing: &Outgoing) {
        self.bytes -= outgoing.body.len();
        self.busy.remove(&outgoing.key);
    }

    /// Whether outcomes are awaited.
    pub fn is_awaited(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Whether no send is under way.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.paused.is_empty()
    }

    /// The first row that is under way.
    pub fn first_row(&self) -> Option<u64> {
        let paused = self.paused.iter().map(|(_, attempt)| attempt);
        let all = self.sent.values().chain(paused);
        all.filter_map(|attempt| attempt.outgoing.first_row()).min()
    }
}
