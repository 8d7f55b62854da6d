//! Connected clients: what we owe them, and requests we send them.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

use parking_lot::{Mutex, RwLock};
use socket2::SockRef;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

use super::limits::{CALLS_MAX, UNREAD_BYTES_MAX};
use super::order::SendOrder;

/// One connection. Its task reads; any thread may write through it.
#[derive(Debug)]
pub struct Peer {
    /// Number of the connection, from 1, never used again.
    pub id: u64,
    /// The client's address.
    pub remote: SocketAddr,
    /// Accepted on the fast (VIP) port.
    pub fast_port: bool,
    /// Sends that wait for one that Python decides.
    pub sends: SendOrder,
    socket: OwnedWriteHalf,
    /// Bytes the socket did not take yet.
    unsent: Mutex<Vec<u8>>,
    /// `unsent.len()`, readable without the lock.
    owed: AtomicUsize,
    /// Wakes the connection's task: bytes to write, or it is to end.
    pub(super) wake: Notify,
    closing: AtomicBool,
    last_read_ms: AtomicI64,
    last_write_ms: AtomicI64,
    next_opaque: AtomicI32,
    calls: Mutex<HashMap<i32, mpsc::SyncSender<Vec<u8>>>>,
}

/// The reply to a request we sent; the sender is dropped when the connection closes.
pub type Waiter = mpsc::Receiver<Vec<u8>>;

impl Peer {
    pub(super) fn new(
        id: u64,
        remote: SocketAddr,
        fast_port: bool,
        socket: OwnedWriteHalf,
        now_ms: i64,
    ) -> Self {
        Self {
            id,
            remote,
            fast_port,
            sends: SendOrder::default(),
            socket,
            unsent: Mutex::default(),
            owed: AtomicUsize::new(0),
            wake: Notify::new(),
            closing: AtomicBool::new(false),
            last_read_ms: AtomicI64::new(now_ms),
            last_write_ms: AtomicI64::new(now_ms),
            next_opaque: AtomicI32::new(1),
            calls: Mutex::default(),
        }
    }

    /// Writes whole frames, at once if the socket takes them, else as soon as it does.
    /// False if the connection is closed.
    pub fn send(&self, frames: &[u8]) -> bool {
        if self.is_closing() {
            return false;
        }
        let mut unsent = self.unsent.lock();
        let written = if unsent.is_empty() {
            self.try_write(frames)
        } else {
            Some(0)
        };
        let Some(written) = written else {
            drop(unsent);
            self.close();
            return false;
        };
        if written < frames.len() {
            unsent.extend_from_slice(&frames[written..]);
            self.owe(unsent.len());
        }
        true
    }

    /// Leaves a frame for the connection's task: frames released together are written together.
    pub fn send_soon(&self, frame: &[u8]) {
        if !self.is_closing() {
            let mut unsent = self.unsent.lock();
            unsent.extend_from_slice(frame);
            self.owe(unsent.len());
        }
    }

    /// Writes what is left, as far as the socket takes it. Called by the connection's task.
    pub(super) fn flush(&self) {
        let mut unsent = self.unsent.lock();
        match self.try_write(&unsent) {
            Some(written) if written == unsent.len() => *unsent = Vec::new(),
            Some(written) => drop(unsent.drain(..written)),
            None => {
                drop(unsent);
                return self.close();
            }
        }
        self.owed.store(unsent.len(), Ordering::Release);
    }

    fn owe(&self, bytes: usize) {
        self.owed.store(bytes, Ordering::Release);
        self.wake.notify_one();
    }

    /// Bytes taken by the socket; None if it failed.
    fn try_write(&self, bytes: &[u8]) -> Option<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.socket.try_write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        Some(written)
    }

    pub(super) async fn writable(&self) {
        // An error shows again, and is handled, at the next write.
        let _ = self.socket.writable().await;
    }

    /// Bytes the client has not taken yet.
    pub fn owed(&self) -> usize {
        self.owed.load(Ordering::Acquire)
    }

    pub(super) fn owes_too_much(&self) -> bool {
        self.owed() > UNREAD_BYTES_MAX
    }

    /// Ends the connection: its task sees it and takes the connection down.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Whether the connection is closed or about to be.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn note_read(&self, now_ms: i64) {
        self.last_read_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(super) fn note_write(&self, now_ms: i64) {
        self.last_write_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Monotonic milliseconds of the last byte read.
    pub fn last_read_ms(&self) -> i64 {
        self.last_read_ms.load(Ordering::Relaxed)
    }

    /// Monotonic milliseconds of the last byte in either direction.
    pub(super) fn last_active_ms(&self) -> i64 {
        self.last_read_ms()
            .max(self.last_write_ms.load(Ordering::Relaxed))
    }

    /// Registers a request about to be sent: its opaque, and where the reply will arrive.
    /// None when too many wait already or the connection is closed.
    pub fn expect_reply(&self) -> Option<(i32, Waiter)> {
        let (sender, waiter) = mpsc::sync_channel(1);
        let opaque = self.next_opaque.fetch_add(1, Ordering::Relaxed);
        let mut calls = self.calls.lock();
        if self.is_closing() || calls.len() >= CALLS_MAX {
            return None;
        }
        calls.insert(opaque, sender);
        Some((opaque, waiter))
    }

    /// Nobody waits for that reply any more.
    pub fn forget_reply(&self, opaque: i32) {
        self.calls.lock().remove(&opaque);
    }

    /// Gives a reply frame to whoever waits for it; one that nobody waits for is dropped.
    pub(super) fn replied(&self, opaque: i32, frame: &[u8]) {
        if let Some(waiter) = self.calls.lock().remove(&opaque) {
            // Fails only if the caller gave up meanwhile.
            let _ = waiter.try_send(frame.to_vec());
        }
    }

    /// The connection's task is done: nothing can be sent, nobody will reply.
    pub(super) fn closed(&self) {
        self.closing.store(true, Ordering::Release);
        self.calls.lock().clear();
        *self.unsent.lock() = Vec::new();
        // A request still in Python's hands keeps this peer: the client must not wait for it.
        // An error means that the client was faster.
        let _ = SockRef::from(self.socket.as_ref()).shutdown(Shutdown::Both);
    }
}

/// All open connections by id.
#[derive(Debug, Default)]
pub struct Peers {
    open: RwLock<HashMap<u64, Arc<Peer>>>,
    last_id: AtomicU64,
}

impl Peers {
    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn insert(&self, peer: &Arc<Peer>) {
        self.open.write().insert(peer.id, Arc::clone(peer));
    }

    pub(super) fn remove(&self, id: u64) {
        self.open.write().remove(&id);
    }

    /// The connection of that id, if it is open.
    pub fn get(&self, id: u64) -> Option<Arc<Peer>> {
        self.open.read().get(&id).cloned()
    }

    /// Open connections.
    pub fn count(&self) -> usize {
        self.open.read().len()
    }

    /// Every open connection.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.open.read().values().cloned().collect()
    }
}
