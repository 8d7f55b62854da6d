//! The HA port of a master: threads and sockets around [`MasterSide`].

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ServerConfig;
use socket2::SockRef;

use crate::allow::Allowed;
use crate::channel::Channel;
use crate::meter::Meter;
use crate::protocol::{MasterSide, MasterTiming};
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_store::{Replica, Store};

const ACCEPTS: &str = "mq-ha-accept";
pub(crate) const READS: &str = "mq-ha-read";
/// Pause after a failed accept, such as without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    /// `haTlsEnable`: slaves must connect under TLS.
    pub tls: Option<Arc<ServerConfig>>,
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
            tls: None,
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
    /// Milliseconds since the first message was stored that it has not acknowledged; 0 for none.
    /// None if it has acknowledged a part of a message, as a slave of RocketMQ may.
    pub lag_ms: Option<i64>,
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

/// State of a master, for all its threads.
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) services: Arc<Services>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: MasterSettings,
    /// See [`MasterSettings::tls`].
    pub(crate) tls: Mutex<Option<Arc<ServerConfig>>>,
    slaves: Mutex<Vec<Arc<Slave>>>,
    pub(crate) is_stopped: AtomicBool,
    refused: AtomicU64,
}

/// A connection with a slave.
pub(crate) struct Slave {
    pub(crate) address: SocketAddr,
    pub(crate) channel: Channel,
    pub(crate) is_closed: AtomicBool,
    /// The last report that the store knows of; -1 for none.
    pub(crate) counted: AtomicI64,
    /// Its acknowledgement in the store.
    pub(crate) replica: Replica,
    /// Whether its last acknowledgement is in doubt, see [`Shared::doubt_others`].
    pub(crate) is_in_doubt: AtomicBool,
    pub(crate) connected_at_ms: i64,
    pub(crate) side: Mutex<MasterSide>,
    pub(crate) meter: Mutex<Meter>,
}

impl HaMaster {
    /// A master that does not listen yet.
    pub fn new(store: Arc<Store>, settings: MasterSettings) -> Self {
        let shared = Shared {
            services: store.services(),
            clock: store.clock(),
            store,
            tls: Mutex::new(settings.tls.clone()),
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
        let slaves = self.shared.slaves.lock().clone();
        let rows = slaves.iter();
        rows.map(|slave| self.shared.row(slave, now_ms)).collect()
    }

    /// Shows another certificate to slaves that connect from now on. Without effect unless the
    /// master was started with TLS.
    pub fn renew_tls(&self, tls: Arc<ServerConfig>) {
        let mut now = self.shared.tls.lock();
        *now = now.take().map(|_| tls);
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
        stream.set_write_timeout(Some(Duration::from_millis(housekeeping)))?;
        let now_ms = self.clock.monotonic_ms();
        let slave = Arc::new(Slave {
            address,
            channel: Channel::new(stream),
            is_closed: AtomicBool::new(false),
            counted: AtomicI64::new(-1),
            replica: self.store.add_replica(),
            is_in_doubt: AtomicBool::new(false),
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

    /// Doubts the acknowledgements of other connections from the IP address of this slave. One of
    /// them may be its old connection, whose loss the master has not noticed: the slave would count
    /// twice. A live slave reports after the next message, or within seconds, and counts again.
    pub(crate) fn doubt_others(&self, slave: &Slave) {
        let slaves = self.slaves.lock();
        let is_same = |other: &&Arc<Slave>| {
            other.address.ip() == slave.address.ip() && other.address != slave.address
        };
        for other in slaves.iter().filter(is_same) {
            other.is_in_doubt.store(true, Ordering::Release);
            other.replica.doubt();
        }
    }

    fn close_all(&self) {
        self.slaves.lock().iter().for_each(|slave| slave.close());
        self.store.wake_senders();
    }
}
