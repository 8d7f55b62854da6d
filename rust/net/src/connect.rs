//! Opens TCP connections, with a time limit and with errors that say what failed.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection without traffic is probed after this time, and then once per `PROBE_PAUSE`.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const PROBE_PAUSE: Duration = Duration::from_secs(10);
/// The system closes a connection when the peer's system has acknowledged nothing for this time.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// Why a connection could not be opened.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The name cannot be resolved, the port is closed, or the network refuses.
    #[error("cannot connect to {address}: {cause}")]
    Failed {
        /// "host:port" as given.
        address: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// The peer did not answer in time.
    #[error("cannot connect to {address}: no answer within {after:?}")]
    Timeout {
        /// "host:port" as given.
        address: String,
        /// Time limit of the attempt.
        after: Duration,
    },
    /// The TCP connection exists, but the two sides cannot agree on TLS.
    #[error("no TLS with {address}: {cause}")]
    Tls {
        /// "host:port" as given.
        address: String,
        /// Why the handshake failed.
        cause: io::Error,
    },
}

/// Connects to "host:port" (or "[v6]:port"). Turns off Nagle's algorithm, and sets keepalive so
/// that the system notices when the peer's machine is gone.
///
/// # Errors
/// `ConnectError` when no address of the host answers within `limit`.
pub async fn connect(address: &str, limit: Duration) -> Result<TcpStream, ConnectError> {
    let failed = |cause| ConnectError::Failed {
        address: address.to_owned(),
        cause,
    };
    let stream = match timeout(limit, TcpStream::connect(address)).await {
        Ok(connected) => connected.map_err(failed)?,
        Err(_) => {
            return Err(ConnectError::Timeout {
                address: address.to_owned(),
                after: limit,
            });
        }
    };
    // Requests are written as a whole, so waiting for the ACK of an earlier segment only adds
    // delay.
    stream.set_nodelay(true).map_err(failed)?;
    notice_death(&stream).map_err(failed)?;
    Ok(stream)
}

fn notice_death(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(PROBE_PAUSE);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_notices_that_the_peer_is_gone() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stream = connect(&address, Duration::from_secs(5)).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE_AFTER);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED_MAX));
    }

    #[tokio::test]
    async fn a_closed_port_and_a_bad_name_are_reported() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = closed.local_addr().unwrap().to_string();
        drop(closed);
        let error = connect(&address, Duration::from_secs(5)).await.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("cannot connect to {address}: "))
        );
        let error = connect("no port here", Duration::from_secs(5))
            .await
            .unwrap_err();
        assert!(matches!(error, ConnectError::Failed { .. }));
    }
}
