//! One TCP connection: one task receives, any thread sends.
//!
//! Under TLS (`tls`), bytes are encrypted before they are queued. So one queue, one limit and one
//! way of writing serve both kinds; a plain connection pays one branch.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

use super::tls::{Opened, Session};

/// Pieces are joined up to this size, bytes, so that one system call writes many replies.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// Why bytes were not accepted for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// The connection is closed or broken.
    #[error("the connection is closed")]
    Closed,
    /// The peer reads too slowly and its buffer is full. None of these bytes was sent.
    #[error("{queued} bytes wait to be sent, the limit is {limit}")]
    Full {
        /// Bytes that are queued.
        queued: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

/// The sending side of a connected socket, shared by many threads.
/// The sending side of a connected socket, shared by many threads.
///
/// `send` writes at once if nothing is queued, without a thread switch. Otherwise it queues up to a
/// limit in bytes, and `drive_writes` sends the queue.
#[derive(Debug)]
pub struct Connection {
    stream: OwnedWriteHalf,
    peer: SocketAddr,
    outbound: Mutex<Outbound>,
    outbound_limit_bytes: usize,
    /// Number of queued bytes of all connections that share this counter.
    queued_by_all: Arc<AtomicUsize>,
    /// Wakes the writing task because bytes were queued, `look_again` was called, or the connection
    /// closed.
    write_wake: Notify,
    closed: AtomicBool,
}

/// Bytes that could not be written yet. No piece is empty.
#[derive(Debug, Default)]
struct Outbound {
    queue: VecDeque<Vec<u8>>,
    /// Number of bytes of the first piece that are already written.
    written: usize,
    queued_bytes: usize,
    /// Encrypts the bytes to send, if the connection is under TLS.
    tls: Option<Box<Session>>,
}

impl Outbound {
    /// Adds a piece of which `written` bytes are written already; only the first piece may have
    /// any.
    fn push(&mut self, piece: Vec<u8>, written: usize) {
        self.queued_bytes += piece.len() - written;
        if self.queue.is_empty() {
            self.written = written;
        }
        self.queue.push_back(piece);
    }
}

impl Connection {
    /// Creates the sending side of a connected stream.
    pub(super) fn over(
        stream: OwnedWriteHalf,
        peer: SocketAddr,
        outbound_limit_bytes: usize,
        queued_by_all: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            stream,
            peer,
            outbound: Mutex::default(),
            outbound_limit_bytes,
            queued_by_all,
            write_wake: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Encrypts sent bytes from now on; received bytes must go through `open`.
    pub(super) fn begin_session(&self, session: Session) {
        self.outbound.lock().tls = Some(Box::new(session));
    }

    /// Whether a TLS handshake is in progress.
    pub(super) fn is_handshaking(&self) -> bool {
        let session = &self.outbound.lock().tls;
        session.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether the peer's first handshake message has arrived as a whole and was answered.
    pub(super) fn has_answered(&self) -> bool {
        let session = &self.outbound.lock().tls;
        session.as_ref().is_some_and(|tls| tls.has_answered())
    }

    /// Decrypts received bytes into `plain`, and the bytes that do not fit into `rest`. Sends the
    /// session's own answers.
    ///
    /// # Errors
    /// A readable text, when the bytes violate the TLS session.
    pub(super) fn open(
        &self,
        sealed: &[u8],
        plain: &mut [u8],
        rest: &mut Vec<u8>,
    ) -> io::Result<Opened> {
        let mut outbound = self.outbound.lock();
        let Some(session) = &mut outbound.tls else {
            return Err(io::Error::other("the connection is not under TLS"));
        };
        let opened = session.open(sealed, plain, rest);
        let answer = session.take_sealed();
        let answered = self.put(&mut outbound, answer);
        drop(outbound);
        let opened = opened?;
        answered.map_err(io::Error::other)?;
        Ok(opened)
    }

    /// The other side's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends `bytes` after everything that was sent before. Any thread may call it; it does not
    /// block.
    ///
    /// # Errors
    /// `Closed`, or `Full` if the peer reads too slowly. The caller decides what to do then.
    pub fn send(&self, bytes: Vec<u8>) -> Result<(), SendError> {
        let mut outbound = self.outbound.lock();
        self.check_room(&outbound, bytes.len())?;
        let bytes = match &mut outbound.tls {
            None => bytes,
            Some(session) => session.seal(&bytes),
        };
        self.put(&mut outbound, bytes)
    }

    /// Writes bytes that need no further encryption, or queues them.
    fn put(&self, outbound: &mut Outbound, bytes: Vec<u8>) -> Result<(), SendError> {
        let written = self.write_first(outbound, &bytes)?;
        self.leave(outbound, bytes, written);
        Ok(())
    }

    /// Queues the part of a piece that was not written.
    fn leave(&self, outbound: &mut Outbound, piece: Vec<u8>, written: usize) {
        if written < piece.len() {
            (self.queued_by_all).fetch_add(piece.len() - written, Ordering::Relaxed);
            outbound.push(piece, written);
            self.write_wake.notify_one();
        }
    }

    /// Like `send`, for bytes that the caller keeps: only bytes that the socket does not accept are
    /// copied.
    ///
    /// # Errors
    /// As `send`.
    pub fn send_slice(&self, bytes: &[u8]) -> Result<(), SendError> {
        let mut outbound = self.outbound.lock();
        self.check_room(&outbound, bytes.len())?;
        if let Some(session) = &mut outbound.tls {
            let sealed = session.seal(bytes);
            return self.put(&mut outbound, sealed);
        }
        let written = self.write_first(&outbound, bytes)?;
        self.leave(&mut outbound, bytes[written..].to_vec(), 0);
        Ok(())
    }

    /// Queues `bytes` for the writing task, which writes the bytes of many threads with one call.
    ///
    /// # Errors
    /// As `send`.
    pub fn send_soon(&self, bytes: &[u8]) -> Result<(), SendError> {
        let mut outbound = self.outbound.lock();
        self.check_room(&outbound, bytes.len())?;
        let sealed = outbound.tls.as_mut().map(|session| session.seal(bytes));
        let bytes = sealed.as_deref().unwrap_or(bytes);
        self.queued_by_all.fetch_add(bytes.len(), Ordering::Relaxed);
        match outbound.queue.back_mut() {
            Some(last) if last.len() + bytes.len() <= JOINED_BYTES_MAX => {
                last.extend_from_slice(bytes);
                outbound.queued_bytes += bytes.len();
            }
            _ if bytes.is_empty() => {}
            _ => outbound.push(bytes.to_vec(), 0),
        }
        drop(outbound);
        self.write_wake.notify_one();
        Ok(())
    }

    /// Limits how many unsent bytes the system keeps for this socket, if the system supports that.
    /// Without a limit, a peer that does not read takes up to 4 MB of the memory that all sockets
    /// share.
    pub fn keep_unsent(&self, bytes: u32) {
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(self.stream()).set_tcp_notsent_lowat(bytes);
    }

    pub(super) fn stream(&self) -> &TcpStream {
        self.stream.as_ref()
    }

    /// Writes the bytes that the socket accepts at once, if nothing is queued. Returns their
    /// number.
    fn write_first(&self, outbound: &Outbound, bytes: &[u8]) -> Result<usize, SendError> {
        if !outbound.queue.is_empty() || bytes.is_empty() {
            return Ok(0);
        }
        self.write_now(bytes).map_err(|_| {
            self.close();
            SendError::Closed
        })
    }

    /// A first piece is accepted at any size, because part of it may be written already.
    fn check_room(&self, outbound: &Outbound, bytes: usize) -> Result<(), SendError> {
        let (queued, limit) = (outbound.queued_bytes, self.outbound_limit_bytes);
        if self.is_closed() {
            Err(SendError::Closed)
        } else if queued > 0 && queued + bytes > limit {
            Err(SendError::Full { queued, limit })
        } else {
            Ok(())
        }
    }

    /// Number of bytes that `send` accepted and the system does not have yet.
    pub fn queued_bytes(&self) -> usize {
        self.outbound.lock().queued_bytes
    }

    /// Sends the queue that `send` fills; run it as its own task. Ends when the connection closes.
    pub async fn drive_writes(&self) {
        while !self.is_closed() {
            self.write_some().await;
        }
    }

    /// Waits until bytes are queued and the socket accepts some of them, or until `look_again` is
    /// called. For a task that does more than writing. The future may be dropped at any time. Only
    /// one task may call it.
    pub async fn write_some(&self) {
        if self.queued_bytes() == 0 {
            self.write_wake.notified().await;
        }
        if self.queued_bytes() == 0 || self.is_closed() {
            return;
        }
        // Waits in the slot that the socket has for a writer; `writable` would add 200 bytes to
        // each task.
        let writable = poll_fn(|context| self.stream.as_ref().poll_write_ready(context));
        tokio::select! {
            ready = writable => if ready.is_err() || self.flush().is_err() {
                self.close();
            },
            () = self.write_wake.notified() => {} // closed, or `look_again`
        }
    }

    /// Ends a waiting `write_some`, or the next one.
    pub fn look_again(&self) {
        self.write_wake.notify_one();
    }

    /// Closes both directions, which also ends `Receiver::receive`. Queued bytes are dropped.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        // The lock is held if a sender found the connection broken; a TLS end is useless then.
        if let Some(mut outbound) = self.outbound.try_lock()
            && let Some(session) = &mut outbound.tls
        {
            let end = session.seal_end();
            if outbound.queue.is_empty() {
                let _ = self.write_now(&end); // without room, the socket closes without a TLS end
            }
        }
        // An error means that the peer closed first.
        let _ = socket2::SockRef::from(self.stream.as_ref()).shutdown(std::net::Shutdown::Both);
        self.write_wake.notify_one();
    }

    /// Whether either side is known to have closed or broken the connection.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Writes as much as the socket accepts; "would block" is not an error.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.try_write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Writes the queue until it is empty or the socket accepts no more.
    fn flush(&self) -> io::Result<()> {
        let mut outbound = self.outbound.lock();
        while let Some(piece) = outbound.queue.front() {
            let (from, length) = (outbound.written, piece.len());
            let count = self.write_now(&piece[from..])?;
            outbound.written += count;
            outbound.queued_bytes -= count;
            self.queued_by_all.fetch_sub(count, Ordering::Relaxed);
            if from + count < length {
                return Ok(());
            }
            outbound.queue.pop_front();
            outbound.written = 0;
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let queued = self.outbound.get_mut().queued_bytes;
        self.queued_by_all.fetch_sub(queued, Ordering::Relaxed);
    }
}
