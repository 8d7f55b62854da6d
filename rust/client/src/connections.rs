//! The connections to all addresses, and the timer for the deadlines of their requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::connection::Connection;
use super::events::Failure;
use super::shared::Shared;

pub(super) struct Connections {
    shared: Arc<Shared>,
    by_address: Mutex<HashMap<String, Arc<Connection>>>,
    closed: AtomicBool,
    /// Time of the timer's next check of the deadlines, milliseconds since the pool was created.
    next_look_ms: AtomicU64,
    look_earlier: Notify,
}

impl Connections {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            by_address: Mutex::default(),
            closed: AtomicBool::new(false),
            next_look_ms: AtomicU64::new(0),
            look_earlier: Notify::new(),
        }
    }

    /// Returns the connection to an address, if there is one.
    pub fn get(&self, address: &str) -> Option<Arc<Connection>> {
        self.by_address.lock().get(address).cloned()
    }

    /// Returns the connection to an address. Starts a new one if there is none or it has ended.
    /// None after `close`.
    pub fn get_or_open(
        self: &Arc<Self>,
        address: &str,
        runtime: &Handle,
    ) -> Option<Arc<Connection>> {
        let mut by_address = self.by_address.lock();
        if self.closed.load(Ordering::Acquire) {
            return None; // read under the lock, because `close` ends only connections in the map
        }
        let known = by_address.get(address);
        if let Some(connection) = known.filter(|connection| !connection.is_gone()) {
            return Some(connection.clone());
        }
        let gone = known.map(Arc::as_ref);
        let connection = Arc::new(Connection::new(address, self.shared.now_ms(), gone));
        by_address.insert(address.to_owned(), connection.clone());
        runtime.spawn(self.clone().run(connection.clone()));
        Some(connection)
    }

    /// Closes every connection and fails every request.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.look_earlier.notify_one();
        for connection in self.all() {
            connection.end(&self.shared, Failure::Closed);
        }
    }

    async fn run(self: Arc<Self>, connection: Arc<Connection>) {
        connection.clone().run(self.shared.clone()).await;
        let mut by_address = self.by_address.lock();
        let current = by_address.get(&connection.address);
        // A newer connection may have replaced it. A silent one is kept: its successor needs its
        // history.
        if current.is_some_and(|current| Arc::ptr_eq(current, &connection))
            && !connection.was_silent()
        {
            by_address.remove(&connection.address);
        }
    }

    fn all(&self) -> Vec<Arc<Connection>> {
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
            // Set before the check, so that a request submitted during the check can lower it
            // again.
            self.next_look_ms
                .store(self.ms_of(now + idle / 4), Ordering::Release);
            let idle_since_ms =
                self.shared.now_ms() - i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
            for connection in self.all() {
                if let Some(next) = connection.expire(&self.shared, now) {
                    self.next_look_ms
                        .fetch_min(self.ms_of(next), Ordering::AcqRel);
                }
                if connection.is_idle(idle_since_ms) {
                    connection.close();
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
