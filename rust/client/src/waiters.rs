//! Requests waiting for their reply, by correlation number.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// One request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiter {
    /// Token of the request.
    pub token: u64,
    /// When the request fails with a timeout.
    pub deadline: Instant,
    /// The request's timeout, for the error text.
    pub timeout: Duration,
}

/// The requests in flight of one connection.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_opaque: HashMap<i32, Waiter>,
}

impl Waiters {
    pub fn insert(&mut self, opaque: i32, waiter: Waiter) {
        let before = self.by_opaque.insert(opaque, waiter);
        // Numbers repeat after 2^32 requests, and the pool has at most `in_flight_max` in flight.
        debug_assert!(before.is_none(), "opaque {opaque} is in flight already");
    }

    pub fn remove(&mut self, opaque: i32) -> Option<Waiter> {
        self.by_opaque.remove(&opaque)
    }

    pub fn contains(&self, opaque: i32) -> bool {
        self.by_opaque.contains_key(&opaque)
    }

    pub fn is_empty(&self) -> bool {
        self.by_opaque.is_empty()
    }

    /// Removes every request, after the connection ended.
    pub fn take_all(&mut self) -> Vec<Waiter> {
        self.by_opaque.drain().map(|(_, waiter)| waiter).collect()
    }

    /// Removes the requests whose deadline has passed; returns them and the next deadline.
    ///
    /// This looks at all of them, but only when the earliest known deadline has come: requests
    /// answered in a millisecond with a timeout of seconds are looked at every few seconds.
    pub fn take_expired(&mut self, now: Instant) -> (Vec<Waiter>, Option<Instant>) {
        let expired: Vec<_> = self
            .by_opaque
            .extract_if(|_, waiter| waiter.deadline <= now)
            .collect();
        let next = self.by_opaque.values().map(|waiter| waiter.deadline).min();
        (
            expired.into_iter().map(|(_, waiter)| waiter).collect(),
            next,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_past_their_deadline_expire() {
        let start = Instant::now();
        let timeout = Duration::from_secs(1);
        let mut waiters = Waiters::default();
        for (opaque, seconds) in [(1, 5), (2, 1), (3, 9)] {
            let deadline = start + Duration::from_secs(seconds);
            waiters.insert(
                opaque,
                Waiter {
                    token: opaque as u64,
                    deadline,
                    timeout,
                },
            );
        }
        assert_eq!(
            waiters.take_expired(start),
            (vec![], Some(start + Duration::from_secs(1)))
        );
        let (expired, next) = waiters.take_expired(start + Duration::from_secs(5));
        let mut tokens: Vec<_> = expired.iter().map(|waiter| waiter.token).collect();
        tokens.sort();
        assert_eq!(
            (tokens, next),
            (vec![1, 2], Some(start + Duration::from_secs(9)))
        );
        assert!(waiters.remove(1).is_none() && waiters.contains(3));
        assert_eq!(waiters.take_all().len(), 1);
        assert!(waiters.is_empty());
    }
}
