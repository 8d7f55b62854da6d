//! Which connections are under TLS: told by their first byte, as RocketMQ's servers do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use rustls::ServerConfig;
use tokio::time::Instant;

use super::limits::HANDSHAKES_MAX;
use super::settings::TlsSettings;
use crate::net::tls::{HANDSHAKE_BYTE, Session};

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

/// What new connections are asked for and shown.
pub struct Tls {
    settings: TlsSettings,
    shown: RwLock<Option<Arc<ServerConfig>>>,
    handshakes: Arc<AtomicUsize>,
}

/// A handshake that goes on; takes one of the places until it is dropped.
pub(super) struct Handshake {
    /// Then the connection is closed.
    pub deadline: Instant,
    places: Arc<AtomicUsize>,
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.places.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tls {
    pub(super) fn new(settings: &TlsSettings) -> Self {
        Self {
            settings: settings.clone(),
            shown: RwLock::new(settings.shown.clone()),
            handshakes: Arc::default(),
        }
    }

    /// Shows other certificates from the next handshake on; open connections go on.
    pub fn show(&self, config: Arc<ServerConfig>) {
        *self.shown.write() = Some(config);
    }

    /// Whether a connection that begins with `first` is plain (None) or a session begins; else
    /// why it is closed.
    pub(super) fn begin(&self, first: u8) -> Result<Option<(Session, Handshake)>, String> {
        match (first == HANDSHAKE_BYTE, self.settings.mode) {
            (false, TlsMode::Enforcing) => {
                Err("its client speaks no TLS, and tls.server.mode is enforcing".to_owned())
            }
            (false, _) => Ok(None),
            (true, TlsMode::Disabled) => {
                Err("its client speaks TLS, and tls.server.mode is disabled".to_owned())
            }
            (true, _) => self.session().map(Some),
        }
    }

    fn session(&self) -> Result<(Session, Handshake), String> {
        let shown = self.shown.read().clone();
        let shown = shown.ok_or("its client speaks TLS, and there is no certificate to show")?;
        let handshake = Handshake {
            deadline: Instant::now() + self.settings.handshake_timeout,
            places: Arc::clone(&self.handshakes),
        };
        if self.handshakes.fetch_add(1, Ordering::Relaxed) >= HANDSHAKES_MAX {
            return Err(format!("{HANDSHAKES_MAX} TLS handshakes go on already"));
        }
        let session = Session::server(shown).map_err(|error| error.to_string())?;
        Ok((session, handshake))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tls_config::{ClientAuth, ServerTls};

    fn tls(mode: TlsMode) -> Tls {
        let server = ServerTls {
            identity: None,
            client_auth: ClientAuth::None,
            trust: None,
        };
        Tls::new(&TlsSettings {
            mode,
            shown: Some(server.load().unwrap()),
            ..TlsSettings::default()
        })
    }

    #[test]
    fn the_first_byte_and_the_mode_decide() {
        let cases = [
            (TlsMode::Disabled, [Some(false), None]),
            (TlsMode::Permissive, [Some(false), Some(true)]),
            (TlsMode::Enforcing, [None, Some(true)]),
        ];
        for (mode, wanted) in cases {
            let tls = tls(mode);
            let decided = [0, HANDSHAKE_BYTE].map(|first| {
                let begun = tls.begin(first).ok();
                begun.map(|session| session.is_some())
            });
            assert_eq!(decided, wanted, "{mode:?}");
        }
        let blank = Tls::new(&TlsSettings {
            mode: TlsMode::Permissive,
            ..TlsSettings::default()
        });
        let why = blank.begin(HANDSHAKE_BYTE).err();
        assert!(why.is_some_and(|why| why.ends_with("there is no certificate to show")));
    }

    #[test]
    fn handshakes_at_once_are_bounded() {
        let tls = tls(TlsMode::Enforcing);
        let begin = || tls.begin(HANDSHAKE_BYTE);
        let mut going: Vec<_> = (0..HANDSHAKES_MAX).map(|_| begin().unwrap()).collect();
        for _ in 0..3 {
            let why = begin().err().unwrap();
            assert_eq!(why, "1024 TLS handshakes go on already");
        }
        going.pop();
        assert!(begin().is_ok());
    }
}
