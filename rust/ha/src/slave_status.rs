//! Settings and figures of a slave.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::protocol::SlaveTiming;

/// Settings of a slave.
#[derive(Debug, Clone)]
pub struct SlaveSettings {
    /// Times.
    pub timing: SlaveTiming,
    /// Longest connect.
    pub connect_timeout: Duration,
    /// Pause after a failed connection.
    pub retry_interval: Duration,
    /// `haAckFlushed`: flush bytes before their acknowledgement, with ASYNC_FLUSH too.
    pub ack_flushed: bool,
    /// `haTlsEnable`: the connection to the master is under TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Default for SlaveSettings {
    fn default() -> Self {
        Self {
            timing: SlaveTiming::default(),
            connect_timeout: Duration::from_secs(3),
            // RocketMQ's.
            retry_interval: Duration::from_secs(5),
            ack_flushed: false,
            tls: None,
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
    /// Milliseconds since it last had all that it knew its master to have; 0 while it has. Before
    /// that was so for the first time: the age of its newest message. None for an empty log.
    pub lag_ms: Option<i64>,
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
