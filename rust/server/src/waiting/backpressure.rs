//! Requests that wait until their client has read the replies to earlier ones.
//!
//! One read returns hundreds of requests, and the server answers them faster than a slow client
//! reads the replies. Stopping the reads is too late for these requests, so they wait here, by
//! connection. The connection's task resumes them when it has written enough, or when it ends
//! (`dispatch::backpressure`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::handoff::request::Request;
use crate::limits::PARKED_MAX;
use crate::waiting::pull_task::{ColdPull, PullTask};

/// Number of shards, each with its own lock; a power of two.
const SHARDS: usize = 16;

/// A request that was about to be answered.
pub(crate) enum Parked {
    /// It goes to Python.
    Python(Box<Request>),
    /// It goes to a thread that may wait for the disk.
    Cold(ColdPull),
}

/// The waiting requests of all connections, by connection id, oldest first.
pub struct ParkedRequests {
    shards: [Mutex<HashMap<u64, Vec<Parked>>>; SHARDS],
    count: AtomicUsize,
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Parked {
    fn bytes(&self) -> usize {
        match self {
            Self::Python(request) => size_of::<Request>() + request.frame().len(),
            Self::Cold(_) => size_of::<PullTask>(), // its names belong to the tables
        }
    }
}

impl ParkedRequests {
    /// None wait; they may take `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            shards: Default::default(),
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// Number of waiting requests.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Keeps a request of this connection, or returns it if too many wait.
    pub(crate) fn keep(&self, peer: u64, waiting: Parked) -> Result<(), Parked> {
        let mut parked = self.shard(peer).lock();
        let of_peer = parked.entry(peer).or_default();
        if of_peer.len() < PARKED_MAX && self.add(waiting.bytes()) {
            of_peer.push(waiting);
            return Ok(());
        }
        if of_peer.is_empty() {
            parked.remove(&peer);
        }
        Err(waiting)
    }

    /// Removes and returns the requests of a connection.
    pub(crate) fn take(&self, peer: u64) -> Vec<Parked> {
        let taken = self.shard(peer).lock().remove(&peer).unwrap_or_default();
        for waiting in &taken {
            self.bytes.fetch_sub(waiting.bytes(), Ordering::Relaxed);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    /// Reserves memory for a request; false if all of them would use too much.
    fn add(&self, bytes: usize) -> bool {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.bytes_max {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn shard(&self, peer: u64) -> &Mutex<HashMap<u64, Vec<Parked>>> {
        &self.shards[peer as usize % SHARDS]
    }

    /// Memory of all waiting requests, bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}
