//! What requests and connections share: settings, events, and the requests in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::ClientConfig;

use super::events::{Events, Failure};
use super::requests::Entry;
use super::settings::PoolSettings;

pub(super) struct Shared {
    pub settings: PoolSettings,
    /// TLS of the next connections.
    tls: Mutex<Option<Arc<ClientConfig>>>,
    pub events: Arc<dyn Events>,
    next_opaque: AtomicI32,
    in_flight: AtomicUsize,
    pub started: Instant,
}

impl Shared {
    pub fn new(mut settings: PoolSettings, events: Arc<dyn Events>) -> Self {
        Self {
            tls: Mutex::new(settings.tls.take()),
            settings,
            events,
            next_opaque: AtomicI32::new(0),
            in_flight: AtomicUsize::new(0),
            started: Instant::now(),
        }
    }

    /// TLS of a new connection; None is plain.
    pub fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.lock().clone()
    }

    /// Uses other certificates for new connections.
    pub fn renew_tls(&self, tls: Arc<ClientConfig>) {
        *self.tls.lock() = Some(tls);
    }

    /// Milliseconds since the pool was created.
    pub fn now_ms(&self) -> i64 {
        self.ms_of(Instant::now())
    }

    /// An instant on the clock of `now_ms`.
    pub fn ms_of(&self, instant: Instant) -> i64 {
        let since = instant.saturating_duration_since(self.started);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// The instant of a time on the clock of `now_ms`.
    pub fn instant_of(&self, ms: i64) -> Instant {
        self.started + Duration::from_millis(ms.unsigned_abs())
    }

    /// Frees the in-flight places of `count` requests.
    pub fn release(&self, count: usize) {
        self.in_flight.fetch_sub(count, Ordering::Relaxed);
    }

    /// A correlation number that no request in flight has; numbers repeat after 2^32 requests.
    pub fn next_opaque(&self) -> i32 {
        self.next_opaque.fetch_add(1, Ordering::Relaxed)
    }

    /// Fails requests that no connection tracks as waiting, and frees their places.
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
}
