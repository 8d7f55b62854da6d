//! Decides by the first byte whether a connection uses TLS, as RocketMQ's servers do.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use tokio::time::Instant;

use crate::clients::peers::Peer;
use crate::conn::handshakes::{Handshake, Handshakes};
use crate::limits::HANDSHAKE_PARTS;
use crate::settings::{TlsMode, TlsSettings};
use mq_net::tls::{HANDSHAKE_BYTE, Session};

/// TLS settings for new connections.
pub struct Tls {
    settings: TlsSettings,
    shown: RwLock<Option<Arc<ServerConfig>>>,
    handshakes: Arc<Handshakes>,
}

impl Tls {
    /// `connections_max`: handshakes may use only a part of all connections.
    pub(crate) fn new(settings: &TlsSettings, connections_max: usize) -> Self {
        let max = settings
            .handshakes_max
            .min(connections_max / HANDSHAKE_PARTS);
        Self {
            settings: settings.clone(),
            shown: RwLock::new(settings.shown.clone()),
            handshakes: Handshakes::new(max, settings.source_handshakes_max),
        }
    }

    /// Uses another configuration for new handshakes; open connections keep theirs.
    pub fn show(&self, config: Arc<ServerConfig>) {
        *self.shown.write() = Some(config);
    }

    /// Returns None for a plain connection, or a new session if the connection begins with a TLS
    /// handshake. An error says why the connection must be closed.
    pub(crate) fn begin(
        &self,
        first: u8,
        peer: &Arc<Peer>,
    ) -> Result<Option<(Session, Handshake)>, String> {
        match (first == HANDSHAKE_BYTE, self.settings.mode) {
            (false, TlsMode::Enforcing) => {
                Err("its client does not use TLS, but tls.server.mode is enforcing".to_owned())
            }
            (false, _) => Ok(None),
            (true, TlsMode::Disabled) => {
                Err("its client uses TLS, but tls.server.mode is disabled".to_owned())
            }
            (true, _) => self.session(peer).map(Some),
        }
    }

    fn session(&self, peer: &Arc<Peer>) -> Result<(Session, Handshake), String> {
        let shown = self.shown.read().clone();
        let shown = shown.ok_or("its client uses TLS, but the server has no certificate")?;
        let session = Session::server(shown).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + self.settings.handshake_timeout;
        Ok((session, self.handshakes.begin(peer, deadline)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;
    use mq_net::connection::Connection;
    use mq_net::tls_config::{ClientAuth, ServerTls};

    fn tls(mode: TlsMode) -> Tls {
        let server = ServerTls {
            identity: None,
            client_auth: ClientAuth::None,
            trust: None,
        };
        let settings = TlsSettings {
            mode,
            shown: Some(server.load().unwrap()),
            handshakes_max: 8,
            source_handshakes_max: 4,
            ..TlsSettings::default()
        };
        Tls::new(&settings, 1_000)
    }

    /// A connection from this address that sent its last byte at `read_ms`.
    async fn peer(id: u64, address: &str, read_ms: i64) -> Arc<Peer> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
        let (connection, _) = Connection::new(stream.await.unwrap(), 1).unwrap();
        let remote = SocketAddr::new(address.parse::<IpAddr>().unwrap(), 1);
        Arc::new(Peer::new(id, remote, false, connection, read_ms))
    }

    #[tokio::test]
    async fn the_first_byte_and_the_mode_decide() {
        let peer = peer(1, "10.0.0.1", 0).await;
        let cases = [
            (TlsMode::Disabled, [Some(false), None]),
            (TlsMode::Permissive, [Some(false), Some(true)]),
            (TlsMode::Enforcing, [None, Some(true)]),
        ];
        for (mode, wanted) in cases {
            let tls = tls(mode);
            let decided = [0, HANDSHAKE_BYTE].map(|first| {
                let begun = tls.begin(first, &peer).ok();
                begun.map(|session| session.is_some())
            });
            assert_eq!(decided, wanted, "{mode:?}");
        }
        let settings = TlsSettings {
            mode: TlsMode::Permissive,
            ..TlsSettings::default()
        };
        let why = Tls::new(&settings, 1).begin(HANDSHAKE_BYTE, &peer).err();
        assert!(why.is_some_and(|why| why.ends_with("the server has no certificate")));
    }

    /// Starts handshakes of peers 1 to `addresses.len()`; returns the peers and their handshakes.
    async fn begun(tls: &Tls, addresses: &[&str]) -> Vec<(Arc<Peer>, Handshake)> {
        let mut all = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let peer = peer(index as u64 + 1, address, index as i64).await;
            let begun = tls.begin(HANDSHAKE_BYTE, &peer).unwrap();
            all.push((peer, begun.unwrap().1));
        }
        all
    }

    fn closed(all: &[(Arc<Peer>, Handshake)]) -> Vec<u64> {
        let gone = all.iter().filter(|(peer, _)| peer.is_closing());
        gone.map(|(peer, _)| peer.id).collect()
    }

    #[tokio::test]
    async fn an_address_at_its_limit_loses_its_own_oldest_handshake() {
        let tls = tls(TlsMode::Enforcing);
        let mut all = begun(
            &tls,
            &["10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"],
        )
        .await;
        assert!(closed(&all).is_empty());
        all[1].0.note_read(100); // so another one has been silent for longest
        let peer = peer(6, "10.0.0.1", 5).await;
        let begun = tls.begin(HANDSHAKE_BYTE, &peer).unwrap();
        all.push((peer, begun.unwrap().1));
        assert_eq!(closed(&all), [3]);
        let made_room: Vec<_> = all.iter().map(|(_, one)| one.made_room).collect();
        assert_eq!(made_room, [false, false, false, false, false, true]);
    }

    #[tokio::test]
    async fn handshakes_without_a_first_message_are_dropped_first() {
        let tls = tls(TlsMode::Enforcing);
        let mut all = begun(&tls, &["10.0.0.1"; 4]).await;
        for (_, handshake) in &mut all[..2] {
            handshake.greeted();
        }
        for id in 5..8 {
            let peer = peer(id, "10.0.0.1", 10).await;
            let begun = tls.begin(HANDSHAKE_BYTE, &peer).unwrap();
            all.push((peer, begun.unwrap().1));
        }
        assert_eq!(closed(&all), [3, 4, 5]);
    }

    #[tokio::test]
    async fn at_the_limit_the_oldest_handshake_of_all_is_dropped() {
        let tls = tls(TlsMode::Enforcing);
        let networks: Vec<_> = (0..9).map(|net| format!("2001:db8:0:{net}::1")).collect();
        let networks: Vec<_> = networks.iter().map(String::as_str).collect();
        assert_eq!(closed(&begun(&tls, &networks).await), [1]);
        let hosts: Vec<_> = (0..5).map(|host| format!("2001:db8::{host}")).collect();
        let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
        assert_eq!(closed(&begun(&tls, &hosts).await), [1]);
    }

    #[tokio::test]
    async fn a_handshake_that_ends_frees_its_slot() {
        let tls = tls(TlsMode::Enforcing);
        for _ in 0..3 {
            assert!(closed(&begun(&tls, &["10.0.0.1"; 4]).await).is_empty());
        }
    }
}
