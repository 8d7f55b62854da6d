//! Requests for one address that are encoded together and written together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::events::Failure;
use super::pool::Shared;
use super::waiters::Waiter;

/// Collects requests; `Pool::submit` sends them with one write.
pub struct Batch {
    shared: Arc<Shared>,
    pub(super) requests: Requests,
}

/// Encoded requests and who waits for them.
#[derive(Default)]
pub(super) struct Requests {
    pub entries: Vec<Entry>,
    pub bytes: Vec<u8>,
}

/// One request among `Requests::bytes`.
pub(super) struct Entry {
    pub opaque: i32,
    pub waiter: Waiter,
    pub oneway: bool,
    /// Where its bytes end; they begin where the entry before ends.
    end: usize,
}

impl Batch {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            requests: Requests::default(),
        }
    }

    /// Adds a request; `encode` gets its opaque and appends the whole frame.
    ///
    /// token: given back with the outcome. timeout: to the reply, connecting included.
    /// oneway: no reply is awaited. A request over the limit in flight fails at once.
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

    /// Whether nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.requests.entries.is_empty()
    }
}

impl Requests {
    /// The requests for which `alive` holds: for a batch that had to wait for its connection.
    pub fn retain(self, mut alive: impl FnMut(&Entry) -> bool) -> Self {
        let mut kept = Self::default();
        let mut start = 0;
        for mut entry in self.entries {
            let bytes = &self.bytes[start..entry.end];
            start = entry.end;
            if alive(&entry) {
                kept.bytes.extend_from_slice(bytes);
                entry.end = kept.bytes.len();
                kept.entries.push(entry);
            }
        }
        kept
    }
}
