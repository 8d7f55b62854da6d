//! Outcomes of requests, on their way from the engine's threads to the caller that waits for them.

use std::time::Instant;

use mq_format::remoting::Frame;
use parking_lot::{Condvar, Mutex};

use mq_client::events::{Events, Failure};

/// How a caller represents a reply, and a request without a reply.
pub(crate) trait Answer: Send + 'static {
    /// Reads a reply.
    fn of_reply(reply: &Frame<'_>) -> Self;

    /// Converts a failure.
    fn of_failure(failure: Failure) -> Self;
}

/// Outcome of the request with a token.
pub(crate) struct Outcome<A> {
    pub token: u64,
    pub result: A,
}

/// Outcomes that the caller has not taken; at most one for each request in flight.
pub(crate) struct Inbox<A> {
    outcomes: Mutex<Vec<Outcome<A>>>,
    arrived: Condvar,
}

impl<A> Default for Inbox<A> {
    fn default() -> Self {
        Self {
            outcomes: Mutex::default(),
            arrived: Condvar::default(),
        }
    }
}

impl<A: Answer> Inbox<A> {
    /// Takes the outcomes that have arrived.
    pub fn take(&self) -> Vec<Outcome<A>> {
        std::mem::take(&mut self.outcomes.lock())
    }

    /// Waits until an outcome has arrived, or until `deadline`.
    pub fn wait(&self, deadline: Instant) {
        let mut outcomes = self.outcomes.lock();
        let is_empty = |outcomes: &mut Vec<Outcome<A>>| outcomes.is_empty();
        self.arrived
            .wait_while_until(&mut outcomes, is_empty, deadline);
    }

    fn put(&self, token: u64, result: A) {
        self.outcomes.lock().push(Outcome { token, result });
    }
}

impl<A: Answer> Events for Inbox<A> {
    fn reply(&self, token: u64, reply: &Frame<'_>, _frame: &[u8]) {
        self.put(token, A::of_reply(reply));
    }

    fn failed(&self, token: u64, failure: Failure) {
        self.put(token, A::of_failure(failure));
    }

    fn written(&self, _token: u64) {}

    /// Brokers send requests to consumers and transactional producers only.
    fn request(&self, _address: &str, _frame: &[u8]) {}

    fn closed(&self, _address: &str) {}

    fn settled(&self) {
        if !self.outcomes.lock().is_empty() {
            self.arrived.notify_one();
        }
    }
}
