//! Opening a TCP connection, with a limit on the time and an error that says what failed.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection without traffic is probed after this time, and then as often as `PROBE_PAUSE`.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const PROBE_PAUSE: Duration = Duration::from_secs(10);
/// The system closes a connection whose peer's system acknowledged nothing for this time.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The name resolves to nothing, the port is closed, the network says no.
    #[error("cannot connect to {address}: {cause}")]
    Failed {
        /// "host:port" as given.
        address: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// Nobody answered in time.
    #[error("cannot connect to {address}: no answer within {after:?}")]
    Timeout {
        /// "host:port" as given.
        address: String,
        /// How long it was tried.
        after: Duration,
    },
    /// The connection stands, but the two sides cannot agree on TLS.
    #[error("no TLS with {address}: {cause}")]
    Tls {
        /// "host:port" as given.
        address: String,
        /// Why.
        cause: io::Error,
    },
}

/// Connects to "host:port" (or "[v6]:port"), turns Nagle's algorithm off, and lets the system find
/// out that the peer's machine is gone.
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
    // A request is written whole: waiting for an earlier segment's ACK would only add delay.
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
    async fn a_closed_port_and_a_bad_name_are_said() {
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
