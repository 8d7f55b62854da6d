//! TLS between a connection and its socket, without I/O: bytes to send are encrypted before they
//! are queued, received bytes are decrypted before they are cut into frames.

use std::io::{self, Read, Write};
use std::net::TcpStream as Blocking;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connect::ConnectError;

/// First byte of a TLS handshake. The length field of a frame never begins with it, because that
/// would be a frame of more than 256 MiB.
pub const HANDSHAKE_BYTE: u8 = 0x16;

/// Ciphertext read from a socket at once, bytes.
pub const CIPHER_BYTES: usize = 64 << 10;

/// One side of a TLS session.
#[derive(Debug)]
pub struct Session {
    tls: rustls::Connection,
    /// Whether the peer's first message was complete, so that this side has answered.
    has_answered: bool,
}

/// Result of decrypting some received bytes.
pub struct Opened {
    /// Bytes written to the start of the caller's buffer.
    pub count: usize,
    /// The peer announced the end of its data.
    pub ended: bool,
}

impl Session {
    /// Creates the server's side of a new connection.
    ///
    /// # Errors
    /// `rustls`'s, for a configuration that cannot be used.
    pub fn server(config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = rustls::ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self::over(tls.into()))
    }

    /// Creates the client's side; the server's certificate must be issued for `host`.
    ///
    /// # Errors
    /// For a host that is neither a valid name nor an address.
    pub fn client(config: Arc<ClientConfig>, host: &str) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let tls = rustls::ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::over(tls.into()))
    }

    fn over(mut tls: rustls::Connection) -> Self {
        // No limit here: encrypted bytes are taken out at once, and the connection's queue has a
        // limit.
        tls.set_buffer_limit(None);
        Self {
            tls,
            has_answered: false,
        }
    }

    /// Whether the handshake is not finished.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Returns the bytes to write to the socket so that the peer gets `plain`. Empty during the
    /// handshake; `plain` is then sent when the handshake ends.
    pub fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        self.write_plain(plain);
        self.take_sealed()
    }

    fn write_plain(&mut self, plain: &[u8]) {
        // The buffer has no limit and is in memory, so it accepts all bytes.
        let taken = self.tls.writer().write_all(plain);
        debug_assert!(taken.is_ok(), "the session's buffer has no limit");
    }

    /// Returns the session's own messages and the encrypted bytes so far.
    pub fn take_sealed(&mut self) -> Vec<u8> {
        let mut sealed = Vec::new();
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut sealed).is_err() {
                break; // writing to memory does not fail
            }
        }
        self.has_answered |= !sealed.is_empty();
        sealed
    }

    /// Whether this side has sent anything.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Ends the session. The peer can then tell that no bytes were cut off.
    pub(super) fn seal_end(&mut self) -> Vec<u8> {
        self.tls.send_close_notify();
        self.take_sealed()
    }

    /// Decrypts received bytes into `plain`; bytes that do not fit go to `rest`.
    ///
    /// # Errors
    /// A readable text, when the bytes violate the session; `take_sealed` then returns the alert
    /// for the peer.
    pub fn open(
        &mut self,
        mut cipher: &[u8],
        plain: &mut [u8],
        rest: &mut Vec<u8>,
    ) -> io::Result<Opened> {
        let mut count = 0;
        loop {
            let state = self.tls.process_new_packets().map_err(in_words)?;
            let arrived = state.plaintext_bytes_to_read();
            let room = arrived.min(plain.len() - count);
            let mut reader = self.tls.reader();
            reader.read_exact(&mut plain[count..count + room])?;
            count += room;
            let before = rest.len();
            rest.resize(before + arrived - room, 0);
            reader.read_exact(&mut rest[before..])?;
            let ended = state.peer_has_closed();
            if ended || cipher.is_empty() {
                return Ok(Opened { count, ended });
            }
            self.tls.read_tls(&mut cipher)?;
        }
    }

    /// Runs the client's handshake on a new socket.
    async fn shake_hands(&mut self, stream: &TcpStream) -> io::Result<()> {
        while self.tls.is_handshaking() {
            let sealed = self.take_sealed();
            write_all(stream, &sealed).await?;
            stream.readable().await?;
            if let Err(error) = self.take_flight(&mut Socket(stream)) {
                // Tells the peer why; the peer may be gone already, so an error is ignored.
                let _ = write_all(stream, &self.take_sealed()).await;
                return Err(error);
            }
        }
        write_all(stream, &self.take_sealed()).await
    }

    /// Like `shake_hands`, for either side on a thread that may block.
    fn shake_hands_blocking(&mut self, mut stream: &Blocking, until: Instant) -> io::Result<()> {
        while self.tls.is_handshaking() {
            stream.write_all(&self.take_sealed())?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            if let Err(error) = self.take_flight(&mut stream) {
                let _ = stream.write_all(&self.take_sealed());
                return Err(error);
            }
        }
        stream.write_all(&self.take_sealed())
    }

    /// Reads the part of the peer's handshake that has arrived, which may be nothing.
    fn take_flight(&mut self, socket: &mut impl Read) -> io::Result<()> {
        match self.tls.read_tls(socket) {
            Ok(0) => {
                let text = "the peer closed the connection: it may not support TLS";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        self.tls.process_new_packets().map_err(in_words)?;
        Ok(())
    }
}

/// Runs a client's TLS handshake on `stream`, which is connected to the server at `address`.
///
/// # Errors
/// `ConnectError` if the handshake does not succeed within `limit`; the text says why.
pub async fn connect(
    stream: &TcpStream,
    address: &str,
    config: Arc<ClientConfig>,
    limit: Duration,
) -> Result<Session, ConnectError> {
    let failed = |cause| ConnectError::Tls {
        address: address.to_owned(),
        cause,
    };
    let mut session = Session::client(config, host(address)).map_err(failed)?;
    match timeout(limit, session.shake_hands(stream)).await {
        Ok(done) => done.map_err(failed)?,
        Err(_) => {
            return Err(ConnectError::Timeout {
                address: address.to_owned(),
                after: limit,
            });
        }
    }
    Ok(session)
}

/// Like `connect`, for a thread that may block. Changes the socket's read timeout.
///
/// # Errors
/// A readable text, if the handshake does not succeed within `limit`.
pub fn connect_blocking(
    stream: &Blocking,
    address: &str,
    config: Arc<ClientConfig>,
    limit: Duration,
) -> io::Result<Session> {
    let mut session = Session::client(config, host(address))?;
    session.shake_hands_blocking(stream, Instant::now() + limit)?;
    Ok(session)
}

/// Runs a server's TLS handshake on a new connection, on a thread that may block. Changes the
/// socket's read timeout.
///
/// # Errors
/// A readable text, if the handshake does not succeed within `limit`.
pub fn accept_blocking(
    stream: &Blocking,
    config: Arc<ServerConfig>,
    limit: Duration,
) -> io::Result<Session> {
    let mut session = Session::server(config)?;
    session.shake_hands_blocking(stream, Instant::now() + limit)?;
    Ok(session)
}

/// Returns the host of "host:port" or "[v6]:port".
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// A socket as `Read`; a read without data returns `WouldBlock`.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Turns a session's error into a text for the operator of this side.
pub(super) fn in_words(error: rustls::Error) -> io::Error {
    use rustls::Error as Tls;
    let text = match &error {
        // The second error: an issuer with the expected name but another key.
        Tls::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            "the certificate's issuer is not trusted: give the issuer's certificate as the trusted \
             one"
            .to_owned()
        }
        Tls::InvalidCertificate(CertificateError::Expired)
        | Tls::InvalidCertificate(CertificateError::ExpiredContext { .. }) => {
            "the certificate has expired".to_owned()
        }
        Tls::InvalidCertificate(CertificateError::NotValidYet)
        | Tls::InvalidCertificate(CertificateError::NotValidYetContext { .. }) => {
            "the certificate is not valid yet".to_owned()
        }
        Tls::InvalidMessage(_) => format!("the peer does not speak TLS ({error})"),
        Tls::NoCertificatesPresented => "the client has no certificate".to_owned(),
        Tls::AlertReceived(alert) => format!("the peer refused: {}", alert_in_words(*alert)),
        _ => error.to_string(),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn alert_in_words(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => "it requires a client certificate".to_owned(),
        AlertDescription::UnknownCA => "it does not trust our certificate's issuer".to_owned(),
        AlertDescription::CertificateExpired => "our certificate has expired".to_owned(),
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "it does not accept our certificate".to_owned()
        }
        other => format!("alert {other:?}"),
    }
}
