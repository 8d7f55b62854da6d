//! The HA port of a master: threads and sockets around [`MasterSide`].

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use socket2::SockRef;

use crate::allow::Allowed;
use crate::meter::{Limit, Meter};
use crate::protocol::{Fault, HEADER_BYTES, LogRange, MasterSide, MasterTiming, Step};
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_store::{Replica, Store};

const ACCEPTS: &str = "mq-ha-accept";
const READS: &str = "mq-ha-read";
const SENDS: &str = "mq-ha-send";
/// How often a thread that waits looks at its connection.
const LOOK: Duration = Duration::from_millis(500);
/// Pause after a failed accept, such as without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// While no send waits for slaves, messages of this time are sent together.
const NAP: Duration = Duration::from_millis(1);
/// Frames are written together up to about this size.
const WRITE_BYTES: usize = 256 << 10;

/// Settings of a master.
#[derive(Debug, Clone)]
pub struct MasterSettings {
    /// Address to listen on; empty for all.
    pub host: String,
    /// `haListenPort`; 0 for a free one.
    pub port: u16,
    /// Times, and the size of a frame.
    pub timing: MasterTiming,
    /// Most slaves at a time.
    pub slaves_max: usize,
    /// `haMaxBytesPerSecond` of each slave; 0 for no limit.
    pub bytes_per_second_max: u64,
    /// `haAllowAddresses`.
    pub allowed: Allowed,
}

impl Default for MasterSettings {
    fn default() -> Self {
        Self {
            host: String::new(),
            port: 0,
            timing: MasterTiming::default(),
            slaves_max: 16,
            bytes_per_second_max: 0,
            allowed: Allowed::default(),
        }
    }
}

/// A connected slave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlaveRow {
    /// Its address.
    pub address: SocketAddr,
    /// Its last acknowledgement; None before its first report.
    pub acked: Option<u64>,
    /// End of the sent bytes; None before its first report.
    pub sent: Option<u64>,
    /// Whether it asks for bytes that the log no longer has.
    pub is_out_of_range: bool,
    /// Bytes of the log after its last acknowledgement.
    pub lag_bytes: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes sent per second, over the last ten seconds.
    pub bytes_per_second: u64,
    /// Milliseconds since it connected.
    pub connected_ms: i64,
}

/// Serves a store's log to slaves. Dropping it closes the port and all connections.
pub struct HaMaster {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
}

struct Running {
    listener: TcpListener,
    thread: JoinHandle<()>,
}

struct Shared {
    store: Arc<Store>,
    services: Arc<Services>,
    clock: Arc<dyn Clock>,
    settings: MasterSettings,
    slaves: Mutex<Vec<Arc<Slave>>>,
    is_stopped: AtomicBool,
    refused: AtomicU64,
}

struct Slave {
    address: SocketAddr,
    stream: TcpStream,
    is_closed: AtomicBool,
    /// The last report that the store knows of; -1 for none.
    counted: AtomicI64,
    connected_at_ms: i64,
    side: Mutex<MasterSide>,
    meter: Mutex<Meter>,
}

impl HaMaster {
    /// A master that does not listen yet.
    pub fn new(store: Arc<Store>, settings: MasterSettings) -> Self {
        let shared = Shared {
            services: store.services(),
            clock: store.clock(),
            store,
            settings,
            slaves: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            running: Mutex::default(),
        }
    }

    /// Listens, and serves slaves from now on; returns the port.
    ///
    /// # Errors
    /// The port is taken, the host has no address, or the master runs already.
    pub fn start(&self) -> io::Result<u16> {
        let mut running = self.running.lock();
        if running.is_some() {
            return Err(io::Error::other("the HA port is open already"));
        }
        let settings = &self.shared.settings;
        let host = match settings.host.as_str() {
            "" => "0.0.0.0",
            host => host,
        };
        let addresses: Vec<SocketAddr> = (host, settings.port).to_socket_addrs()?.collect();
        let listener = TcpListener::bind(&addresses[..])?;
        let port = listener.local_addr()?.port();
        let accepting = listener.try_clone()?;
        let shared = Arc::clone(&self.shared);
        shared.is_stopped.store(false, Ordering::Release);
        let run = move || shared.accept_all(&accepting);
        let thread = thread::Builder::new().name(ACCEPTS.into()).spawn(run)?;
        *running = Some(Running { listener, thread });
        Ok(port)
    }

    /// The connected slaves.
    pub fn slaves(&self) -> Vec<SlaveRow> {
        let now_ms = self.shared.clock.monotonic_ms();
        let (_, end) = self.shared.store.raw_range();
        let slaves = self.shared.slaves.lock();
        slaves.iter().map(|slave| slave.row(end, now_ms)).collect()
    }

    /// Connections that were refused: by address, or because there were too many.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Closes the port and all connections, and waits for the threads.
    pub fn stop(&self) {
        let Some(running) = self.running.lock().take() else {
            return;
        };
        self.shared.is_stopped.store(true, Ordering::Release);
        // On Linux this ends the accept that waits.
        let closed = SockRef::from(&running.listener).shutdown(Shutdown::Both);
        if let Err(error) = closed {
            tracing::debug!(%error, "the HA port was not listening");
        }
        self.shared.close_all();
        // The join cannot fail: the thread catches panics.
        let _ = running.thread.join();
    }
}

impl Drop for HaMaster {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn accept_all(self: Arc<Self>, listener: &TcpListener) {
        let mut connections: Vec<JoinHandle<()>> = Vec::new();
        while !self.is_stopped.load(Ordering::Acquire) {
            let accepted = self.services.round(ACCEPTS, || listener.accept());
            match accepted {
                Ok(Ok((stream, address))) => {
                    connections.retain(|thread| !thread.is_finished());
                    connections.extend(self.admit(stream, address));
                }
                Ok(Err(_)) if self.is_stopped.load(Ordering::Acquire) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot accept a slave");
                    thread::sleep(ACCEPT_PAUSE);
                }
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
        }
        self.close_all();
        for connection in connections {
            // As above.
            let _ = connection.join();
        }
    }

    /// Serves a connection on threads of its own, if it is allowed.
    fn admit(self: &Arc<Self>, stream: TcpStream, address: SocketAddr) -> Option<JoinHandle<()>> {
        if !self.settings.allowed.allows(address.ip()) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "refused a slave from {address}: haAllowAddresses does not have its address"
            );
            return None;
        }
        if self.slaves.lock().len() >= self.settings.slaves_max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let most = self.settings.slaves_max;
            tracing::warn!("refused a slave from {address}: {most} are connected already");
            return None;
        }
        let served = self.serve(stream, address);
        served
            .inspect_err(|error| tracing::warn!(%error, "cannot serve the slave {address}"))
            .ok()
    }

    fn serve(
        self: &Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
    ) -> io::Result<JoinHandle<()>> {
        let housekeeping = self.settings.timing.housekeeping_ms.max(1).unsigned_abs();
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(Duration::from_millis(housekeeping)))?;
        let now_ms = self.clock.monotonic_ms();
        let slave = Arc::new(Slave {
            address,
            stream,
            is_closed: AtomicBool::new(false),
            counted: AtomicI64::new(-1),
            connected_at_ms: now_ms,
            side: Mutex::new(MasterSide::new(self.settings.timing, now_ms)),
            meter: Mutex::default(),
        });
        self.slaves.lock().push(Arc::clone(&slave));
        let shared = Arc::clone(self);
        let served = Arc::clone(&slave);
        let run = move || {
            shared.run(&served);
            shared.forget(&served);
        };
        let spawned = thread::Builder::new().name(READS.into()).spawn(run);
        spawned.inspect_err(|_| self.forget(&slave))
    }

    fn forget(&self, slave: &Arc<Slave>) {
        self.slaves
            .lock()
            .retain(|other| !Arc::ptr_eq(other, slave));
    }

    /// Reads and sends until the connection ends.
    fn run(&self, slave: &Slave) {
        let reason = thread::scope(|scope| {
            let send = || {
                let sent = self.services.round(SENDS, || self.send_all(slave));
                slave.close();
                sent.unwrap_or(Ended::Panicked)
            };
            let sender = thread::Builder::new()
                .name(SENDS.into())
                .spawn_scoped(scope, send);
            let sender = match sender {
                Ok(sender) => sender,
                Err(error) => return Ended::Socket(error),
            };
            let read = self.services.round(READS, || self.read_all(slave));
            slave.close();
            self.store.wake_senders();
            let sent = sender.join().unwrap_or(Ended::Closed);
            // The first reason closed the socket, which is the reason of the other thread.
            match read.unwrap_or(Ended::Panicked) {
                Ended::Closed => sent,
                read => read,
            }
        });
        let (address, acked) = (slave.address, slave.side.lock().acked());
        let acked = acked.map_or(-1, u64::cast_signed);
        match reason {
            _ if self.is_stopped.load(Ordering::Acquire) => {}
            Ended::Closed => tracing::info!(acked, "the slave {address} has left"),
            Ended::Socket(error) => {
                tracing::info!(acked, %error, "the connection of the slave {address} is lost");
            }
            Ended::Fault(fault) => {
                tracing::warn!(
                    acked,
                    "closed the connection of the slave {address}: {fault}"
                );
            }
            Ended::Panicked => {}
        }
    }

    fn read_all(&self, slave: &Slave) -> Ended {
        let replica = self.store.add_replica();
        let mut buffer = [0; 1_024];
        loop {
            let count = match (&slave.stream).read(&mut buffer) {
                Ok(0) => return Ended::Closed,
                Ok(count) => count,
                Err(error) if is_pause(&error) => 0,
                Err(_) if slave.is_closed() => return Ended::Closed,
                Err(error) => return Ended::Socket(error),
            };
            let taken = match count {
                0 => slave.side.lock().check(self.clock.monotonic_ms()),
                count => self.take(slave, &replica, &buffer[..count]),
            };
            if let Err(fault) = taken {
                return Ended::Fault(fault);
            }
        }
    }

    /// Takes bytes of the slave's reports.
    fn take(&self, slave: &Slave, replica: &Replica, bytes: &[u8]) -> Result<(), Fault> {
        let mut side = slave.side.lock();
        let before = side.acked();
        // Under the lock: nothing is sent meanwhile.
        side.receive(bytes, self.range(), self.clock.monotonic_ms())?;
        let (acked, sent, is_out_of_range) = (side.acked(), side.sent(), side.is_out_of_range());
        drop(side);
        let (Some(acked), Some(sent)) = (acked, sent) else {
            return Ok(());
        };
        if before.is_none() {
            self.joined(slave, sent, is_out_of_range);
        }
        if before != Some(acked) && !is_out_of_range {
            replica.acknowledge(acked);
        }
        slave.counted.store(acked.cast_signed(), Ordering::Release);
        Ok(())
    }

    fn joined(&self, slave: &Slave, from: u64, is_out_of_range: bool) {
        let (start, end) = self.store.raw_range();
        let address = slave.address;
        if is_out_of_range {
            tracing::warn!(
                "the slave {address} ends at {from}, before this log's start {start}: it gets \
                 nothing. A slave of mqstack asks for the start next; empty the store of a slave \
                 of RocketMQ, so that it begins anew"
            );
        } else {
            let behind = end.saturating_sub(from);
            tracing::info!(from, behind, "the slave {address} has joined");
        }
        self.store.wake_senders();
    }

    fn send_all(&self, slave: &Slave) -> Ended {
        let mut limit = Limit::new(self.settings.bytes_per_second_max);
        let mut out = Vec::new();
        while !slave.is_closed() && !self.is_stopped.load(Ordering::Acquire) {
            out.clear();
            let wait = match self.fill(slave, &mut out) {
                Ok(wait) => wait,
                Err(ended) => return ended,
            };
            if out.is_empty() {
                self.rest(slave, wait);
                continue;
            }
            if let Err(error) = (&slave.stream).write_all(&out) {
                return match slave.is_closed() {
                    true => Ended::Closed,
                    false => Ended::Socket(error),
                };
            }
            let now_ms = self.clock.monotonic_ms();
            slave.meter.lock().count(out.len(), now_ms);
            let pause = Duration::from_millis(limit.pause_ms(out.len(), now_ms));
            thread::sleep(pause.min(LOOK));
        }
        Ended::Closed
    }

    /// Adds frames to `out`; returns how long nothing is due if there are none, milliseconds.
    fn fill(&self, slave: &Slave, out: &mut Vec<u8>) -> Result<i64, Ended> {
        loop {
            let now_ms = self.clock.monotonic_ms();
            let step = slave.side.lock().step(self.range(), now_ms);
            match step.map_err(Ended::Fault)? {
                Step::Wait(at_most_ms) => return Ok(at_most_ms),
                Step::Heartbeat(_) => out.extend(slave.side.lock().send(0, now_ms)),
                Step::Data { offset, bytes } => {
                    let from = out.len();
                    out.resize(from + HEADER_BYTES + bytes, 0);
                    let body = &mut out[from + HEADER_BYTES..];
                    let read = self.store.read_raw(offset, body).map_err(Ended::Socket)?;
                    if read == 0 {
                        let gone = "the bytes it needs next were deleted";
                        return Err(Ended::Socket(io::Error::other(gone)));
                    }
                    out.truncate(from + HEADER_BYTES + read);
                    let header = slave.side.lock().send(read, now_ms);
                    out[from..from + HEADER_BYTES].copy_from_slice(&header);
                }
            }
            if out.len() >= WRITE_BYTES {
                return Ok(0);
            }
        }
    }

    /// Waits for the log to grow, or for a report.
    fn rest(&self, slave: &Slave, at_most_ms: i64) {
        if !self.store.awaits_slaves() {
            thread::sleep(NAP);
        }
        let at_most = Duration::from_millis(at_most_ms.max(1).unsigned_abs()).min(LOOK);
        let side = slave.side.lock();
        let sent = side.sent().filter(|_| !side.is_out_of_range());
        drop(side);
        self.store.wait_beyond(sent.unwrap_or(u64::MAX), at_most);
    }

    fn range(&self) -> LogRange {
        let (start, end) = self.store.raw_range();
        LogRange {
            start,
            end,
            file_bytes: self.store.log_file_bytes(),
        }
    }

    fn close_all(&self) {
        self.slaves.lock().iter().for_each(|slave| slave.close());
        self.store.wake_senders();
    }
}

impl Slave {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn row(&self, end: u64, now_ms: i64) -> SlaveRow {
        let acked = u64::try_from(self.counted.load(Ordering::Acquire)).ok();
        let side = self.side.lock();
        let meter = self.meter.lock();
        SlaveRow {
            address: self.address,
            acked,
            sent: side.sent(),
            is_out_of_range: side.is_out_of_range(),
            lag_bytes: end.saturating_sub(acked.unwrap_or(0)),
            bytes_sent: meter.total(),
            bytes_per_second: meter.rate(now_ms),
            connected_ms: now_ms - self.connected_at_ms,
        }
    }
}

/// Why a connection ended.
#[derive(Debug)]
enum Ended {
    /// By the slave, or by this side.
    Closed,
    Socket(io::Error),
    Fault(Fault),
    /// The services have its text.
    Panicked,
}

/// Whether a read ended because its time is over.
pub(crate) fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
