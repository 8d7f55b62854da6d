//! Hands requests to Python: one bounded queue per family, and exactly one reply per request.

pub(crate) mod overload;
pub(crate) mod request;

use std::sync::Arc;
use std::time::Duration;

use crate::alarm::Alarm;
use crate::bounded_queue::{BoundedQueue, Popped};
use crate::handoff::overload::Overload;
use crate::handoff::request::{InFlight, Request};
use crate::route::{self, Family};
use mq_base::clock::Clock;

/// The queues, one per family.
pub struct Handoff {
    families: Vec<(String, BoundedQueue<Request>)>,
    /// Number and bytes of the requests.
    pub(crate) load: InFlight,
    /// Limits on waiting requests.
    pub overload: Overload,
    /// Wakes the task that removes late requests.
    pub(crate) queued: Alarm,
}

impl Handoff {
    /// Creates queues with these names and capacities. `bytes_max`: limit on the requests.
    pub fn new(families: &[(String, usize)], bytes_max: usize, clock: &Arc<dyn Clock>) -> Self {
        let queues = families.iter();
        Self {
            families: queues
                .map(|(name, capacity)| {
                    let queue = BoundedQueue::new(*capacity, Arc::clone(clock));
                    let is_fair = route::FAIR.contains(&name.as_str());
                    let queue = match is_fair {
                        true => queue.fair(|request: &Request| request.peer.id),
                        false => queue,
                    };
                    (name.clone(), queue)
                })
                .collect(),
            load: InFlight::new(bytes_max),
            overload: Overload::new(families.len()),
            queued: Alarm::default(),
        }
    }

    /// Returns the family with that name.
    pub fn index(&self, name: &str) -> Option<Family> {
        self.families.iter().position(|(known, _)| known == name)
    }

    /// Waits for the next request of a family, whether or not its client reads replies.
    pub(crate) fn pop(&self, family: Family, timeout: Duration) -> Popped<Request> {
        self.families[family].1.pop(timeout)
    }

    /// Number of waiting requests, by family.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, usize)> {
        self.families
            .iter()
            .map(|(name, queue)| (name.as_str(), queue.len()))
    }

    /// Milliseconds that the oldest request of each family has waited; 0 without one.
    pub fn head_waits_ms(&self, now_ms: i64) -> impl Iterator<Item = (&str, i64)> {
        self.families.iter().map(move |(name, queue)| {
            let waited = queue.most_of_oldest(|request| now_ms - request.queued_ms());
            (name.as_str(), waited.unwrap_or(0).max(0))
        })
    }

    /// Returns the oldest request of a client if it has waited for `limit_ms`, and the number left.
    pub(crate) fn pop_late(
        &self,
        family: Family,
        now_ms: i64,
        limit_ms: i64,
    ) -> Option<(Request, usize)> {
        let queue = &self.families[family].1;
        queue.pop_if(|request| now_ms - request.queued_ms() >= limit_ms)
    }

    /// Number of requests that Python has or will get, without long polls.
    pub fn open(&self) -> usize {
        self.load.open()
    }

    /// Queues a request. Returns it if the queue is full or closed.
    pub(crate) fn submit(&self, mut request: Request, now_ms: i64) -> Option<Request> {
        request.note_queued(now_ms);
        // Queues count requests, but a few thousand large ones would still use too much memory.
        let (name, queue) = &self.families[request.family()];
        let is_over = match name == route::LARGE {
            true => self.load.bytes.is_over_half(),
            false => self.load.bytes.is_over(),
        };
        if is_over {
            return Some(request);
        }
        let refused = queue.push(request).err();
        self.queued.set(now_ms);
        refused
    }

    /// Whether the server is stopping.
    pub(crate) fn is_closed(&self) -> bool {
        self.families.iter().any(|(_, queue)| queue.is_closed())
    }

    /// Ends every wait; returns the requests that still wait.
    pub(crate) fn close(&self) -> Vec<Request> {
        let queues = self.families.iter();
        queues.flat_map(|(_, queue)| queue.close()).collect()
    }
}
