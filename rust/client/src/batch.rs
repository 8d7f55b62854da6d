//! Collects requests for one address that are written together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::events::Failure;
use super::requests::{Entry, Requests};
use super::shared::Shared;
use super::waiters::Waiter;

/// Collects requests; `Pool::submit` sends them with one write.
pub struct Batch {
    shared: Arc<Shared>,
    pub(super) requests: Requests,
}

impl Batch {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            requests: Requests::default(),
        }
    }

    /// Adds a request; `encode` gets the opaque and appends the whole frame.
    ///
    /// token: comes back with the outcome. timeout: until the reply, including the time to connect.
    /// oneway: the server sends no reply. A request above `in_flight_max` fails at once.
    pub fn add<E: ToString>(
        &mut self,
        token: u64,
        timeout: Duration,
        oneway: bool,
        encode: impl FnOnce(i32, &mut Vec<u8>) -> Result<(), E>,
    ) {
        let shared = &self.shared;
        let start = self.requests.bytes.len();
        let opaque = shared.next_opaque();
        if let Err(error) = encode(opaque, &mut self.requests.bytes) {
            self.requests.bytes.truncate(start);
            return shared
                .events
                .failed(token, Failure::BadFrame(error.to_string()));
        }
        if let Err(failure) = shared.claim() {
            self.requests.bytes.truncate(start);
            return shared.events.failed(token, failure);
        }
        let waiter = Waiter {
            token,
            deadline: Instant::now() + timeout,
            timeout,
        };
        let end = self.requests.bytes.len();
        self.requests.entries.push(Entry {
            opaque,
            waiter,
            oneway,
            end,
        });
    }

    /// Bytes of all requests so far.
    pub fn size_bytes(&self) -> usize {
        self.requests.bytes.len()
    }

    /// Whether the batch has no request.
    pub fn is_empty(&self) -> bool {
        self.requests.entries.is_empty()
    }
}
