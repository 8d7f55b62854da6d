//! TLS of a run: the files are read once, and each connection has its own session.

use std::io::{self, Read};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::ClientConfig;
use serde::Deserialize;

use mq_net::tls::{CIPHER_BYTES, Session, connect_blocking};
use mq_net::tls_config::{ClientTls, Identity, Password, TlsError, Verify};

/// Files and rules of the connections; the files are read at the first use.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Files")]
pub struct Tls {
    client: ClientTls,
    shared: OnceLock<Arc<ClientConfig>>,
}

/// The settings as Python passes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    verify: Verify,
    trust: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    key_password: Option<String>,
}

impl TryFrom<Files> for Tls {
    type Error = &'static str;

    fn try_from(files: Files) -> Result<Self, Self::Error> {
        let identity = match (files.cert, files.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(Identity {
                cert,
                key,
                password: files.key_password.map(Password),
            }),
            _ => return Err("a certificate and its key go together"),
        };
        Ok(Self {
            client: ClientTls {
                trust: files.trust,
                identity,
                verify: files.verify,
            },
            shared: OnceLock::new(),
        })
    }
}

impl Tls {
    /// The configuration that all sessions share.
    ///
    /// # Errors
    /// `TlsError`, naming the file that cannot be used.
    pub(super) fn shared(&self) -> Result<Arc<ClientConfig>, TlsError> {
        if let Some(shared) = self.shared.get() {
            return Ok(Arc::clone(shared));
        }
        let loaded = self.client.load()?;
        Ok(Arc::clone(self.shared.get_or_init(|| loaded)))
    }
}

/// One connection's session and its buffers.
pub(super) struct TlsSession {
    session: Session,
    /// Bytes to write.
    sealed: Vec<u8>,
    cipher: Box<[u8]>,
}

impl TlsSession {
    /// Does the handshake on a new connection.
    pub fn connect(
        stream: &TcpStream,
        address: &str,
        config: Arc<ClientConfig>,
        limit: Duration,
    ) -> io::Result<Self> {
        let session = connect_blocking(stream, address, config, limit)
            .map_err(|error| io::Error::new(error.kind(), format!("no TLS: {error}")))?;
        Ok(Self {
            session,
            sealed: Vec::new(),
            cipher: vec![0; CIPHER_BYTES].into_boxed_slice(),
        })
    }

    /// Whether bytes wait to be written.
    pub fn is_writing(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// Encrypts all of `plain`; returns the bytes to write, which the caller clears after writing
    /// them.
    pub fn seal(&mut self, plain: &mut Vec<u8>) -> &mut Vec<u8> {
        if !plain.is_empty() {
            self.sealed.append(&mut self.session.seal(plain));
            plain.clear();
        }
        &mut self.sealed
    }

    /// Waits for bytes, and decrypts them into `input`; how many, None at the end. Some(0) means
    /// that only a part of a record came.
    pub fn receive(
        &mut self,
        stream: &mut TcpStream,
        input: &mut [u8],
    ) -> io::Result<Option<usize>> {
        let count = stream.read(&mut self.cipher)?;
        if count == 0 {
            return Ok(None);
        }
        let mut rest = Vec::new();
        let opened = self.session.open(&self.cipher[..count], input, &mut rest)?;
        assert!(
            rest.is_empty(),
            "the input takes all that one read decrypts"
        );
        self.sealed.append(&mut self.session.take_sealed());
        Ok((!opened.ended).then_some(opened.count))
    }
}
