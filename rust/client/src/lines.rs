//! The lines of all addresses, and the timer that looks at their deadlines.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::events::Failure;
use super::line::Line;
use super::shared::Shared;

pub(super) struct Lines {
    shared: Arc<Shared>,
    by_address: Mutex<HashMap<String, Arc<Line>>>,
    closed: AtomicBool,
    /// When the timer next checks the deadlines, milliseconds after the start.
    next_look_ms: AtomicU64,
    look_earlier: Notify,
}

impl Lines {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            by_address: Mutex::default(),
            closed: AtomicBool::new(false),
            next_look_ms: AtomicU64::new(0),
            look_earlier: Notify::new(),
        }
    }

    /// The line of an address, if there is one.
    pub fn get(&self, address: &str) -> Option<Arc<Line>> {
        self.by_address.lock().get(address).cloned()
    }

    /// The line of an address; where there is none, or one that is gone, a new one is started.
    /// None once all are closed.
    pub fn line(self: &Arc<Self>, address: &str, runtime: &Handle) -> Option<Arc<Line>> {
        let mut lines = self.by_address.lock();
        if self.closed.load(Ordering::Acquire) {
            return None; // asked under the lock: `close` ends every line it finds there
        }
        let known = lines.get(address);
        if let Some(line) = known.filter(|line| !line.is_gone()) {
            return Some(line.clone());
        }
        let gone = known.map(Arc::as_ref);
        let line = Arc::new(Line::new(address, self.shared.now_ms(), gone));
        lines.insert(address.to_owned(), line.clone());
        runtime.spawn(self.clone().run(line.clone()));
        Some(line)
    }

    /// Closes every connection and fails every request.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.look_earlier.notify_one();
        for line in self.all() {
            line.end(&self.shared, Failure::Closed);
        }
    }

    async fn run(self: Arc<Self>, line: Arc<Line>) {
        line.clone().run(self.shared.clone()).await;
        let mut lines = self.by_address.lock();
        let current = lines.get(&line.address);
        // A newer line may have replaced it. A silent one stays for the sake of its successor.
        if current.is_some_and(|current| Arc::ptr_eq(current, &line)) && !line.was_silent() {
            lines.remove(&line.address);
        }
    }

    fn all(&self) -> Vec<Arc<Line>> {
        self.by_address.lock().values().cloned().collect()
    }

    /// Makes sure that the timer wakes no later than `deadline`.
    pub fn look_at(&self, deadline: Instant) {
        let at_ms = self.ms_of(deadline);
        if at_ms < self.next_look_ms.load(Ordering::Acquire) {
            self.next_look_ms.fetch_min(at_ms, Ordering::AcqRel);
            self.look_earlier.notify_one();
        }
    }

    fn ms_of(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.shared.started);
        u64::try_from(since.as_millis())
            .unwrap_or(u64::MAX)
            .saturating_add(1)
    }

    /// The timer: sleeps until the earliest deadline, fails late requests, closes idle connections.
    pub async fn watch_deadlines(self: Arc<Self>) {
        let idle = self.shared.settings.idle_timeout;
        while !self.closed.load(Ordering::Acquire) {
            let now = Instant::now();
            // Set before the check, so that a request submitted during the check lowers it again.
            self.next_look_ms
                .store(self.ms_of(now + idle / 4), Ordering::Release);
            let idle_since_ms =
                self.shared.now_ms() - i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
            for line in self.all() {
                if let Some(next) = line.expire(&self.shared, now) {
                    self.next_look_ms
                        .fetch_min(self.ms_of(next), Ordering::AcqRel);
                }
                if line.is_idle(idle_since_ms) {
                    line.close();
                }
            }
            self.shared.events.settled();
            let wake_ms = self.next_look_ms.load(Ordering::Acquire);
            let wake = self.shared.started + Duration::from_millis(wake_ms);
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                () = self.look_earlier.notified() => {}
            }
        }
    }
}
