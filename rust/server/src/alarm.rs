//! [`Alarm`] lets a task sleep until something is due, so that an idle server does not wake.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Nothing is due.
const NEVER: i64 = i64::MAX;

/// The earliest time at which one task has work. Any thread may bring it forward.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Monotonic milliseconds.
    at_ms: AtomicI64,
    brought_forward: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            at_ms: AtomicI64::new(NEVER),
            brought_forward: Notify::new(),
        }
    }
}

impl Alarm {
    /// Makes the task wake at `at_ms`, unless it wakes earlier. The caller has stored its work
    /// before.
    pub(crate) fn set(&self, at_ms: i64) {
        if at_ms < self.at_ms.fetch_min(at_ms, Ordering::SeqCst) {
            self.brought_forward.notify_one();
        }
    }

    /// Forgets the time, for the task that looks for work next: work that it does not find any more
    /// is stored after this call, and sets the alarm again.
    pub(crate) fn clear(&self) {
        self.at_ms.store(NEVER, Ordering::SeqCst);
    }

    /// Like [`Self::set`], for work that the task itself found and left for later.
    pub(crate) fn set_again(&self, at_ms: i64) {
        self.at_ms.fetch_min(at_ms, Ordering::SeqCst);
    }

    /// Monotonic milliseconds at which the task wakes.
    #[cfg(test)]
    pub(crate) fn at_ms(&self) -> i64 {
        self.at_ms.load(Ordering::SeqCst)
    }

    /// Sleeps until the time, at most `at_most`. It may return early.
    pub(crate) async fn sleep(&self, now_ms: i64, at_most: Duration) {
        let left_ms = self.at_ms.load(Ordering::SeqCst).saturating_sub(now_ms);
        let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
        // The error says that the time is over.
        let _ = timeout(left.min(at_most), self.brought_forward.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_time_that_is_brought_forward_ends_the_sleep() {
        let alarm = Arc::new(Alarm::default());
        let sleeper = Arc::clone(&alarm);
        let sleeping = tokio::spawn(async move { sleeper.sleep(0, LONG).await });
        tokio::task::yield_now().await;
        alarm.set(50);
        sleeping.await.unwrap();
        alarm.set(60);
        assert_eq!(alarm.at_ms(), 50, "a later time changes nothing");
        alarm.sleep(50, LONG).await; // it is time
        alarm.clear();
        alarm.set(NEVER - 1); // before the sleep: it is not missed
        alarm.sleep(0, LONG).await;
    }
}
