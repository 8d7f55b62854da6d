//! A slave: the thread that copies a master's log into a store, around [`SlaveSide`].

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::master::is_pause;
use crate::meter::Meter;
use crate::protocol::{Fault, Overlap, SlaveLog, SlaveSide, SlaveStart, SlaveTiming};
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_store::{Role, Store, StoreError};

const THREAD: &str = "mq-ha-slave";
/// How often the thread looks at the time, and whether it shall stop.
const LOOK: Duration = Duration::from_millis(500);
/// Pause before the next connect after a connection on which frames came.
const RECONNECT: Duration = Duration::from_millis(100);
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Bytes of this log read at once for a comparison.
const COMPARE_BYTES: usize = 64 << 10;
/// If a master sends nothing for this time, its log has no more of the overlap.
const OVERLAP_PATIENCE_MS: i64 = 2_000;

/// Settings of a slave.
#[derive(Debug, Clone, Copy)]
pub struct SlaveSettings {
    /// Times.
    pub timing: SlaveTiming,
    /// Longest connect.
    pub connect_timeout: Duration,
    /// Pause after a failed connection.
    pub retry_interval: Duration,
}

impl Default for SlaveSettings {
    fn default() -> Self {
        Self {
            timing: SlaveTiming::default(),
            connect_timeout: Duration::from_secs(3),
            // RocketMQ's.
            retry_interval: Duration::from_secs(5),
        }
    }
}

/// States of a slave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlaveState {
    /// It has no master.
    #[default]
    Idle,
    /// It connects, or waits for the next attempt.
    Connecting,
    /// It is connected, and no frame has come yet.
    Waiting,
    /// It compares the end of its log with the master's.
    Verifying,
    /// It copies what comes.
    Transfer,
    /// Its log is longer than the master's.
    Ahead,
    /// Its log ends before the master's begins, and has not gone on there yet.
    Below,
    /// The two logs differ, so it has stopped.
    Diverged,
    /// The master said something that cannot be, or the own log failed; it tries again.
    Refused,
    /// It was stopped.
    Stopped,
}

/// Figures of a slave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlaveStatus {
    /// The master's address.
    pub address: Option<String>,
    /// The state.
    pub state: SlaveState,
    /// The last failure.
    pub reason: String,
    /// End of its log.
    pub offset: u64,
    /// End of the master's log, as far as known.
    pub master_offset: Option<u64>,
    /// Its last report.
    pub reported: Option<u64>,
    /// First offset at which the logs differ.
    pub diverged_at: Option<u64>,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes received per second, over the last ten seconds.
    pub bytes_per_second: u64,
    /// Connections made.
    pub connects: u64,
    /// Wall clock of the last read and write, milliseconds; 0 for none.
    pub last_read_ms: i64,
    /// See `last_read_ms`.
    pub last_write_ms: i64,
}

/// Copies a master's log into a store in the role of a slave. Dropping it stops it.
pub struct HaSlave {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    store: Arc<Store>,
    services: Arc<Services>,
    clock: Arc<dyn Clock>,
    settings: SlaveSettings,
    target: Mutex<Target>,
    /// The target changed, or the thread shall stop.
    changed: Condvar,
    live: Mutex<Option<TcpStream>>,
    status: Mutex<SlaveStatus>,
    meter: Mutex<Meter>,
    is_stopped: AtomicBool,
}

/// The master to follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Target {
    address: Option<String>,
    first_offset: Option<u64>,
    /// The logs differ: do not connect again.
    is_given_up: bool,
    /// Start and end of its log, from [`HaSlave::note_master_range`].
    range: Option<(u64, u64)>,
}

impl HaSlave {
    /// A slave without a master, whose thread does not run yet.
    pub fn new(store: Arc<Store>, settings: SlaveSettings) -> Self {
        let shared = Shared {
            services: store.services(),
            clock: store.clock(),
            store,
            settings,
            target: Mutex::default(),
            changed: Condvar::new(),
            live: Mutex::default(),
            status: Mutex::default(),
            meter: Mutex::default(),
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
    /// before that start, it goes on at the start: the master has deleted what is between.
    pub fn note_master_range(&self, start: u64, end: u64) {
        let (_, own_end) = self.shared.store.raw_range();
        let before = self.shared.target.lock().range.replace((start, end));
        let is_new = before.is_none_or(|(before, _)| before != start);
        if is_new && (1..start).contains(&own_end) {
            // The next connection asks for the start.
            self.shared.wake();
        }
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
        let meter = self.meter.lock();
        status.bytes_received = meter.total();
        status.bytes_per_second = meter.rate(self.clock.monotonic_ms());
        status
    }

    fn wake(&self) {
        if let Some(stream) = &*self.live.lock() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Under the lock: the thread does not miss it between its check and its wait.
        let _target = self.target.lock();
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
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

    fn is_other(&self, target: &Target) -> bool {
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

    fn follow(&self, address: &str, target: &Target) -> Result<(), Ended> {
        let stream = connect(address, self.settings.connect_timeout)?;
        *self.live.lock() = Some(stream.try_clone()?);
        if self.is_stopped() || self.is_other(target) {
            return Ok(());
        }
        let own = |error: StoreError| Ended::Fault(Fault::OwnLog(error.to_string()));
        // The comparison reads these bytes.
        let end = self.store.settle_raw().map_err(own)?;
        let range = self.target.lock().range;
        let start = SlaveStart {
            start: self.store.raw_range().0,
            end,
            file_bytes: self.store.log_file_bytes(),
            first_offset: target.first_offset,
            master_start: range.map(|(start, _)| start),
        };
        let mut status = self.status.lock();
        status.state = SlaveState::Waiting;
        status.connects += 1;
        status.master_offset = None;
        drop(status);
        tracing::info!(end, "following the master {address}");
        let session = Session {
            shared: self,
            side: SlaveSide::new(self.settings.timing, start, self.clock.monotonic_ms()),
            log: StoreLog {
                store: &self.store,
                buffer: Vec::new(),
            },
            stream,
            last_data_ms: self.clock.monotonic_ms(),
        };
        session.run()
    }
}

/// A connection to the master.
struct Session<'a> {
    shared: &'a Shared,
    side: SlaveSide,
    log: StoreLog<'a>,
    stream: TcpStream,
    /// When bytes of the log came last, monotonic milliseconds.
    last_data_ms: i64,
}

impl Session<'_> {
    fn run(mut self) -> Result<(), Ended> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.report()?;
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if is_pause(&error) => 0,
                Err(error) => return Err(Ended::Socket(error)),
            };
            let now_ms = self.shared.clock.monotonic_ms();
            if count == 0 {
                self.side.check(now_ms)?;
            } else {
                self.take(&buffer[..count], now_ms)?;
            }
            self.note(count, now_ms);
            if self.shared.is_stopped() {
                return Ok(());
            }
        }
    }

    fn take(&mut self, bytes: &[u8], now_ms: i64) -> Result<(), Ended> {
        let before = self.side.master_end();
        let taken = self.side.receive(bytes, now_ms, &mut self.log);
        if self.side.master_end() > before {
            self.last_data_ms = now_ms;
        }
        Ok(taken?)
    }

    fn report(&mut self) -> Result<(), Ended> {
        let settled = self.shared.store.settle_raw();
        let end = settled.map_err(|error| Fault::OwnLog(error.to_string()))?;
        let now_ms = self.shared.clock.monotonic_ms();
        if let Some(report) = self.side.report(end, now_ms) {
            self.stream.write_all(&report)?;
            let mut status = self.shared.status.lock();
            status.last_write_ms = self.shared.clock.wall_ms();
            status.reported = self.side.reported();
        }
        Ok(())
    }

    /// Publishes the connection's state.
    fn note(&self, count: usize, now_ms: i64) {
        let state = match self.side.overlap() {
            _ if !self.side.is_told() => SlaveState::Waiting,
            Overlap::Equal => SlaveState::Transfer,
            Overlap::Compared { .. } if now_ms - self.last_data_ms < OVERLAP_PATIENCE_MS => {
                SlaveState::Verifying
            }
            Overlap::Compared { .. } => SlaveState::Ahead,
        };
        let mut status = self.shared.status.lock();
        if state != status.state {
            self.changed(state);
        }
        if state == SlaveState::Transfer {
            status.reason.clear();
        }
        status.state = state;
        if count > 0 {
            status.last_read_ms = self.shared.clock.wall_ms();
            status.master_offset = status.master_offset.max(Some(self.side.master_end()));
            drop(status);
            self.shared.meter.lock().count(count, now_ms);
        }
    }

    fn changed(&self, state: SlaveState) {
        let (_, end) = self.shared.store.raw_range();
        match state {
            SlaveState::Transfer => tracing::info!(end, "this log agrees with the master's"),
            SlaveState::Ahead => {
                let master = self.side.master_end();
                tracing::error!(
                    "this log ends at {end}, and the master sends nothing beyond {master}: it lost \
                     messages, or its log begins later; nothing is copied until its log is longer \
                     and equal"
                );
            }
            _ => {}
        }
    }
}

fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::other(format!("{address} has no address"));
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LOOK))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The store as the protocol sees it.
struct StoreLog<'a> {
    store: &'a Store,
    buffer: Vec<u8>,
}

impl SlaveLog for StoreLog<'_> {
    fn compare(&mut self, mut offset: u64, mut bytes: &[u8]) -> Result<Option<u64>, String> {
        self.buffer.resize(COMPARE_BYTES, 0);
        while !bytes.is_empty() {
            let count = bytes.len().min(COMPARE_BYTES);
            let own = self.store.read_raw(offset, &mut self.buffer[..count]);
            let count = own.map_err(|error| format!("read of the own log at {offset}: {error}"))?;
            if count == 0 {
                return Err(format!("the own log has nothing at {offset}"));
            }
            let pairs = self.buffer[..count].iter().zip(bytes);
            if let Some(at) = pairs.clone().position(|(own, other)| own != other) {
                return Ok(Some(offset + at as u64));
            }
            offset += count as u64;
            bytes = &bytes[count..];
        }
        Ok(None)
    }

    fn skip_to(&mut self, offset: u64) -> Result<(), String> {
        let (_, end) = self.store.raw_range();
        tracing::warn!(
            "the master's log begins at {offset}, after the end of this one at {end}: it has \
             deleted what is between. This log keeps what it has, and goes on at {offset}"
        );
        let skipped = self.store.skip_raw(offset);
        skipped.map_err(|error| error.to_string())
    }

    fn append(
        &mut self,
        offset: u64,
        bytes: &[u8],
        store_timestamp_ms: Option<i64>,
    ) -> Result<(), String> {
        let appended = self.store.append_raw(offset, bytes, store_timestamp_ms);
        appended.map(drop).map_err(|error| error.to_string())
    }
}

/// Why a connection ended otherwise than by a close.
#[derive(Debug)]
enum Ended {
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
