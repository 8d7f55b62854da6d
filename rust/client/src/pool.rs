//! The pool: an address in, a reply out.

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

/// Bounds and times of the engine.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// How long to try to connect; RocketMQ's 3 s.
    pub connect_timeout: Duration,
    /// A connection without traffic and without requests is closed after this; 120 s.
    pub idle_timeout: Duration,
    /// Largest frame received, length word included.
    pub max_frame_bytes: usize,
    /// Requests in flight over all connections; more are refused.
    pub in_flight_max: usize,
    /// Bytes waiting for one slow server; more are refused.
    pub outbound_limit_bytes: usize,
    /// TLS with every server, until `Pool::renew_tls`; None is plain.
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

/// Connections by address. `close` it before its runtime goes: dropping alone closes nothing, so
/// that a copy in a forked child cannot shut the parent's sockets down.
pub struct Pool {
    pub(super) shared: Arc<Shared>,
    runtime: Handle,
}

/// What lines, timer and submitters share.
pub(super) struct Shared {
    pub settings: PoolSettings,
    /// What the next connections are made with.
    tls: Mutex<Option<Arc<ClientConfig>>>,
    pub events: Arc<dyn Events>,
    lines: Mutex<HashMap<String, Arc<Line>>>,
    next_opaque: AtomicI32,
    in_flight: AtomicUsize,
    closed: AtomicBool,
    started: Instant,
    /// The next time the timer looks at deadlines, milliseconds after `started`.
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

    /// Starts a batch of requests; of one or many.
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
                // The line ended between the look-up and the hand-over; the next one is new.
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

    /// Makes new connections with other certificates; open ones go on.
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

    /// The line of an address, made and started if there is none; None once the pool is closed.
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

    /// Milliseconds since the pool was made.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Frees places of requests that are over.
    pub fn release(&self, count: usize) {
        self.in_flight.fetch_sub(count, Ordering::Relaxed);
    }

    /// A correlation number that nobody has used for a long time.
    pub fn next_opaque(&self) -> i32 {
        self.next_opaque.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells the failure of requests that were never handed to a line.
    pub fn fail(&self, entries: Vec<Entry>, failure: &Failure) {
        self.release(entries.len());
        for entry in entries {
            self.events.failed(entry.waiter.token, failure.clone());
        }
    }

    /// Takes a place in flight.
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

    /// Takes a line out of the map, unless a newer one has its place.
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

    /// Makes sure that the timer looks no later than `deadline`.
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

    /// The timer: sleeps to the earliest deadline, fails what is late, closes what is idle.
    async fn watch_deadlines(self: Arc<Self>) {
        let idle = self.settings.idle_timeout;
        while !self.closed.load(Ordering::Acquire) {
            let now = Instant::now();
            // Set before looking, so that a request submitted meanwhile lowers it again.
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
