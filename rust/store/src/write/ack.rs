//! Who waits for which watermark, and whose turn it is to flush.
//!
//! The log's end (written, and readable at once) is kept by the log itself; here is how much of it
//! is durable. A waiter is an end offset, a deadline and a reply. Every change of the watermark
//! releases the waiters it passes; poison releases all of them with bad news.
//!
//! Poison: after the first failed write or fsync nothing is acknowledged any more. A failed fsync
//! may have dropped the pages and marked them clean, so a second one that succeeds proves nothing.
//! Reading goes on; only reopening, with recovery rewriting the tail, heals.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::threads::signal::Gate;
use crate::types::{AckOutcome, Ticket};
use mq_base::clock::Clock;

/// Who parks while another thread flushes wakes nobody, which is most of the time and saves a
/// switch per put; so the sleepers look for deadlines this often, or sooner if one is.
const IDLE_LOOK_MS: i64 = 500;

/// What to do behind replies that are called together.
type Calls = Vec<fn()>;

thread_local! {
    /// Those behind the replies that this thread is calling; None while it calls none.
    static AFTER: RefCell<Option<Calls>> = const { RefCell::new(None) };
}

/// Has a reply do something behind the last of those that are called together; at once for one
/// that is called by itself.
pub fn after_replies(call: fn()) {
    let is_later = AFTER.with_borrow_mut(|calls| calls.as_mut().map(|calls| calls.push(call)));
    if is_later.is_none() {
        call();
    }
}

/// Calls replies that are called together.
pub fn calling_replies(replies: impl FnOnce()) {
    AFTER.set(Some(Vec::new()));
    replies();
    let calls = AFTER.take().unwrap_or_default();
    calls.into_iter().for_each(|call| call());
}

/// Called exactly once with how a put ended.
pub(crate) type Reply = Box<dyn FnOnce(AckOutcome) + Send>;

/// The watermark, the waiters and the turn to flush.
pub(crate) struct Acks {
    clock: Arc<dyn Clock>,
    /// Why the store is poisoned. Set once, never cleared.
    poison: OnceLock<String>,
    /// Log offset below which everything is durable.
    flushed: AtomicU64,
    state: Mutex<State>,
    /// Wakes the threads that flush.
    for_flushers: Condvar,
    /// Wakes who pauses because the disk is full.
    for_short: Condvar,
    /// Log offset up to which the flush at work makes durable, once that is known.
    covered: AtomicU64,
    /// Hold the threads in [`Acks::next_step`]: one those that the flush at work serves, the
    /// other those that the next one will.
    gates: [Gate; 2],
}

#[derive(Default)]
struct State {
    parked: Vec<(Ticket, Reply)>,
    /// When the sleepers in [`Acks::next_turn`] will look for deadlines, monotonic milliseconds.
    looks: Vec<i64>,
    /// Threads waiting in [`Acks::next_step`], by gate.
    blocked: [usize; 2],
    /// The gate of the flush at work, or of the last one.
    gate: usize,
    is_flushing: bool,
    /// There are flushing threads: who ends a flush need not see to the next one.
    is_served: bool,
    /// A flushing thread is on its way to look.
    is_woken: bool,
    /// Somebody wants a flush without waiting for it.
    is_wanted: bool,
    /// The last flush lacked room on the disk.
    is_short: bool,
    is_stopped: bool,
}

impl State {
    fn begin(&mut self) {
        self.is_flushing = true;
        self.is_wanted = false;
        self.is_short = false;
        self.gate = 1 - self.gate;
    }

    /// Whether somebody needs one more flush.
    fn is_work(&self) -> bool {
        self.is_wanted || !self.parked.is_empty() || self.blocked[1 - self.gate] > 0
    }
}

/// What a blocked thread should do.
pub(crate) enum Step {
    /// The wait is over.
    Done(AckOutcome),
    /// Nobody flushes: flush, then call [`Acks::end_flush`], then ask again.
    Flush,
}

/// What a flushing thread should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Flush, then call [`Acks::end_flush`].
    Flush,
    /// End.
    Stop,
}

impl Acks {
    /// Nobody waits; everything below `flushed` is durable.
    pub(crate) fn new(clock: Arc<dyn Clock>, flushed: u64) -> Self {
        Self {
            clock,
            poison: OnceLock::new(),
            flushed: AtomicU64::new(flushed),
            state: Mutex::default(),
            for_flushers: Condvar::new(),
            for_short: Condvar::new(),
            covered: AtomicU64::new(flushed),
            gates: Default::default(),
        }
    }

    /// Log offset below which everything is durable.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Calls `reply` once: when the ticket's end is durable, at its deadline, on poison.
    pub(crate) fn park(&self, ticket: Ticket, reply: Reply) {
        let mut state = self.state.lock();
        if let Some(outcome) = self.settled(&ticket) {
            drop(state);
            return reply(outcome);
        }
        state.parked.push((ticket, reply));
        self.wake_flusher(&mut state);
        // Else the flush that is at work may end too late to notice, or never.
        if state
            .looks
            .iter()
            .all(|look_ms| *look_ms > ticket.deadline_ms)
        {
            self.for_flushers.notify_one();
        }
    }

    /// Asks for a flush nobody waits for.
    pub(crate) fn want_flush(&self) {
        let mut state = self.state.lock();
        state.is_wanted = true;
        self.wake_flusher(&mut state);
    }

    /// Blocks until the ticket is settled or it is this thread's turn to flush, which saves the
    /// lone waiter two thread switches.
    pub(crate) fn next_step(&self, ticket: &Ticket) -> Step {
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = self.outcome(ticket) {
                return Step::Done(outcome);
            }
            if !state.is_flushing {
                state.begin();
                return Step::Flush;
            }
            // Who comes before the flush knows its end may wait for the next in vain, and is
            // served a flush later.
            let is_covered =
                self.covered.load(Ordering::Acquire).cast_signed() >= ticket.end_offset;
            let at = if is_covered {
                state.gate
            } else {
                1 - state.gate
            };
            let seen = self.gates[at].opened();
            state.blocked[at] += 1;
            let left = self.until(ticket.deadline_ms);
            drop(state);
            self.gates[at].wait(seen, left);
            if let Some(outcome) = self.settled(ticket) {
                return Step::Done(outcome);
            }
            state = self.state.lock();
            if self.gates[at].opened() == seen {
                state.blocked[at] -= 1;
            }
        }
    }

    /// The flush at work makes everything below `offset` durable.
    pub(crate) fn covers(&self, offset: u64) {
        self.covered.store(offset, Ordering::Release);
    }

    /// From now on threads call [`Acks::next_turn`] until they are stopped.
    pub(crate) fn serve(&self) {
        self.state.lock().is_served = true;
    }

    /// Blocks until somebody wants a flush and nobody is at it; meanwhile fails waiters whose
    /// deadline passes, also while another thread hangs in its flush.
    pub(crate) fn next_turn(&self) -> Turn {
        let mut state = self.state.lock();
        loop {
            state = self.expire(state);
            state.is_woken = false;
            if state.is_stopped && state.is_short {
                // There may never be room.
                let left = std::mem::take(&mut state.parked);
                drop(state);
                self.settle(left);
                return Turn::Stop;
            }
            if state.is_work() && !state.is_flushing && self.poison().is_none() {
                state.begin();
                return Turn::Flush;
            }
            if state.is_stopped {
                return Turn::Stop;
            }
            self.sleep(&mut state);
        }
    }

    /// Waits for a call, or the first deadline.
    fn sleep(&self, state: &mut MutexGuard<'_, State>) {
        let deadlines = state.parked.iter().map(|(ticket, _)| ticket.deadline_ms);
        let idle_ms = self.clock.monotonic_ms() + IDLE_LOOK_MS;
        let look_ms = deadlines.min().unwrap_or(i64::MAX).min(idle_ms);
        state.looks.push(look_ms);
        self.for_flushers.wait_for(state, self.until(look_ms));
        let place = state.looks.iter().position(|other_ms| *other_ms == look_ms);
        place.map(|place| state.looks.swap_remove(place));
    }

    /// Takes the turn for a flush on the clock; false if another thread is at it, or the store is
    /// poisoned: a failed flush is never tried again.
    pub(crate) fn try_turn(&self) -> bool {
        let mut state = self.state.lock();
        if state.is_flushing || self.poison().is_some() {
            return false;
        }
        state.begin();
        true
    }

    /// Ends a turn: everything below `flushed` is durable. Releases who is covered. A thread that
    /// `comes_back` to [`Acks::next_turn`] begins the next flush itself, after the replies: who
    /// gets one often puts again, and one flush for all costs less than two for a half each.
    pub(crate) fn end_flush(&self, flushed: u64, comes_back: bool) {
        let mut state = self.state.lock();
        self.flushed.store(flushed, Ordering::Release);
        state.is_flushing = false;
        self.release(state, comes_back);
    }

    /// As [`Acks::end_flush`], for a flush that lacked room to write all: keeps the turn for a
    /// while, or until the stop, and wants another flush.
    pub(crate) fn end_short(&self, flushed: u64, comes_back: bool, pause: Duration) {
        let mut state = self.state.lock();
        self.flushed.store(flushed, Ordering::Release);
        // A pause of this thread, not a deadline of a waiter: it needs no clock.
        let goes_on = |state: &mut State| !state.is_stopped;
        self.for_short.wait_while_for(&mut state, goes_on, pause);
        (state.is_wanted, state.is_short) = (true, true);
        state.is_flushing = false;
        self.release(state, comes_back);
    }

    /// Poisons the store and releases everybody with the bad news; the first reason stays.
    pub(crate) fn fail(&self, reason: String) {
        tracing::error!("store poisoned, it acknowledges nothing more: {reason}");
        let mut state = self.state.lock();
        self.poison.get_or_init(|| reason);
        state.is_flushing = false;
        self.release(state, false);
    }

    /// Why the store is poisoned, None while it is well.
    pub(crate) fn poison(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    /// Wakes one flushing thread, unless one flushes or is on its way.
    fn wake_flusher(&self, state: &mut State) {
        if !state.is_flushing && !state.is_woken {
            state.is_woken = true;
            self.for_flushers.notify_one();
        }
    }

    fn release(&self, mut state: MutexGuard<'_, State>, comes_back: bool) {
        let is_settled = |(ticket, _): &mut (Ticket, Reply)| self.settled(ticket).is_some();
        let settled: Vec<_> = state.parked.extract_if(.., is_settled).collect();
        let has_more = state.is_work();
        let is_served = state.is_served && !state.is_stopped && self.poison().is_none();
        if comes_back {
            // Nobody else is called meanwhile.
            state.is_woken = true;
        } else if has_more {
            self.wake_flusher(&mut state);
        }
        // Without a thread for the next flush, one of those who wait for it has to do it.
        let now = state.gate;
        let released = [0, 1].map(|at| (at == now || !is_served) && state.blocked[at] > 0);
        for (at, _) in released.iter().enumerate().filter(|(_, opens)| **opens) {
            state.blocked[at] = 0;
            self.gates[at].open();
        }
        drop(state);
        for (gate, _) in self.gates.iter().zip(released).filter(|(_, opens)| *opens) {
            gate.release();
        }
        self.settle(settled);
    }

    /// Lets the flushing threads end once nothing waits.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.for_flushers.notify_all();
        self.for_short.notify_all();
    }

    fn outcome(&self, ticket: &Ticket) -> Option<AckOutcome> {
        let is_late = || self.clock.monotonic_ms() >= ticket.deadline_ms;
        let settled = self.settled(ticket);
        settled.or_else(|| is_late().then_some(AckOutcome::FlushTimeout))
    }

    /// The outcome without a look at the clock.
    fn settled(&self, ticket: &Ticket) -> Option<AckOutcome> {
        // Poison first: once it is there, nothing is acknowledged, durable or not.
        if self.poison().is_some() {
            return Some(AckOutcome::Poisoned);
        }
        (self.flushed().cast_signed() >= ticket.end_offset).then_some(AckOutcome::Durable)
    }

    fn settle(&self, settled: Vec<(Ticket, Reply)>) {
        calling_replies(|| {
            for (ticket, reply) in settled {
                // Settled stays settled: the watermark only rises, poison stays. Others are late.
                reply(self.settled(&ticket).unwrap_or(AckOutcome::FlushTimeout));
            }
        });
    }

    fn expire<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let now_ms = self.clock.monotonic_ms();
        let is_late = |(ticket, _): &mut (Ticket, Reply)| ticket.deadline_ms <= now_ms;
        let late: Vec<_> = state.parked.extract_if(.., is_late).collect();
        if !late.is_empty() {
            MutexGuard::unlocked(&mut state, || self.settle(late));
        }
        state
    }

    fn until(&self, deadline_ms: i64) -> Duration {
        let left = deadline_ms.saturating_sub(self.clock.monotonic_ms());
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}
