//! What a server is told at start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use crate::limits;
use mq_format::remoting::HeaderLimits;

/// Which of RocketMQ's two servers this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Stores messages.
    Broker,
    /// Knows routes.
    NameServer,
}

/// Who decides about sends and pulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPlane {
    /// Native handlers, as far as the tables allow.
    Native,
    /// Python, always.
    Python,
}

/// What the main port and the fast port take (RocketMQ's `tls.server.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Plain connections only.
    Disabled,
    /// Both.
    Permissive,
    /// TLS only.
    Enforcing,
}

/// TLS of both ports.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// Which connections are taken.
    pub mode: TlsMode,
    /// What clients are shown and asked for at first; see `Tls::show`.
    pub shown: Option<Arc<ServerConfig>>,
    /// A handshake that takes longer closes its connection.
    pub handshake_timeout: Duration,
    /// Handshakes at once, of all clients.
    pub handshakes_max: usize,
    /// Handshakes at once, of one source address.
    pub source_handshakes_max: usize,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            mode: TlsMode::Disabled,
            shown: None,
            handshake_timeout: Duration::from_secs(limits::HANDSHAKE_SECONDS_MAX),
            handshakes_max: limits::HANDSHAKES_MAX,
            source_handshakes_max: limits::SOURCE_HANDSHAKES_MAX,
        }
    }
}

/// What the sender of a frame must keep to, from the frame's first byte to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// A frame that is not complete by then closes its connection.
    pub time: Duration,
    /// Average bytes a second of a frame that takes over a third of `time`; 0 asks for none.
    pub bytes_per_second: u64,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(limits::FRAME_SECONDS_MAX),
            bytes_per_second: limits::FRAME_BYTES_PER_SECOND_MIN,
        }
    }
}

/// One frozen set of settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Broker or NameServer.
    pub kind: Kind,
    /// Address to bind, a name or an IP.
    pub host: String,
    /// Main port; 0 picks a free one.
    pub port: u16,
    /// Fast (VIP) port; None for none, 0 picks a free one.
    pub fast_port: Option<u16>,
    /// Threads of the runtime; None is cores + 2.
    pub worker_threads: Option<usize>,
    /// Native or Python.
    pub data_plane: DataPlane,
    /// Largest frame taken, bytes, its length word included.
    pub frame_bytes_max: usize,
    /// What the header of a frame may take.
    pub header: HeaderLimits,
    /// What the sender of a frame must keep to.
    pub frame: FrameLimits,
    /// Bytes of frames that have begun and not ended, of all connections together.
    pub unfinished_bytes_max: usize,
    /// Bytes of requests over 1 MiB that are being received or served, of all connections.
    pub large_bytes_max: usize,
    /// A connection without a byte in either direction for this long is closed.
    pub idle_timeout: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Families of Python processors and the requests each may have waiting.
    pub families: Vec<(String, usize)>,
    /// Request code to family name.
    pub routes: HashMap<i32, String>,
    /// Family of codes that have no route; None leaves them unanswered, as a NameServer does.
    pub default_family: Option<String>,
    /// TLS; disabled unless set.
    pub tls: TlsSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kind: Kind::Broker,
            host: "0.0.0.0".into(),
            port: 10911,
            fast_port: None,
            worker_threads: None,
            data_plane: DataPlane::Native,
            frame_bytes_max: limits::FRAME_BYTES_MAX,
            header: HeaderLimits {
                bytes: limits::HEADER_BYTES_MAX,
                fields: limits::HEADER_FIELDS_MAX,
            },
            frame: FrameLimits::default(),
            unfinished_bytes_max: limits::UNFINISHED_BYTES_MAX,
            large_bytes_max: limits::LARGE_BYTES_MAX,
            idle_timeout: Duration::from_secs(120),
            connections_max: limits::CONNECTIONS_MAX,
            families: Vec::new(),
            routes: HashMap::new(),
            default_family: None,
            tls: TlsSettings::default(),
        }
    }
}

impl Settings {
    /// Threads of the runtime. Two more than cores: a worker that waits for the put lock must
    /// not leave a core idle.
    pub fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.worker_threads.unwrap_or(cores + 2).max(1)
    }
}
