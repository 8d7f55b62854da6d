//! Connected clients: what we owe them, and requests we send them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::conn::events::EventKind;
use crate::conn::partial_frames::{AllUnfinished, Unfinished};
use crate::handoff::order::SendOrder;
use crate::limits::{CALLS_MAX, OWED_SHARE_BYTES, UNFINISHED_PARTS, UNREAD_LOOK_MS, UNREAD_MS_MAX};
use crate::requests::known_heartbeats::Heart;
use mq_net::connection::{Connection, SendError};

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
    /// The heartbeat that Python knows.
    pub(crate) heart: Heart,
    /// The frame it is in the middle of.
    pub(crate) unfinished: Unfinished,
    connection: Arc<Connection>,
    /// Requests that wait for a message.
    held: AtomicUsize,
    /// The client left more unread than may be.
    unread: AtomicBool,
    /// Why others had it closed.
    gave_way: OnceLock<GaveWay>,
    last_read_ms: AtomicI64,
    last_write_ms: AtomicI64,
    /// When the client last took some of what it was owed, or was owed nothing.
    last_taken_ms: AtomicI64,
    next_opaque: AtomicI32,
    /// Opaques of our requests that it has not answered.
    calls: Mutex<HashSet<i32>>,
}

/// What a connection was closed for, so that others have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveWay {
    /// A frame that has begun.
    Frame,
    /// A TLS handshake that goes on.
    Handshake,
}

impl GaveWay {
    /// For the log.
    pub(crate) fn end(self) -> (EventKind, String) {
        let (kind, why) = match self {
            Self::Frame => (
                EventKind::BadFrame,
                "its unfinished frame made room for those of others",
            ),
            Self::Handshake => (
                EventKind::Tls,
                "its unfinished TLS handshake made room for a newer one",
            ),
        };
        (kind, why.to_owned())
    }
}

impl Peer {
    pub(crate) fn new(
        id: u64,
        remote: SocketAddr,
        fast_port: bool,
        connection: Arc<Connection>,
        now_ms: i64,
    ) -> Self {
        Self {
            id,
            remote,
            fast_port,
            sends: SendOrder::default(),
            heart: Heart::default(),
            unfinished: Unfinished::default(),
            connection,
            held: AtomicUsize::new(0),
            unread: AtomicBool::new(false),
            gave_way: OnceLock::new(),
            last_read_ms: AtomicI64::new(now_ms),
            last_write_ms: AtomicI64::new(now_ms),
            last_taken_ms: AtomicI64::new(now_ms),
            next_opaque: AtomicI32::new(1),
            calls: Mutex::default(),
        }
    }

    /// Writes whole frames, at once if the socket takes them, else as soon as it does.
    /// False if the connection is closed, or gets closed because its client does not read.
    pub fn send(&self, frames: &[u8]) -> bool {
        self.taken(self.connection.send_slice(frames))
    }

    /// Leaves a frame for the connection's task: frames released together are written together.
    pub fn send_soon(&self, frame: &[u8]) -> bool {
        self.taken(self.connection.send_soon(frame))
    }

    fn taken(&self, result: Result<(), SendError>) -> bool {
        if let Err(SendError::Full { .. }) = result {
            self.unread.store(true, Ordering::Release);
            self.close();
        }
        result.is_ok()
    }

    /// The sending side, for the connection's task.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Writes what waits, for the connection's task.
    pub(crate) async fn write_some(&self) {
        self.connection.write_some().await;
    }

    /// Has the connection's task look whether it may read.
    pub(crate) fn look_again(&self) {
        self.connection.look_again();
    }

    /// Bytes the client has not taken yet.
    pub fn owed(&self) -> usize {
        self.connection.queued_bytes()
    }

    /// Whether it was closed because its client did not read.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }

    /// Closes the connection; what it is owed is lost.
    pub fn close(&self) {
        self.connection.close();
    }

    /// Closes the connection for a reason that its own task does not know.
    pub(crate) fn give_way(&self, with: GaveWay) {
        let _ = self.gave_way.set(with); // the first reason counts
        self.close();
    }

    /// Why others had it closed; None if they did not.
    pub(crate) fn gave_way(&self) -> Option<GaveWay> {
        self.gave_way.get().copied()
    }

    /// Whether the connection is closed.
    pub fn is_closing(&self) -> bool {
        self.connection.is_closed()
    }

    /// Requests of its that are held.
    pub(crate) fn held_count(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn note_held(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_woken(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn note_read(&self, now_ms: i64) {
        self.last_read_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Something is about to be written to it.
    pub(crate) fn note_write(&self, now_ms: i64) {
        self.last_write_ms.store(now_ms, Ordering::Relaxed);
        if self.owed() == 0 {
            self.last_taken_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// The client took some of what it was owed.
    pub(crate) fn note_taken(&self, now_ms: i64) {
        self.last_write_ms.store(now_ms, Ordering::Relaxed);
        self.last_taken_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Whether the client is owed more than its share and has taken nothing for [`UNREAD_MS_MAX`].
    fn is_stalled(&self, now_ms: i64) -> bool {
        let taken_ms = self.last_taken_ms.load(Ordering::Relaxed);
        self.owed() > OWED_SHARE_BYTES && now_ms - taken_ms > UNREAD_MS_MAX
    }

    /// Monotonic milliseconds of the last byte read.
    pub fn last_read_ms(&self) -> i64 {
        self.last_read_ms.load(Ordering::Relaxed)
    }

    /// Monotonic milliseconds of the last byte in either direction.
    pub(crate) fn last_active_ms(&self) -> i64 {
        self.last_read_ms()
            .max(self.last_write_ms.load(Ordering::Relaxed))
    }

    /// The opaque of a request about to be sent, whose reply goes to `Shared::client_replies`. None
    /// when too many wait already or the connection is closed.
    pub fn expect_reply(&self) -> Option<i32> {
        let opaque = self.next_opaque.fetch_add(1, Ordering::Relaxed);
        let mut calls = self.calls.lock();
        if self.is_closing() || calls.len() >= CALLS_MAX {
            return None;
        }
        calls.insert(opaque);
        Some(opaque)
    }

    /// Whether somebody waited for that reply, who now waits no more.
    pub fn forget_reply(&self, opaque: i32) -> bool {
        self.calls.lock().remove(&opaque)
    }

    /// The connection's task is done; gives the requests that nobody will answer any more.
    pub(crate) fn closed(&self) -> HashSet<i32> {
        self.close();
        std::mem::take(&mut *self.calls.lock())
    }
}

/// All open connections by id.
#[derive(Debug, Default)]
pub struct Peers {
    open: RwLock<HashMap<u64, Arc<Peer>>>,
    last_id: AtomicU64,
    /// Bytes that no client has taken yet.
    pub(crate) owed: Arc<AtomicUsize>,
    /// When stalled clients were last looked for.
    looked_ms: AtomicI64,
    /// Frames that have begun and not ended.
    pub(crate) unfinished: AllUnfinished,
}

impl Peers {
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn insert(&self, peer: &Arc<Peer>) {
        self.open.write().insert(peer.id, Arc::clone(peer));
    }

    pub(crate) fn remove(&self, id: u64) {
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

    /// Bytes that no client has taken yet, of all connections.
    pub fn owed(&self) -> usize {
        self.owed.load(Ordering::Relaxed)
    }

    /// Bytes of frames that have begun and not ended, of all connections.
    pub fn unfinished(&self) -> usize {
        self.unfinished.bytes()
    }

    /// Every open connection.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.open.read().values().cloned().collect()
    }

    /// Closes clients that keep memory for answers that they do not take.
    pub(crate) fn close_stalled(&self, now_ms: i64) {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let is_mine = now_ms - looked_ms >= UNREAD_LOOK_MS
            && (self.looked_ms)
                .compare_exchange(looked_ms, now_ms, order.0, order.1)
                .is_ok();
        if !is_mine {
            return;
        }
        for peer in self.all().iter().filter(|peer| peer.is_stalled(now_ms)) {
            peer.unread.store(true, Ordering::Release);
            peer.close();
        }
    }

    /// Takes note of what a connection's unfinished frame takes after a read; `is_new` if it began
    /// with this read. Closes connections where all take more than `limit`, and tells how many.
    pub(crate) fn note_partial(
        &self,
        peer: &Peer,
        bytes: usize,
        is_new: bool,
        now_ms: i64,
        limit: usize,
    ) -> u64 {
        let frame = &peer.unfinished;
        if bytes == 0 && !frame.is_there() {
            return 0; // as most reads end
        }
        if is_new {
            frame.begin(now_ms);
        }
        let all = self.unfinished.change(frame, bytes);
        match all > limit && bytes > 0 {
            true => self.make_room(limit),
            false => 0,
        }
    }

    /// The connection is gone, and the memory of its unfinished frame.
    pub(crate) fn forget_partial(&self, peer: &Peer) {
        self.unfinished.change(&peer.unfinished, 0);
    }

    /// Closes those who began first until there is some room, so that it is not done anew for each
    /// read. Tells how many.
    fn make_room(&self, limit: usize) -> u64 {
        let Some(_turn) = self.unfinished.making_room.try_lock() else {
            return 0;
        };
        let peers = self.all().into_iter();
        let mut begun: Vec<_> = peers
            .filter_map(|peer| Some((peer.unfinished.began_ms()?, peer)))
            .collect();
        begun.sort_unstable_by_key(|(began_ms, _)| *began_ms);
        let mut closed = 0;
        for (_, peer) in begun {
            if self.unfinished.bytes() <= limit - limit / UNFINISHED_PARTS {
                break;
            }
            // Its memory goes as its task ends, which is next.
            self.unfinished.change(&peer.unfinished, 0);
            peer.give_way(GaveWay::Frame);
            closed += 1;
        }
        closed
    }
}
