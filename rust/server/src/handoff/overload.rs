//! Limits for requests that arrive faster than they are answered (`BrokerFastFailure`).
//!
//! While the put lock is held for long, sends are answered with code 2, both new and waiting ones.
//! A request that has waited in its queue longer than its family allows is answered with code 2,
//! because its client has given up or will give up before it is served. All times are monotonic.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::limits::{PUT_LOCK_ABSURD_MS, PUT_LOCK_BUSY_MS};

/// No limit.
const PATIENT: i64 = i64::MAX;

/// The limits, which may change at any time.
#[derive(Debug)]
pub struct Overload {
    /// `osPageCacheBusyTimeOutMills`.
    busy_ms: AtomicI64,
    /// `brokerFastFailureEnable`: whether late requests are removed from the queues.
    is_on: AtomicBool,
    /// Longest wait of a request in milliseconds, by family.
    patience_ms: Box<[AtomicI64]>,
}

impl Overload {
    /// Creates limits without a bound on the wait of any family.
    pub(crate) fn new(families: usize) -> Self {
        Self {
            busy_ms: AtomicI64::new(PUT_LOCK_BUSY_MS),
            is_on: AtomicBool::new(false),
            patience_ms: (0..families).map(|_| AtomicI64::new(PATIENT)).collect(),
        }
    }

    /// Sets new limits. `patience_ms`: by family, None for no limit; without a list, no request is
    /// removed from the queues.
    pub fn set(&self, busy_ms: i64, patience_ms: Option<Vec<Option<i64>>>) {
        self.busy_ms.store(busy_ms, Ordering::Relaxed);
        self.is_on.store(patience_ms.is_some(), Ordering::Relaxed);
        let limits = patience_ms.unwrap_or_default();
        for (known, limit) in self.patience_ms.iter().zip(limits) {
            known.store(limit.unwrap_or(PATIENT), Ordering::Relaxed);
        }
    }

    /// Whether late requests are removed from the queues.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Longest wait of a request in milliseconds, by family.
    pub(crate) fn patience_ms(&self) -> impl Iterator<Item = i64> {
        self.patience_ms.iter().map(|ms| ms.load(Ordering::Relaxed))
    }

    /// Whether the put lock has been held so long that the store is overloaded.
    pub(crate) fn is_busy(&self, lock_held_ms: i64) -> bool {
        lock_held_ms > self.busy_ms.load(Ordering::Relaxed) && lock_held_ms < PUT_LOCK_ABSURD_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_longer_than_the_limit_and_shorter_than_a_clock_error() {
        let overload = Overload::new(1);
        assert_eq!([1_000, 1_001].map(|ms| overload.is_busy(ms)), [false, true]);
        overload.set(50, None);
        assert_eq!([50, 51].map(|ms| overload.is_busy(ms)), [false, true]);
        assert!(!overload.is_busy(PUT_LOCK_ABSURD_MS));
    }

    #[test]
    fn families_without_a_limit_keep_none() {
        let overload = Overload::new(2);
        overload.set(1, Some(vec![Some(200), None]));
        let limits = overload.patience_ms.iter();
        let limits: Vec<_> = limits.map(|ms| ms.load(Ordering::Relaxed)).collect();
        assert_eq!(limits, [200, PATIENT]);
        assert!(overload.is_on.load(Ordering::Relaxed));
    }
}
