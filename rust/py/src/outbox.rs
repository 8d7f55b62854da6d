//! Encoded requests until they are written: many with one system call, in the order they were made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use mq_client::batch::Batch;
use mq_client::pool::Pool;

/// Bytes for one address at which a batch is sent before `flush`, so that the server can start on
/// it.
const FLUSH_BYTES: usize = 64 * 1024;

/// Longest time that a request of `flush_soon` waits for others: the timer's shortest.
const PAUSE: Duration = Duration::from_millis(1);

/// Requests that wait for `flush`, by address.
pub(super) struct Outbox {
    pool: Arc<Pool>,
    batches: Mutex<Vec<(String, Batch)>>,
    /// Held while batches are on their way to the pool: a later flush must not overtake them.
    order: Mutex<()>,
    wake: Notify,
    /// Whether `keep_flushing` looks again by itself.
    keeps: AtomicBool,
}

impl Outbox {
    pub fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            batches: Mutex::default(),
            order: Mutex::new(()),
            wake: Notify::new(),
            keeps: AtomicBool::new(false),
        }
    }

    /// Lets `add` append a request for an address. Returns whether enough is collected for a flush.
    pub fn add(&self, address: &str, add: impl FnOnce(&mut Batch)) -> bool {
        let mut batches = self.batches.lock();
        let found = batches.iter().position(|(target, _)| target == address);
        let place = found.unwrap_or_else(|| {
            batches.push((address.to_owned(), self.pool.batch()));
            batches.len() - 1
        });
        let batch = &mut batches[place].1;
        add(batch);
        batch.size_bytes() >= FLUSH_BYTES
    }

    /// Sends the collected requests with one system call per address. Returns whether there were
    /// any.
    pub fn flush(&self) -> bool {
        let _order = self.order.lock();
        let batches = std::mem::take(&mut *self.batches.lock());
        let any = !batches.is_empty();
        for (address, batch) in batches {
            self.pool.submit(&address, batch);
        }
        any
    }

    /// Lets `keep_flushing` flush: at once if `now`, else with the next replies or within `PAUSE`.
    pub fn flush_soon(&self, now: bool) {
        if now || !self.keeps.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// Called when replies came: their senders have collected new requests meanwhile.
    pub fn replied(&self) {
        if self.keeps.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Flushes what `flush_soon` asks for; for a task.
    pub async fn keep_flushing(self: Arc<Self>) {
        loop {
            self.wake.notified().await;
            loop {
                self.flush();
                let _ = tokio::time::timeout(PAUSE, self.wake.notified()).await;
                if !self.flush() {
                    break;
                }
            }
            self.keeps.store(false, Ordering::Release);
            self.flush(); // of a thread that found it `true`
        }
    }
}
