//! Requests that wait until their client has taken the answers to earlier ones.
//!
//! One read takes hundreds of requests, and they are answered faster than a slow client reads: to
//! read no more of it comes too late for those. They wait here, with their connection, whose task
//! gives them back to their queue once it has written enough. A request and its connection keep
//! each other until then, or until the connection's end gives it back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::conn::peers::Peer;
use crate::core::Core;
use crate::fair::slice;
use crate::handoff::overload;
use crate::handoff::queue::Popped;
use crate::handoff::{Handoff, Job};
use crate::limits::{PARKED_BYTES_MAX, PARKED_MAX, UNREAD_BYTES_PAUSE};
use crate::requests::cold;
use crate::requests::pull::{ColdPull, PullTask};
use crate::route::Family;

/// A request that was about to be answered.
pub(crate) enum Request {
    /// By Python.
    Job(Box<Job>),
    /// By a thread that may wait for the disk.
    Cold(ColdPull),
}

/// Those of one connection, the oldest first.
#[derive(Default)]
pub(crate) struct Parked(Mutex<Vec<Request>>);

/// What those of all connections take.
#[derive(Debug, Default)]
pub(crate) struct AllParked {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parked({})", self.0.lock().len())
    }
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Self::Job(job) => size_of::<Job>() + job.frame().len(),
            Self::Cold(_) => size_of::<PullTask>(), // its names are the tables'
        }
    }

    fn give_back(self, core: &Arc<Core>) {
        match self {
            Self::Job(job) => job.give_back(),
            Self::Cold(task) => cold::give_back(core, task),
        }
    }

    fn refuse(self, core: &Core) {
        match self {
            Self::Job(job) => job.busy(overload::UNREAD),
            Self::Cold(task) => cold::refuse(core, &task, overload::UNREAD),
        }
    }
}

impl Handoff {
    /// Waits for the next request of a family whose client takes its answers.
    pub fn next(&self, family: Family, timeout: Duration) -> Popped<Job> {
        let began = Instant::now();
        slice::patient();
        loop {
            match self.pop(family, timeout.saturating_sub(began.elapsed())) {
                Popped::Item(job) if !job.is_oneway() && must_wait(&job.core, &job.peer) => {
                    let (core, peer) = (Arc::clone(&job.core), Arc::clone(&job.peer));
                    park(&core, &peer, Request::Job(Box::new(job)));
                }
                popped => return popped,
            }
        }
    }
}

impl AllParked {
    /// How many requests wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// False if they would take too much.
    fn add(&self, bytes: usize) -> bool {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > PARKED_BYTES_MAX {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn remove(&self, request: &Request) {
        self.bytes.fetch_sub(request.bytes(), Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a client is to take some of its answers before it gets more.
pub(crate) fn must_wait(core: &Core, peer: &Peer) -> bool {
    !peer.is_closing() && overload::is_full(core, peer.owed(), UNREAD_BYTES_PAUSE)
}

/// Keeps a request until its client has taken some of its answers; answers 2 if too many wait.
pub(crate) fn park(core: &Arc<Core>, peer: &Peer, request: Request) {
    let mut parked = peer.parked.0.lock();
    if parked.len() >= PARKED_MAX || !core.peers.parked.add(request.bytes()) {
        drop(parked);
        return request.refuse(core);
    }
    parked.push(request);
    drop(parked);
    // If it has read since the last look, or gone, its task has been here already.
    give_back(core, peer);
}

/// Gives the requests of a connection back to their queues, unless they have to wait.
pub(crate) fn give_back(core: &Arc<Core>, peer: &Peer) {
    if !must_wait(core, peer) {
        take(core, peer).for_each(|request| request.give_back(core));
    }
}

/// Drops the requests of all connections: each is answered by that.
pub(crate) fn give_up(core: &Core) {
    for peer in core.peers.all() {
        take(core, &peer).for_each(drop);
    }
}

fn take<'c>(core: &'c Core, peer: &Peer) -> impl Iterator<Item = Request> + use<'c> {
    let parked = std::mem::take(&mut *peer.parked.0.lock());
    parked
        .into_iter()
        .inspect(|request| core.peers.parked.remove(request))
}

#[cfg(test)]
mod tests;
