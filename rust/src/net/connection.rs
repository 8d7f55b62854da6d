//! One TCP connection: one task receives, any thread sends.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::frame::FrameSplitter;

/// Why bytes were not taken for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// The connection is closed or broken.
    #[error("the connection is closed")]
    Closed,
    /// The peer reads too slowly: its buffer is full. Nothing of these bytes was sent.
    #[error("{queued} bytes wait to be sent, the limit is {limit}")]
    Full {
        /// Bytes waiting.
        queued: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

/// The sending side of a connected socket, shared by many threads.
///
/// `send` writes at once if nothing waits before it (no thread hop), else it queues up to a
/// limit in bytes and `drive_writes` sends the queue.
#[derive(Debug)]
pub struct Connection {
    stream: OwnedWriteHalf,
    peer: SocketAddr,
    outbound: Mutex<Outbound>,
    outbound_limit_bytes: usize,
    /// Wakes the writing task: bytes were queued, or the connection was closed.
    write_wake: Notify,
    closed: AtomicBool,
}

/// What could not be written yet. Never empty pieces.
#[derive(Debug, Default)]
struct Outbound {
    queue: VecDeque<Vec<u8>>,
    /// How much of the first piece is already written.
    written: usize,
    queued_bytes: usize,
}

impl Connection {
    /// Takes over a connected stream and splits it into its two sides.
    ///
    /// # Errors
    /// The socket's error if it is already gone.
    pub fn new(
        stream: TcpStream,
        outbound_limit_bytes: usize,
    ) -> io::Result<(Arc<Self>, Receiver)> {
        let peer = stream.peer_addr()?;
        let (read, write) = stream.into_split();
        let connection = Self {
            stream: write,
            peer,
            outbound: Mutex::default(),
            outbound_limit_bytes,
            write_wake: Notify::new(),
            closed: AtomicBool::new(false),
        };
        Ok((Arc::new(connection), Receiver { stream: read }))
    }

    /// The other side's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends `bytes` after everything sent before, from any thread, without blocking.
    ///
    /// # Errors
    /// `Closed`, or `Full` if the peer reads too slowly; the caller decides what that costs.
    pub fn send(&self, bytes: Vec<u8>) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        let mut outbound = self.outbound.lock();
        let mut written = 0;
        if outbound.queue.is_empty() {
            written = self.write_now(&bytes).map_err(|_| self.break_off())?;
            if written == bytes.len() {
                return Ok(());
            }
        } else if outbound.queued_bytes + bytes.len() > self.outbound_limit_bytes {
            let queued = outbound.queued_bytes;
            return Err(SendError::Full {
                queued,
                limit: self.outbound_limit_bytes,
            });
        } else if bytes.is_empty() {
            return Ok(());
        }
        // A piece partly written must be finished, whatever the limit says.
        outbound.queued_bytes += bytes.len() - written;
        if outbound.queue.is_empty() {
            outbound.written = written;
        }
        outbound.queue.push_back(bytes);
        drop(outbound);
        self.write_wake.notify_one();
        Ok(())
    }

    /// Bytes taken by `send` and not yet given to the system.
    pub fn queued_bytes(&self) -> usize {
        self.outbound.lock().queued_bytes
    }

    /// Sends what `send` queued; run it as a task of its own. Ends when the connection closes.
    pub async fn drive_writes(&self) {
        while !self.is_closed() {
            if self.queued_bytes() == 0 {
                self.write_wake.notified().await;
                continue;
            }
            tokio::select! {
                ready = self.stream.writable() => if ready.is_err() || self.flush().is_err() {
                    self.close();
                },
                () = self.write_wake.notified() => {} // closed, or more was queued: look again
            }
        }
    }

    /// Closes both directions, which ends `Receiver::receive` too. Queued bytes are dropped.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        // An error means that the peer was faster.
        let _ = socket2::SockRef::from(self.stream.as_ref()).shutdown(std::net::Shutdown::Both);
        self.write_wake.notify_one();
    }

    /// Whether either side closed or broke the connection, as far as we know.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn break_off(&self) -> SendError {
        self.close();
        SendError::Closed
    }

    /// Writes as much as the socket takes; the system's "would block" counts as that.
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

    /// Writes the queue until it is empty or the socket takes no more.
    fn flush(&self) -> io::Result<()> {
        let mut outbound = self.outbound.lock();
        while let Some(piece) = outbound.queue.front() {
            let (from, length) = (outbound.written, piece.len());
            let count = self.write_now(&piece[from..])?;
            outbound.written += count;
            outbound.queued_bytes -= count;
            if from + count < length {
                return Ok(());
            }
            outbound.queue.pop_front();
            outbound.written = 0;
        }
        Ok(())
    }
}

/// The receiving side of a connection; owned by the one task that reads.
#[derive(Debug)]
pub struct Receiver {
    stream: OwnedReadHalf,
}

impl Receiver {
    /// Receives more bytes into `splitter`; how many. 0 means that either side closed.
    ///
    /// # Errors
    /// The socket's error; the connection should then be closed.
    pub async fn receive(&mut self, splitter: &mut FrameSplitter) -> io::Result<usize> {
        splitter.relax();
        self.stream.readable().await?; // without a buffer, for who knows how long
        // Unlike `try_read`, this forgets the readiness after a short read: the next wait costs
        // no system call that would only say "would block".
        let count = self.stream.read(splitter.spare()).await?;
        splitter.filled(count);
        Ok(count)
    }
}
