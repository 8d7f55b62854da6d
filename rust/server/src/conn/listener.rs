//! Accepts connections on the main port and, if configured, on the fast (VIP) port.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::clients::events::EventKind;
use crate::clients::peers::Peer;
use crate::conn::admission::Admission;
use crate::conn::connection;
use crate::core::Core;
use crate::limits::{BACKLOG, TRIAL_UNSENT_BYTES_MAX, UNREAD_BYTES_MAX};
use mq_net::connection::Connection;

/// First wait after a failed accept, usually for lack of descriptors; doubles up to `BACK_OFF_MAX`.
const BACK_OFF_MIN: Duration = Duration::from_millis(5);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// Binds a listening socket; returns it and its port.
pub(crate) fn bind(host: &str, port: u16) -> io::Result<(TcpListener, u16)> {
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match listen(address) {
            Ok(listener) => {
                let port = listener.local_addr()?.port();
                return Ok((listener, port));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG.try_into().unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// Accepts connections, after the gate opened, until the task is aborted.
pub(crate) async fn accept(
    core: Arc<Core>,
    admission: Arc<Admission>,
    listener: Arc<tokio::net::TcpListener>,
    fast_port: bool,
) {
    admission.gate.passed().await;
    let mut back_off = BACK_OFF_MIN;
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                back_off = BACK_OFF_MIN;
                admit(&core, &admission, stream, (remote, fast_port));
            }
            Err(error) => {
                tracing::warn!(%error, wait = ?back_off, "could not accept a connection, retrying");
                sleep(back_off).await;
                back_off = (back_off * 2).min(BACK_OFF_MAX);
            }
        }
    }
}

fn admit(
    core: &Arc<Core>,
    admission: &Arc<Admission>,
    stream: TcpStream,
    (remote, fast_port): (SocketAddr, bool),
) {
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    let limit = core.settings.connections_max;
    if core.clients.peers.count() >= limit {
        core.stats.counters.connections_refused.one();
        core.clients.tell(
            EventKind::Refused,
            None,
            remote,
            format!("{limit} connections are open"),
        );
        return;
    }
    if prepare(&stream).is_err() {
        return; // the client is gone already
    }
    core.stats.counters.connections_accepted.one();
    let outbound_bytes = Arc::clone(&core.clients.peers.outbound_bytes);
    let connection = Connection::with_shared_count(stream, UNREAD_BYTES_MAX, outbound_bytes);
    let Ok((connection, receiver)) = connection else {
        return;
    };
    connection.keep_unsent(TRIAL_UNSENT_BYTES_MAX);
    let now_ms = core.clock.monotonic_ms();
    let id = core.clients.peers.next_id();
    let peer = Arc::new(Peer::new(id, remote, fast_port, connection, now_ms));
    core.clients.peers.insert(&peer);
    tokio::spawn(connection::serve(
        Arc::clone(core),
        Arc::clone(admission),
        peer,
        receiver,
    ));
}

/// Sets the socket options of a client connection.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Replies are small and written once per read, so waiting for more bytes gains nothing.
    stream.set_nodelay(true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_clients_socket_has_nagle_turned_off() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stream, _) = accepted.unwrap();
        assert!(
            !stream.nodelay().unwrap(),
            "nodelay is the default of the system"
        );
        prepare(&stream).unwrap();
        assert!(stream.nodelay().unwrap());
    }
}
