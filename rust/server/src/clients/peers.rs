//! Connected clients: replies they have not read, and requests that the server sends them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::clients::deferred_sends::DeferredSends;
use crate::clients::events::EventKind;
use crate::clients::partial_frames::{AllUnfinished, Unfinished};
use crate::limits::{
    CALLS_MAX, LARGE_REPLY_BYTES, OUTBOUND_PARTS, OUTBOUND_SHARE_BYTES, UNFINISHED_PARTS,
    UNREAD_BYTES_PAUSE, UNREAD_LOOK_MS, UNREAD_MS_MAX,
};
use crate::state::known_heartbeats::Heart;
use mq_net::connection::{Connection, SendError};

/// Remark of the reply that replaces a large one.
pub(crate) const NO_ROOM: &str =
    "[OVERLOAD]clients have not taken too many bytes of earlier answers, ask again later";

/// One connection. Its task reads; any thread may write through it.
#[derive(Debug)]
pub struct Peer {
    /// Number of the connection, from 1; never reused.
    pub id: u64,
    /// The client's address.
    pub remote: SocketAddr,
    /// Whether it was accepted on the fast (VIP) port.
    pub fast_port: bool,
    /// Sends that wait for an earlier send, which Python decides.
    pub sends: DeferredSends,
    /// The last heartbeat that Python has acknowledged.
    pub(crate) heart: Heart,
    /// The incomplete frame.
    pub(crate) unfinished: Unfinished,
    connection: Arc<Connection>,
    /// Number of long polls.
    held: AtomicUsize,
    /// Whether the connection was closed because its client did not read.
    is_slow_reader: AtomicBool,
    /// Why the connection was closed to make room for others.
    gave_way: OnceLock<GaveWay>,
    last_read_ms: AtomicI64,
    last_write_ms: AtomicI64,
    /// Time at which the client last read some replies, or had none to read.
    last_taken_ms: AtomicI64,
    next_opaque: AtomicI32,
    /// Opaques of the server's requests that it has not answered.
    calls: Mutex<HashSet<i32>>,
}

/// Why a connection was closed to make room for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveWay {
    /// An incomplete frame.
    Frame,
    /// A TLS handshake in progress.
    Handshake,
}

impl GaveWay {
    /// Returns the event for the log.
    pub(crate) fn end(self) -> (EventKind, String) {
        let (kind, why) = match self {
            Self::Frame => (
                EventKind::BadFrame,
                "its incomplete frame was dropped to make room for other frames",
            ),
            Self::Handshake => (
                EventKind::Tls,
                "its TLS handshake was dropped to make room for a newer one",
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
            sends: DeferredSends::default(),
            heart: Heart::default(),
            unfinished: Unfinished::default(),
            connection,
            held: AtomicUsize::new(0),
            is_slow_reader: AtomicBool::new(false),
            gave_way: OnceLock::new(),
            last_read_ms: AtomicI64::new(now_ms),
            last_write_ms: AtomicI64::new(now_ms),
            last_taken_ms: AtomicI64::new(now_ms),
            next_opaque: AtomicI32::new(1),
            calls: Mutex::default(),
        }
    }

    /// Writes whole frames at once if the socket accepts them, otherwise as soon as it does. False
    /// if the connection is closed, or gets closed because its client does not read.
    pub fn send(&self, frames: &[u8]) -> bool {
        self.taken(self.connection.send_slice(frames))
    }

    /// Leaves a frame to the connection's task, which writes the frames of many threads together.
    pub fn send_soon(&self, frame: &[u8]) -> bool {
        self.taken(self.connection.send_soon(frame))
    }

    fn taken(&self, result: Result<(), SendError>) -> bool {
        if let Err(SendError::Full { .. }) = result {
            self.is_slow_reader.store(true, Ordering::Release);
            self.close();
        }
        result.is_ok()
    }

    /// The sending side, for the connection's task.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Writes queued bytes, for the connection's task.
    pub(crate) async fn write_some(&self) {
        self.connection.write_some().await;
    }

    /// Makes the connection's task check again whether it may read.
    pub(crate) fn look_again(&self) {
        self.connection.look_again();
    }

    /// Bytes of replies that the client has not read.
    pub fn outbound_bytes(&self) -> usize {
        self.connection.queued_bytes()
    }

    /// Whether the connection was closed because its client did not read.
    pub(crate) fn is_slow_reader(&self) -> bool {
        self.is_slow_reader.load(Ordering::Acquire)
    }

    /// Closes the connection; queued replies are lost.
    pub fn close(&self) {
        self.connection.close();
    }

    /// Closes the connection to make room for others.
    pub(crate) fn give_way(&self, with: GaveWay) {
        let _ = self.gave_way.set(with); // the first reason counts
        self.close();
    }

    /// Why the connection was closed to make room for others; None if it was not.
    pub(crate) fn gave_way(&self) -> Option<GaveWay> {
        self.gave_way.get().copied()
    }

    /// Whether the connection is closed.
    pub fn is_closing(&self) -> bool {
        self.connection.is_closed()
    }

    /// Number of its long polls.
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

    /// Records that bytes are about to be written.
    pub(crate) fn note_write(&self, now_ms: i64) {
        self.last_write_ms.store(now_ms, Ordering::Relaxed);
        if self.outbound_bytes() == 0 {
            self.last_taken_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Records that the client has read some replies.
    pub(crate) fn note_taken(&self, now_ms: i64) {
        self.last_write_ms.store(now_ms, Ordering::Relaxed);
        self.last_taken_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Whether the client has more unread replies than its share and has read nothing for
    /// [`UNREAD_MS_MAX`].
    fn is_stalled(&self, now_ms: i64) -> bool {
        let taken_ms = self.last_taken_ms.load(Ordering::Relaxed);
        self.outbound_bytes() > OUTBOUND_SHARE_BYTES && now_ms - taken_ms > UNREAD_MS_MAX
    }

    /// Monotonic milliseconds of the last byte received.
    pub fn last_read_ms(&self) -> i64 {
        self.last_read_ms.load(Ordering::Relaxed)
    }

    /// Monotonic milliseconds of the last byte in either direction.
    pub(crate) fn last_active_ms(&self) -> i64 {
        self.last_read_ms()
            .max(self.last_write_ms.load(Ordering::Relaxed))
    }

    /// Reserves the opaque for a request to the client; its reply goes to `Clients::replies`.
    /// None if too many requests wait already or the connection is closed.
    pub fn expect_reply(&self) -> Option<i32> {
        let opaque = self.next_opaque.fetch_add(1, Ordering::Relaxed);
        let mut calls = self.calls.lock();
        if self.is_closing() || calls.len() >= CALLS_MAX {
            return None;
        }
        calls.insert(opaque);
        Some(opaque)
    }

    /// Removes a waiting request; returns whether it was waiting.
    pub fn forget_reply(&self, opaque: i32) -> bool {
        self.calls.lock().remove(&opaque)
    }

    /// Records the end of the connection's task; returns the requests that get no reply.
    pub(crate) fn closed(&self) -> HashSet<i32> {
        self.close();
        std::mem::take(&mut *self.calls.lock())
    }
}

/// All open connections by id.
#[derive(Debug)]
pub struct Peers {
    /// Limit on the unread replies of all clients, bytes; above it, large replies are refused.
    reply_bytes_max: usize,
    open: RwLock<HashMap<u64, Arc<Peer>>>,
    last_id: AtomicU64,
    /// Bytes of replies that no client has read yet.
    pub(crate) outbound_bytes: Arc<AtomicUsize>,
    /// Time of the last check for stalled clients.
    looked_ms: AtomicI64,
    /// Incomplete frames.
    pub(crate) unfinished: AllUnfinished,
}

impl Peers {
    pub(crate) fn new(reply_bytes_max: usize) -> Self {
        Self {
            reply_bytes_max,
            open: RwLock::default(),
            last_id: AtomicU64::default(),
            outbound_bytes: Arc::default(),
            looked_ms: AtomicI64::default(),
            unfinished: AllUnfinished::default(),
        }
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn insert(&self, peer: &Arc<Peer>) {
        self.open.write().insert(peer.id, Arc::clone(peer));
    }

    pub(crate) fn remove(&self, id: u64) {
        self.open.write().remove(&id);
    }

    /// Returns the connection with this id, if it is open.
    pub fn get(&self, id: u64) -> Option<Arc<Peer>> {
        self.open.read().get(&id).cloned()
    }

    /// Number of open connections.
    pub fn count(&self) -> usize {
        self.open.read().len()
    }

    /// Bytes of replies that no client has read yet, of all connections.
    pub fn outbound_bytes(&self) -> usize {
        self.outbound_bytes.load(Ordering::Relaxed)
    }

    /// Whether a client must read replies before the server reads from it again. `outbound_bytes`:
    /// bytes of replies that it has not read.
    pub(crate) fn is_full(&self, outbound_bytes: usize) -> bool {
        outbound_bytes > OUTBOUND_SHARE_BYTES
            && (outbound_bytes >= UNREAD_BYTES_PAUSE || self.is_budget_short())
    }

    /// Whether all clients together have too many bytes of unread replies, so that each gets its
    /// share.
    fn is_budget_short(&self) -> bool {
        self.outbound_bytes() > self.reply_bytes_max / OUTBOUND_PARTS
    }

    /// Whether a client must read some replies before it gets more.
    pub(crate) fn must_wait(&self, peer: &Peer) -> bool {
        !peer.is_closing() && self.is_full(peer.outbound_bytes())
    }

    /// Whether `more` bytes would exceed the client's share while the unread replies of all clients
    /// exceed their budget.
    pub(crate) fn has_its_share(&self, peer: &Peer, more: usize) -> bool {
        self.is_budget_short() && peer.outbound_bytes() + more > OUTBOUND_SHARE_BYTES
    }

    /// Whether a reply of `bytes` fits beside the unread replies of all clients.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= LARGE_REPLY_BYTES || self.outbound_bytes() + bytes <= self.reply_bytes_max
    }

    /// Memory of incomplete frames of all connections, bytes.
    pub fn unfinished(&self) -> usize {
        self.unfinished.bytes()
    }

    /// Returns every open connection.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.open.read().values().cloned().collect()
    }

    /// Closes clients that occupy memory with replies that they do not read.
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
            peer.is_slow_reader.store(true, Ordering::Release);
            peer.close();
        }
    }

    /// Records the memory of a connection's incomplete frame after a read; `is_new` if the frame
    /// began with this read. If all frames exceed `limit`, closes connections. Returns how many.
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
            return 0; // the usual case
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

    /// Forgets the incomplete frame of a connection that ended.
    pub(crate) fn forget_partial(&self, peer: &Peer) {
        self.unfinished.change(&peer.unfinished, 0);
    }

    /// Closes connections, the oldest frames first, until 1/32 of the limit is free, so that this
    /// is not repeated at each read. Returns how many.
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
            // Its memory is freed when its task ends, which is soon.
            self.unfinished.change(&peer.unfinished, 0);
            peer.give_way(GaveWay::Frame);
            closed += 1;
        }
        closed
    }
}
