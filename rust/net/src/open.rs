//! Makes a connection from a connected stream, or connects first.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tokio::net::TcpStream;

use super::connect::{ConnectError, connect};
use super::connection::Connection;
use super::receiver::Receiver;
use super::tls::{self, Session};

impl Connection {
    /// Takes over a connected stream and splits it into its two sides.
    ///
    /// # Errors
    /// The socket's error if it is already gone.
    pub fn new(
        stream: TcpStream,
        outbound_limit_bytes: usize,
    ) -> io::Result<(Arc<Self>, Receiver)> {
        Self::with_shared_count(stream, outbound_limit_bytes, Arc::default())
    }

    /// Like `new`; queued bytes are also counted in `queued_by_all`.
    ///
    /// # Errors
    /// As `new`.
    pub fn with_shared_count(
        stream: TcpStream,
        outbound_limit_bytes: usize,
        queued_by_all: Arc<AtomicUsize>,
    ) -> io::Result<(Arc<Self>, Receiver)> {
        let peer = stream.peer_addr()?;
        let (read, write) = stream.into_split();
        let connection = Self::over(write, peer, outbound_limit_bytes, queued_by_all);
        Ok((Arc::new(connection), Receiver::new(read)))
    }

    /// Like `new`, for a connection that already has a TLS session.
    ///
    /// # Errors
    /// As `new`.
    pub fn with_session(
        stream: TcpStream,
        outbound_limit_bytes: usize,
        session: Session,
    ) -> io::Result<(Arc<Self>, Receiver)> {
        let (connection, mut receiver) = Self::new(stream, outbound_limit_bytes)?;
        receiver.upgrade(&connection, session, &[])?;
        Ok((connection, receiver))
    }

    /// Connects to "host:port" within `limit`; with TLS if `tls` is given.
    ///
    /// # Errors
    /// `ConnectError`, which says what failed.
    pub async fn dial(
        address: &str,
        limit: Duration,
        tls: Option<Arc<ClientConfig>>,
        outbound_limit_bytes: usize,
    ) -> Result<(Arc<Self>, Receiver), ConnectError> {
        let begin = Instant::now();
        let stream = connect(address, limit).await?;
        let made = match tls {
            None => Self::new(stream, outbound_limit_bytes),
            Some(config) => {
                let left = limit.saturating_sub(begin.elapsed());
                let session = tls::connect(&stream, address, config, left).await?;
                Self::with_session(stream, outbound_limit_bytes, session)
            }
        };
        made.map_err(|cause| ConnectError::Failed {
            address: address.to_owned(),
            cause,
        })
    }
}
