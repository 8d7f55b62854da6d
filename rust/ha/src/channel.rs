//! A connection between brokers: plain, or under TLS with `haTlsEnable`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::{ClientConfig, ServerConfig};

use mq_net::tls::{self, CIPHER_BYTES, Session};

/// How often a thread that waits looks at its connection and at the time.
pub(crate) const LOOK: Duration = Duration::from_millis(500);
/// Longest TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The end of an error of a handshake.
const BOTH: &str = "; haTlsEnable must be set on both brokers, or on none";

/// A connection, read by one thread and written by one.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    tls: OnceLock<Secured>,
}

#[derive(Debug)]
struct Secured {
    session: Mutex<Session>,
    /// Held over encryption and write, so that encrypted bytes leave in their order.
    writing: Mutex<()>,
    incoming: Mutex<Incoming>,
}

#[derive(Debug, Default)]
struct Incoming {
    cipher: Vec<u8>,
    /// Decrypted bytes that no read has taken yet.
    plain: Vec<u8>,
}

impl Channel {
    /// A plain connection.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            tls: OnceLock::new(),
        }
    }

    /// Runs the master's side of a TLS handshake. Changes the read timeout.
    pub(crate) fn accept(&self, config: Arc<ServerConfig>) -> io::Result<()> {
        self.secure(tls::accept_blocking(&self.stream, config, HANDSHAKE))
    }

    /// Runs the slave's side of a TLS handshake with the master at `address`. Changes the read
    /// timeout.
    pub(crate) fn connect(&self, address: &str, config: Arc<ClientConfig>) -> io::Result<()> {
        self.secure(tls::connect_blocking(
            &self.stream,
            address,
            config,
            HANDSHAKE,
        ))
    }

    fn secure(&self, shaken: io::Result<Session>) -> io::Result<()> {
        let mut session =
            shaken.map_err(|error| io::Error::new(error.kind(), format!("TLS: {error}{BOTH}")))?;
        let mut incoming = Incoming::default();
        // The peer's first bytes may have come with the end of its handshake.
        session.open(&[], &mut [], &mut incoming.plain)?;
        let secured = Secured {
            session: Mutex::new(session),
            writing: Mutex::default(),
            incoming: Mutex::new(incoming),
        };
        self.tls
            .set(secured)
            .map_err(|_| io::Error::other("there was a TLS handshake already"))
    }

    /// Longest wait of a read.
    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }

    /// Reads what has come, at most as much as fits; 0 at the end of the stream. [`is_pause`] tells
    /// the errors that mean: nothing yet.
    pub(crate) fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = self.tls.get() else {
            return (&self.stream).read(out);
        };
        let mut incoming = tls.incoming.lock();
        let Incoming { cipher, plain } = &mut *incoming;
        if !plain.is_empty() {
            let count = plain.len().min(out.len());
            out[..count].copy_from_slice(&plain[..count]);
            plain.drain(..count);
            return Ok(count);
        }
        cipher.resize(CIPHER_BYTES, 0);
        let count = (&self.stream).read(cipher)?;
        if count == 0 {
            return Ok(0);
        }
        let opened = tls.session.lock().open(&cipher[..count], out, plain);
        self.answer(tls);
        match opened? {
            opened if opened.count > 0 || opened.ended => Ok(opened.count),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Writes messages of the session itself, such as an alert.
    fn answer(&self, tls: &Secured) {
        // Otherwise they leave with the bytes that are being written.
        if let Some(_writing) = tls.writing.try_lock() {
            let sealed = tls.session.lock().take_sealed();
            // A failed write shows at the next read or write.
            let _ = (&self.stream).write_all(&sealed);
        }
    }

    /// Writes all bytes.
    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = self.tls.get() else {
            return (&self.stream).write_all(bytes);
        };
        let _writing = tls.writing.lock();
        let sealed = tls.session.lock().seal(bytes);
        (&self.stream).write_all(&sealed)
    }

    /// Ends the connection; a thread that reads or writes it returns.
    pub(crate) fn close(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Whether a read ended because its time is over.
pub(crate) fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
