//! A slave: the thread that copies a master's log into a store, around [`SlaveSide`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustls::ClientConfig;

use crate::channel::{Channel, LOOK};
use crate::meter::Meter;
use crate::protocol::Fault;
use crate::slave_status::{SlaveSettings, SlaveState, SlaveStatus};
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_store::{Role, Store, StoreError};

const THREAD: &str = "mq-ha-slave";
/// Pause before the next connect after a connection on which frames came.
const RECONNECT: Duration = Duration::from_millis(100);

/// Copies a master's log into a store in the role of a slave. Dropping it stops it.
pub struct HaSlave {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State of a slave, for its thread and its callers.
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    services: Arc<Services>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: SlaveSettings,
    /// See [`SlaveSettings::tls`].
    pub(crate) tls: Mutex<Option<Arc<ClientConfig>>>,
    pub(crate) target: Mutex<Target>,
    /// The target changed, or the thread shall stop.
    changed: Condvar,
    pub(crate) live: Mutex<Option<Arc<Channel>>>,
    pub(crate) status: Mutex<SlaveStatus>,
    pub(crate) meter: Mutex<Meter>,
    /// Monotonic time at which it last had all that it knew its master to have; -1 for none.
    pub(crate) level_ms: AtomicI64,
    is_stopped: AtomicBool,
}

/// The master to follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    address: Option<String>,
    pub(crate) first_offset: Option<u64>,
    /// The logs differ: do not connect again.
    is_given_up: bool,
    /// Start and end of its log, from [`HaSlave::note_master_range`].
    pub(crate) range: Option<(u64, u64)>,
}

impl HaSlave {
    /// A slave without a master, whose thread does not run yet.
    pub fn new(store: Arc<Store>, settings: SlaveSettings) -> Self {
        let shared = Shared {
            services: store.services(),
            clock: store.clock(),
            store,
            tls: Mutex::new(settings.tls.clone()),
            settings,
            target: Mutex::default(),
            changed: Condvar::new(),
            live: Mutex::default(),
            status: Mutex::default(),
            meter: Mutex::default(),
            level_ms: AtomicI64::new(-1),
            is_stopped: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            thread: Mutex::default(),
        }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// [`StoreError::Forbidden`] unless the store is a slave, or if the thread runs already.
    pub fn start(&self) -> Result<(), StoreError> {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return Err(StoreError::Forbidden("the slave runs already"));
        }
        if self.shared.store.role() != Role::Slave {
            return Err(StoreError::Forbidden(
                "only a store in the role slave follows a master",
            ));
        }
        self.shared.is_stopped.store(false, Ordering::Release);
        let shared = Arc::clone(&self.shared);
        let spawned = thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || shared.run());
        *thread = Some(spawned.map_err(|source| StoreError::Io {
            path: "the thread of a slave".into(),
            source,
        })?);
        Ok(())
    }

    /// Follows the master at this address ("host:port"); None ends that. A connection to another
    /// address is closed; the same address changes nothing.
    ///
    /// `first_offset`: where an empty log begins, the start of a file of the master; None for the
    /// start of its last file.
    pub fn set_master(&self, address: Option<String>, first_offset: Option<u64>) {
        let mut target = self.shared.target.lock();
        if (&target.address, target.first_offset) == (&address, first_offset) {
            return;
        }
        let is_same = target.address == address;
        *target = Target {
            address,
            first_offset,
            is_given_up: is_same && target.is_given_up,
            range: target.range.filter(|_| is_same),
        };
        drop(target);
        self.shared.wake();
    }

    /// Start and end of the master's log, which the HA connection does not tell. If this log ends
    /// before that start, it continues at the start: the master has deleted the bytes between.
    pub fn note_master_range(&self, start: u64, end: u64) {
        let (_, own_end) = self.shared.store.raw_range();
        let before = self.shared.target.lock().range.replace((start, end));
        let is_new = before.is_none_or(|(before, _)| before != start);
        if is_new && (1..start).contains(&own_end) {
            // The next connection asks for the start.
            self.shared.wake();
        }
    }

    /// Uses another certificate, or trusts another, from the next connection on. Without effect
    /// unless the slave was started with TLS.
    pub fn renew_tls(&self, tls: Arc<ClientConfig>) {
        let mut now = self.shared.tls.lock();
        *now = now.take().map(|_| tls);
    }

    /// State and figures.
    pub fn status(&self) -> SlaveStatus {
        self.shared.status()
    }

    /// Ends the connection and the thread.
    pub fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.lock().take() {
            // The join cannot fail: the thread catches panics.
            let _ = thread.join();
        }
        self.shared.status.lock().state = SlaveState::Stopped;
    }
}

impl Drop for HaSlave {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn status(&self) -> SlaveStatus {
        let mut status = self.status.lock().clone();
        let target = self.target.lock().clone();
        let (_, end) = self.store.raw_range();
        status.address = target.address;
        status.offset = end;
        let of_range = target.range.map(|(_, end)| end);
        status.master_offset = status.master_offset.max(of_range);
        let is_below = target
            .range
            .is_some_and(|(start, _)| (1..start).contains(&end));
        let is_idle = matches!(
            status.state,
            SlaveState::Waiting | SlaveState::Verifying | SlaveState::Transfer | SlaveState::Ahead
        );
        if is_below && is_idle {
            status.state = SlaveState::Below;
        }
        status.lag_ms = self.lag_ms(status.state, status.master_offset > Some(end));
        let meter = self.meter.lock();
        status.bytes_received = meter.total();
        status.bytes_per_second = meter.rate(self.clock.monotonic_ms());
        status
    }

    fn lag_ms(&self, state: SlaveState, is_behind: bool) -> Option<i64> {
        if state == SlaveState::Transfer && !is_behind {
            return Some(0);
        }
        let since_ms = match self.level_ms.load(Ordering::Acquire) {
            -1 => self.clock.wall_ms() - self.store.last_store_time_ms()?,
            level_ms => self.clock.monotonic_ms() - level_ms,
        };
        Some(since_ms.max(0))
    }

    fn wake(&self) {
        if let Some(channel) = &*self.live.lock() {
            channel.close();
        }
        // Under the lock: the thread does not miss it between its check and its wait.
        let _target = self.target.lock();
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    fn run(&self) {
        while !self.is_stopped() {
            let pause = self.services.round(THREAD, || self.round());
            self.pause(pause.unwrap_or(self.settings.retry_interval));
        }
    }

    /// Waits until the target changes, at most this long.
    fn pause(&self, at_most: Duration) {
        let mut target = self.target.lock();
        if !self.is_stopped() && !at_most.is_zero() {
            self.changed.wait_for(&mut target, at_most);
        }
    }

    /// Follows the target as long as the connection lasts; returns the pause before the next one.
    fn round(&self) -> Duration {
        let target = self.target.lock().clone();
        let Some(address) = target.address.clone().filter(|_| !target.is_given_up) else {
            if !target.is_given_up {
                self.set_state(SlaveState::Idle);
            }
            return LOOK;
        };
        self.set_state(SlaveState::Connecting);
        let ended = self.follow(&address, &target);
        *self.live.lock() = None;
        let was_told = self.status.lock().state != SlaveState::Waiting;
        if self.is_stopped() || self.is_other(&target) {
            return Duration::ZERO;
        }
        match ended {
            Ok(()) if was_told => {
                self.failed(
                    SlaveState::Connecting,
                    &address,
                    "the master closed the connection",
                );
                RECONNECT
            }
            Ok(()) => {
                let why = "the master closed the connection at once; its log says why";
                self.failed(SlaveState::Connecting, &address, why);
                self.settings.retry_interval
            }
            Err(Ended::Socket(error)) => {
                self.failed(SlaveState::Connecting, &address, &error.to_string());
                self.settings.retry_interval
            }
            Err(Ended::Fault(Fault::Diverged(offset))) => {
                self.give_up(&target, &address, offset);
                Duration::ZERO
            }
            Err(Ended::Fault(fault)) => {
                self.failed(SlaveState::Refused, &address, &fault.to_string());
                self.settings.retry_interval
            }
        }
    }

    pub(crate) fn is_other(&self, target: &Target) -> bool {
        let now = self.target.lock();
        (&now.address, now.first_offset) != (&target.address, target.first_offset)
    }

    fn set_state(&self, state: SlaveState) {
        self.status.lock().state = state;
    }

    /// Notes a failure, and logs it if the last one was another.
    fn failed(&self, state: SlaveState, address: &str, reason: &str) {
        let mut status = self.status.lock();
        status.state = state;
        if status.reason != reason {
            tracing::warn!("the connection to the master {address} ended: {reason}");
            reason.clone_into(&mut status.reason);
        }
    }

    fn give_up(&self, target: &Target, address: &str, offset: u64) {
        let fault = Fault::Diverged(offset).to_string();
        let (_, end) = self.store.raw_range();
        tracing::error!(
            "stopped copying from the master {address}: {fault}, and this one ends at {end}. To \
             follow it again, stop this broker, run `mqstore cut STORE {offset}`, which keeps the \
             bytes that it cuts, and start this broker"
        );
        let mut status = self.status.lock();
        (status.state, status.diverged_at) = (SlaveState::Diverged, Some(offset));
        status.reason = fault;
        drop(status);
        let mut now = self.target.lock();
        if now.address == target.address {
            now.is_given_up = true;
        }
    }
}

/// Why a connection ended otherwise than by a close.
#[derive(Debug)]
pub(crate) enum Ended {
    Socket(io::Error),
    Fault(Fault),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl From<Fault> for Ended {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
