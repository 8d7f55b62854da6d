//! Settings of a server at start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use crate::limits;
use mq_format::remoting::HeaderLimits;

/// Which of RocketMQ's two servers this one replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Stores messages.
    Broker,
    /// Knows routes.
    NameServer,
}

/// Which code answers sends and pulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPlane {
    /// Native handlers, as far as the published tables allow.
    Native,
    /// Python handlers only.
    Python,
}

/// Kinds of connections that both ports accept (RocketMQ's `tls.server.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Plain connections only.
    Disabled,
    /// Plain and TLS connections.
    Permissive,
    /// TLS connections only.
    Enforcing,
}

/// TLS settings of both ports.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// Which connections are accepted.
    pub mode: TlsMode,
    /// Certificate and client authentication at start; see `Tls::show`.
    pub shown: Option<Arc<ServerConfig>>,
    /// Time limit of a handshake; then its connection is closed.
    pub handshake_timeout: Duration,
    /// Handshakes at once, for all clients.
    pub handshakes_max: usize,
    /// Handshakes at once, for one source address.
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

/// Limits on the time between the first and the last byte of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Longest time of a frame; then its connection is closed.
    pub time: Duration,
    /// Minimum average rate of a frame that takes more than 1/3 of `time`; 0 for none.
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

/// The settings of a server; they do not change.
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
    /// Threads of the runtime; None means number of cores + 2.
    pub worker_threads: Option<usize>,
    /// Which code answers sends and pulls.
    pub data_plane: DataPlane,
    /// Largest frame, bytes, including its length field.
    pub frame_bytes_max: usize,
    /// Limits on the header of a frame.
    pub header: HeaderLimits,
    /// Limits on the time of a frame.
    pub frame: FrameLimits,
    /// Memory of incomplete frames of all connections, bytes.
    pub unfinished_bytes_max: usize,
    /// Budget for requests over 1 MiB of all connections while they are received or served, bytes.
    pub large_bytes_max: usize,
    /// Limit on the unread replies of all clients, bytes; above it, large replies are refused.
    pub reply_bytes_max: usize,
    /// Limit on the requests in Python's hands and the sends that wait for one, bytes; above it,
    /// requests are refused. Long requests may use half of it, and so may requests that wait until
    /// their clients have read earlier replies.
    pub handoff_bytes_max: usize,
    /// Idle time in both directions after which a connection is closed.
    pub idle_timeout: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Families of Python processors, and the number of requests that may wait in each.
    pub families: Vec<(String, usize)>,
    /// Request code to family name.
    pub routes: HashMap<i32, String>,
    /// Family of codes without a route; None leaves them unanswered, as a NameServer does.
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
            reply_bytes_max: limits::REPLY_BYTES_MAX,
            handoff_bytes_max: limits::HANDOFF_BYTES_MAX,
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
    /// Number of threads of the runtime. Two more than cores, because a worker that waits for the
    /// put lock must not leave a core idle.
    pub fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.worker_threads.unwrap_or(cores + 2).max(1)
    }
}
