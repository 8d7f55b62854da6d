//! The pool: sends requests to an address and reports the replies.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::batch::{Batch, Entry};
use super::events::{Events, Failure};
use super::line::Line;
use mq_format::remoting::MAX_FRAME_BYTES;

/// Limits and timeouts of the engine.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// Timeout for connecting; RocketMQ's 3 s.
    pub connect_timeout: Duration,
    /// A connection without traffic and without requests is closed after this time; 120 s.
    pub idle_timeout: Duration,
    /// Largest frame received, length word included.
    pub max_frame_bytes: usize,
    /// Requests in flight over all connections; further ones are refused.
    pub in_flight_max: usize,
    /// Bytes that wait for one slow server; further requests are refused.
    pub outbound_limit_bytes: usize,
    /// TLS for all connections, until `Pool::renew_tls`; None is without TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(120),
            max_frame_bytes: MAX_FRAME_BYTES,
            in_flight_max: 65_536,
            outbound_limit_bytes: 64 * 1024 * 1024,
            tls: None,
        }
    }
}

/// Connections by address. Call `close` before the runtime ends: dropping a pool closes no socket,
/// because a copy in a forked child must not shut down the parent's connections.
pub struct Pool {
    pub(super) shared: Arc<Shared>,
    runtime: Handle,
}

/// Shared by lines, timer and submitters.
pub(super) struct Shared {
    pub settings: PoolSettings,
    /// TLS of the next connections.
    tls: Mutex<Option<Arc<ClientConfig>>>,
    pub events: Arc<dyn Events>,
    lines: Mutex<HashMap<String, Arc<Line>>>,
    next_opaque: AtomicI32,
    in_flight: AtomicUsize,
    closed: AtomicBool,
    started: Instant,
    /// When the timer next checks the deadlines, milliseconds after `started`.
    next_look_ms: AtomicU64,
    look_earlier: Notify,
}

impl Pool {
    /// A pool whose tasks run on `runtime`.
    pub fn new(runtime: Handle, mut settings: PoolSettings, events: Arc<dyn Events>) -> Self {
        let shared = Arc::new(Shared {
            tls: Mutex::new(settings.tls.take()),
            settings,
            events,
            lines: Mutex::default(),
            next_opaque: AtomicI32::new(0),
            in_flight: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            started: Instant::now(),
            next_look_ms: AtomicU64::new(0),
            look_earlier: Notify::new(),
        });
        runtime.spawn(shared.clone().watch_deadlines());
        Self { shared, runtime }
    }

    /// Starts a batch for one or more requests.
    pub fn batch(&self) -> Batch {
        Batch::new(self.shared.clone())
    }

    /// Sends a batch to "host:port" from any thread without blocking; outcomes come as events.
    pub fn submit(&self, address: &str, batch: Batch) {
        let shared = &self.shared;
        let replies = batch.requests.entries.iter().filter(|entry| !entry.oneway);
        let first_deadline = replies.map(|entry| entry.waiter.deadline).min();
        let mut requests = batch.requests;
        while !requests.entries.is_empty() {
            let Some(line) = self.line(address) else {
                shared.fail(requests.entries, &Failure::Closed);
                break;
            };
            match line.submit(shared, requests) {
                Ok(()) => break,
                // The line ended after the look-up; the next look-up makes a new one.
                Err(back) => requests = back,
            }
        }
        if let Some(deadline) = first_deadline {
            shared.look_at(deadline);
        }
        shared.events.settled();
    }

    /// Sends our reply to a server's request, on the connection to that address.
    pub fn reply(&self, address: &str, frame: Vec<u8>) {
        let line = self.shared.lines.lock().get(address).cloned();
        if let Some(line) = line {
            line.reply(frame);
        }
    }

    /// Uses other certificates for new connections; open connections stay.
    pub fn renew_tls(&self, tls: Arc<ClientConfig>) {
        *self.shared.tls.lock() = Some(tls);
    }

    /// Closes every connection and fails every request.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.look_earlier.notify_one();
        for line in self.shared.lines() {
            line.end(&self.shared, Failure::Closed);
        }
    }

    /// The line of an address; a missing one is created and started. None once the pool is closed.
    fn line(&self, address: &str) -> Option<Arc<Line>> {
        let mut lines = self.shared.lines.lock();
        if self.shared.closed.load(Ordering::Acquire) {
            return None; // asked under the lock: `close` ends every line it finds there
        }
        if let Some(line) = lines.get(address) {
            return Some(line.clone());
        }
        let line = Arc::new(Line::new(address, self.shared.now_ms()));
        lines.insert(address.to_owned(), line.clone());
        self.runtime.spawn(line.clone().run(self.shared.clone()));
        Some(line)
    }
}

impl Shared {
    /// TLS of a new connection; None is plain.
    pub fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.lock().clone()
    }

    /// Milliseconds since the pool was created.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Frees the in-flight places of `count` requests.
    pub fn release(&self, count: usize) {
        self.in_flight.fetch_sub(count, Ordering::Relaxed);
    }

    /// A correlation number that no request in flight has; numbers repeat after 2^32 requests.
    pub fn next_opaque(&self) -> i32 {
        self.next_opaque.fetch_add(1, Ordering::Relaxed)
    }

    /// Fails requests that no line tracks as waiting, and frees their places.
    pub fn fail(&self, entries: Vec<Entry>, failure: &Failure) {
        self.release(entries.len());
        for entry in entries {
            self.events.failed(entry.waiter.token, failure.clone());
        }
    }

    /// Takes an in-flight place for one request.
    pub fn claim(&self) -> Result<(), Failure> {
        let limit = self.settings.in_flight_max;
        if self.in_flight.fetch_add(1, Ordering::Relaxed) < limit {
            return Ok(());
        }
        self.release(1);
        Err(Failure::Busy(format!(
            "{limit} requests are in flight already"
        )))
    }

    /// Removes a line from the map, unless a newer line has replaced it.
    pub fn forget(&self, line: &Line) {
        let mut lines = self.lines.lock();
        if lines
            .get(&line.address)
            .is_some_and(|current| std::ptr::eq(&**current, line))
        {
            lines.remove(&line.address);
        }
    }

    fn lines(&self) -> Vec<Arc<Line>> {
        self.lines.lock().values().cloned().collect()
    }

    /// Makes sure that the timer wakes no later than `deadline`.
    fn look_at(&self, deadline: Instant) {
        let at_ms = self.ms_of(deadline);
        if at_ms < self.next_look_ms.load(Ordering::Acquire) {
            self.next_look_ms.fetch_min(at_ms, Ordering::AcqRel);
            self.look_earlier.notify_one();
        }
    }

    fn ms_of(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.started);
        u64::try_from(since.as_millis())
            .unwrap_or(u64::MAX)
            .saturating_add(1)
    }

    /// The timer: sleeps until the earliest deadline, fails late requests, closes idle connections.
    async fn watch_deadlines(self: Arc<Self>) {
        let idle = self.settings.idle_timeout;
        while !self.closed.load(Ordering::Acquire) {
            let now = Instant::now();
            // Set before the check, so that a request submitted during the check lowers it again.
            self.next_look_ms
                .store(self.ms_of(now + idle / 4), Ordering::Release);
            let idle_since_ms = self.now_ms() - i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
            for line in self.lines() {
                if let Some(next) = line.expire(&self, now) {
                    self.next_look_ms
                        .fetch_min(self.ms_of(next), Ordering::AcqRel);
                }
                if line.is_idle(idle_since_ms) {
                    line.close();
                }
            }
            self.events.settled();
            let wake_ms = self.next_look_ms.load(Ordering::Acquire);
            let wake = self.started + Duration::from_millis(wake_ms);
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                () = self.look_earlier.notified() => {}
            }
        }
    }
}
