//! Pending acknowledgements: the puts that wait for a watermark, with their deadlines.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use super::watermarks::Watermarks;
use crate::types::{AckOutcome, Settled, Ticket, Watermark};

/// A queue that was longer frees its memory when it is empty.
const SPARE_PENDING_MAX: usize = 4_096;

/// The receiver of the outcome.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// The listener of the store, which knows the meaning of the token.
    Token(u64),
    /// A thread that blocks.
    Thread(Arc<OneShot>),
}

/// Passes one outcome to the thread that created it.
#[derive(Debug)]
pub(crate) struct OneShot {
    outcome: OnceLock<AckOutcome>,
    thread: Thread,
}

impl OneShot {
    /// For this thread.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            outcome: OnceLock::new(),
            thread: thread::current(),
        })
    }

    fn set(&self, outcome: AckOutcome) {
        // The first outcome counts.
        let _ = self.outcome.set(outcome);
        self.thread.unpark();
    }

    /// Blocks until the outcome arrives or the time is over; may return earlier without an outcome.
    pub(crate) fn wait(&self, at_most: Duration) -> Option<AckOutcome> {
        if self.outcome.get().is_none() {
            thread::park_timeout(at_most);
        }
        self.outcome.get().copied()
    }
}

/// One pending acknowledgement.
#[derive(Debug)]
struct Pending {
    ticket: Ticket,
    waiter: Waiter,
}

/// All pending acknowledgements.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// By watermark; each list is sorted by end.
    pending: [VecDeque<Pending>; Watermark::COUNT],
    /// While there are waiters, no deadline is earlier; monotonic milliseconds.
    earliest_ms: i64,
}

/// Removed waiters and their outcomes.
#[derive(Debug, Default)]
pub(crate) struct Released {
    settled: Vec<Settled>,
    threads: Vec<(Arc<OneShot>, AckOutcome)>,
}

impl Released {
    /// Whether no waiter was removed.
    pub(crate) fn is_empty(&self) -> bool {
        self.settled.is_empty() && self.threads.is_empty()
    }

    fn add(&mut self, waiter: Waiter, outcome: AckOutcome) {
        match waiter {
            Waiter::Token(token) => self.settled.push(Settled { token, outcome }),
            Waiter::Thread(thread) => self.threads.push((thread, outcome)),
        }
    }

    /// Wakes the threads; returns the outcomes for the listener.
    pub(crate) fn wake_threads(self) -> Vec<Settled> {
        for (thread, outcome) in self.threads {
            thread.set(outcome);
        }
        self.settled
    }
}

impl Waiters {
    /// Whether any put waits for a flush.
    pub(crate) fn need_flush(&self, watermarks: &Watermarks) -> bool {
        // Each list is sorted: if its last put needs no flush, no other does.
        let mut last = self.pending.iter().filter_map(VecDeque::back);
        last.any(|last| watermarks.need_flush(&last.ticket))
    }

    /// Time before which no deadline passes, monotonic milliseconds.
    pub(crate) fn earliest_ms(&self) -> i64 {
        match self.pending.iter().all(VecDeque::is_empty) {
            true => i64::MAX,
            false => self.earliest_ms,
        }
    }

    /// Adds a waiter.
    pub(crate) fn add(&mut self, ticket: Ticket, waiter: Waiter) {
        self.earliest_ms = self.earliest_ms().min(ticket.deadline_ms);
        let pending = &mut self.pending[ticket.needs as usize];
        // Puts arrive nearly in log order, so the position is at or near the end.
        let is_before = |other: &Pending| other.ticket.end_offset <= ticket.end_offset;
        let place = pending.iter().rposition(is_before);
        let place = place.map_or(0, |before| before + 1);
        pending.insert(place, Pending { ticket, waiter });
    }

    /// Removes the waiters whose watermark has been reached.
    pub(crate) fn take_reached(&mut self, watermarks: &Watermarks) -> Released {
        let mut released = Released::default();
        for pending in &mut self.pending {
            let is_reached = |pending: &Pending| watermarks.reach(&pending.ticket);
            let count = pending.partition_point(is_reached);
            for Pending { waiter, .. } in pending.drain(..count) {
                released.add(waiter, AckOutcome::Durable);
            }
            if pending.is_empty() {
                pending.shrink_to(SPARE_PENDING_MAX);
            }
        }
        released
    }

    /// Removes the waiters whose deadline has passed.
    pub(crate) fn take_late(
        &mut self,
        now_ms: i64,
        outcome: impl Fn(&Ticket) -> AckOutcome,
    ) -> Released {
        let mut released = Released::default();
        if now_ms < self.earliest_ms() {
            return released;
        }
        let mut earliest_ms = i64::MAX;
        for pending in &mut self.pending {
            let mut left = VecDeque::with_capacity(pending.len());
            for waits in pending.drain(..) {
                if waits.ticket.deadline_ms <= now_ms {
                    released.add(waits.waiter, outcome(&waits.ticket));
                } else {
                    earliest_ms = earliest_ms.min(waits.ticket.deadline_ms);
                    left.push_back(waits);
                }
            }
            *pending = left;
        }
        self.earliest_ms = earliest_ms;
        released
    }

    /// Removes all waiters: the store is poisoned, or closes while the disk is full.
    pub(crate) fn take_all(&mut self, outcome: impl Fn(&Ticket) -> AckOutcome) -> Released {
        let mut released = Released::default();
        for Pending { ticket, waiter } in self.pending.iter_mut().flat_map(std::mem::take) {
            released.add(waiter, outcome(&ticket));
        }
        released
    }
}
