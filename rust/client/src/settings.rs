//! Limits and timeouts of the engine.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use mq_format::remoting::MAX_FRAME_BYTES;

/// Limits and timeouts of the engine.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// Timeout for connecting; RocketMQ's 3 s.
    pub connect_timeout: Duration,
    /// A connection without traffic and without requests is closed after this time; 120 s.
    pub idle_timeout: Duration,
    /// Largest frame received, length word included.
    pub max_frame_bytes: usize,
    /// Requests in flight over all connections; further ones are refused.
    pub in_flight_max: usize,
    /// Bytes that wait for one slow server; further requests are refused.
    pub outbound_limit_bytes: usize,
    /// TLS for all connections, until `Pool::renew_tls`; None is without TLS.
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
