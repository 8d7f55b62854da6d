//! Errors of a run.

use std::io;

use thiserror::Error;

use mq_net::tls_config::TlsError;

/// Why a run ended without a result.
#[derive(Debug, Error)]
pub enum BenchError {
    /// A setting is out of its range.
    #[error("{name} {value} is not between {min} and {max}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The smallest.
        min: String,
        /// The largest.
        max: String,
    },
    /// A name that RocketMQ does not allow.
    #[error("{what} {name:?} is not 1 to 127 of the characters A-Z a-z 0-9 % | - _")]
    Name {
        /// "topic" or "group".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Two settings that exclude each other.
    #[error("{0} and {1} exclude each other")]
    Both(&'static str, &'static str),
    /// The list of NameServers is empty.
    #[error("no NameServer is given")]
    NoNamesrv,
    /// The limit on open files is too low for the connections.
    #[error(
        "{connections} connections need {needed} open files, this process may have {allowed}; \
         raise the limit: ulimit -n {needed}"
    )]
    OpenFiles {
        /// Connections asked for.
        connections: usize,
        /// Open files that the connections need.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The operating system refuses a thread.
    #[error("{threads} threads cannot be started: {cause}")]
    Threads {
        /// Number of threads of the run.
        threads: usize,
        /// The operating system's error.
        cause: io::Error,
    },
    /// Connecting failed, or the connection broke.
    #[error("{address}: {cause}")]
    Io {
        /// "host:port".
        address: String,
        /// The system's words.
        cause: io::Error,
    },
    /// No connection to any NameServer; the error of the last one.
    #[error("no connection to NameServer {address}: {cause}")]
    Namesrv {
        /// "host:port".
        address: String,
        /// The system's words.
        cause: io::Error,
    },
    /// The server at the NameServer's address does not answer requests for routes.
    #[error(
        "{address} is a broker, not a NameServer; give the NameServer's address, usually port 9876"
    )]
    WrongDoor {
        /// "host:port".
        address: String,
    },
    /// No connection to a broker that a route names.
    #[error("no connection to the broker {address}, which the NameServer names: {cause}")]
    Broker {
        /// "host:port".
        address: String,
        /// The system's words.
        cause: io::Error,
    },
    /// The topic does not exist, and no broker creates it.
    #[error(
        "topic {topic} does not exist at NameServer {namesrv}; brokers there: \
         mqadmin clusterList -n {namesrv}; create it: \
         mqadmin updateTopic -n {namesrv} -c DefaultCluster -t {topic}"
    )]
    NoTopic {
        /// The topic.
        topic: String,
        /// The NameServer asked.
        namesrv: String,
    },
    /// A frame of a server cannot be read.
    #[error("{address} sent what cannot be read: {cause}")]
    Wire {
        /// "host:port".
        address: String,
        /// The error.
        cause: String,
    },
    /// A server refused a request.
    #[error("{address} answered code {code}: {remark}")]
    Refused {
        /// "host:port".
        address: String,
        /// Its response code.
        code: i32,
        /// Its remark.
        remark: String,
    },
    /// The topic has no queue to use.
    #[error("topic {topic} has no {purpose} queue at {namesrv}")]
    NoQueue {
        /// The topic.
        topic: String,
        /// "writable" or "readable".
        purpose: &'static str,
        /// The NameServer asked.
        namesrv: String,
    },
    /// A worker thread panicked.
    #[error("a worker ended unexpectedly")]
    Worker,
}

/// Response code NO_PERMISSION: the account may not use the broker, topic or group.
const NO_PERMISSION: i32 = 16;
/// Start of a remark about access control.
const ACCESS_WORD: &str = "AclException";

impl BenchError {
    /// Whether a server refused because of the account's permissions or its signature.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Refused { code, remark, .. }
            if *code == NO_PERMISSION || remark.contains(ACCESS_WORD))
    }
}
