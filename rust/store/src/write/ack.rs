//! Acknowledgement: which puts wait for which watermark, and which thread flushes next.
//!
//! [`Watermarks`] says how far the log is written and flushed; [`Waiters`] holds the waiting puts.
//! When a watermark moves, every waiter that it passes is settled: one call to the listener of the
//! store reports all tokens, and blocked threads are woken. Both happen after every lock is
//! released.
//!
//! Poison: after the first failed write or fsync, the store acknowledges no more puts. A failed
//! fsync may have dropped the pages and marked them clean, so a second one that succeeds proves
//! nothing. Reads continue. Only the next open helps, because recovery rewrites the end of the log.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::waiters::{OneShot, Released, Waiter, Waiters};
use super::watermarks::Watermarks;
use crate::listeners::Listener;
use crate::types::{AckOutcome, Settled, Ticket};
use mq_base::clock::Clock;

/// While puts wait, their deadlines are checked at least this often, in case the clock was set.
const IDLE_LOOK_MS: i64 = 500;

/// Receives the puts that one flush, one deadline or the poison settled.
pub type SettledListener = dyn Fn(&[Settled]) + Send + Sync;

/// Watermarks, waiters and turns to flush.
pub(crate) struct Acks {
    clock: Arc<dyn Clock>,
    pub(crate) watermarks: Watermarks,
    /// Why the store is poisoned. Set once, never cleared.
    poison: OnceLock<String>,
    state: Mutex<State>,
    /// Wakes the flush threads.
    for_flushers: Condvar,
    /// Wakes the thread in [`Acks::expire_next`].
    for_deadlines: Condvar,
    /// Wakes a flush that pauses because the disk is full.
    for_room: Condvar,
    pub(crate) on_settled: Listener<SettledListener>,
}

#[derive(Default)]
struct State {
    waiters: Waiters,
    /// Time at which [`Acks::expire_next`] checks deadlines next if nothing wakes it, monotonic
    /// milliseconds; None while it is awake.
    look_ms: Option<i64>,
    /// No put waited when deadlines were checked last.
    was_idle: bool,
    /// Deadlines are not checked any more.
    is_unwatched: bool,
    is_flushing: bool,
    /// There are flush threads, so a thread that ends a flush need not start the next one.
    is_served: bool,
    /// A flush thread was woken and has not checked the state yet.
    is_woken: bool,
    /// A flush is requested for which no put waits.
    is_wanted: bool,
    /// The last flush found no room on the disk.
    is_short: bool,
    is_stopped: bool,
}

impl State {
    fn begin(&mut self) {
        self.is_flushing = true;
        self.is_wanted = false;
        self.is_short = false;
    }

    /// Whether one more flush is needed.
    fn is_work(&self, watermarks: &Watermarks) -> bool {
        self.is_wanted || self.waiters.need_flush(watermarks)
    }
}

/// The next step of a thread that waits for a ticket.
pub(crate) enum Wait {
    /// The wait is over.
    Over(AckOutcome),
    /// No other thread flushes. This thread has the turn, and asks again after its flush.
    Flush,
    /// Block with [`Acks::block`].
    Block(Arc<OneShot>),
}

/// The next step of a thread that flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The thread has the turn to flush.
    Flush,
    /// The thread has nothing more to do.
    Stop,
}

impl Acks {
    /// No waiters yet.
    pub(crate) fn new(clock: Arc<dyn Clock>, watermarks: Watermarks) -> Self {
        Self {
            clock,
            watermarks,
            poison: OnceLock::new(),
            state: Mutex::default(),
            for_flushers: Condvar::new(),
            for_deadlines: Condvar::new(),
            for_room: Condvar::new(),
            on_settled: Listener::new("settled-listener"),
        }
    }

    /// Log offset up to which everything is durable.
    pub(crate) fn flushed(&self) -> u64 {
        self.watermarks.flushed()
    }

    /// See [`crate::Store::park`].
    pub(crate) fn park(&self, ticket: Ticket, token: u64) -> Option<AckOutcome> {
        let mut state = self.state.lock();
        let outcome = self.settled(&ticket);
        if outcome.is_none() {
            self.add(&mut state, ticket, Waiter::Token(token));
        }
        outcome
    }

    /// Starts to wait for a ticket. If no other thread flushes, this thread does it itself, which
    /// saves a lone waiter two context switches.
    pub(crate) fn begin_wait(&self, ticket: &Ticket) -> Wait {
        let mut state = self.state.lock();
        if let Some(outcome) = self.outcome(ticket) {
            return Wait::Over(outcome);
        }
        if self.watermarks.need_flush(ticket) && !state.is_flushing {
            state.begin();
            return Wait::Flush;
        }
        let one_shot = OneShot::new();
        self.add(&mut state, *ticket, Waiter::Thread(Arc::clone(&one_shot)));
        Wait::Block(one_shot)
    }

    /// Blocks until the ticket is settled or its deadline has passed.
    pub(crate) fn block(&self, one_shot: &OneShot, ticket: &Ticket) -> AckOutcome {
        loop {
            let told = one_shot.wait(self.until(ticket.deadline_ms));
            if let Some(outcome) = told.or_else(|| self.outcome(ticket)) {
                return outcome;
            }
        }
    }

    fn add(&self, state: &mut State, ticket: Ticket, waiter: Waiter) {
        state.waiters.add(ticket, waiter);
        if self.watermarks.need_flush(&ticket) {
            self.wake_flusher(state);
        }
        if state
            .look_ms
            .is_some_and(|look_ms| look_ms > ticket.deadline_ms)
        {
            state.look_ms = None;
            self.for_deadlines.notify_one();
        }
    }

    /// Requests a flush for which no put waits.
    pub(crate) fn want_flush(&self) {
        let mut state = self.state.lock();
        state.is_wanted = true;
        self.wake_flusher(&mut state);
    }

    /// From now on, flush threads call [`Acks::next_turn`] until they are stopped.
    pub(crate) fn serve(&self) {
        let mut state = self.state.lock();
        (state.is_served, state.is_stopped) = (true, false);
    }

    /// Blocks until a flush is needed and no other thread flushes.
    pub(crate) fn next_turn(&self) -> Turn {
        let mut state = self.state.lock();
        loop {
            state.is_woken = false;
            if state.is_stopped && state.is_short {
                // The disk may stay full.
                let released = state.waiters.take_all(|ticket| self.ended(ticket));
                drop(state);
                self.tell(released);
                return Turn::Stop;
            }
            if state.is_work(&self.watermarks) && !state.is_flushing && self.poison().is_none() {
                state.begin();
                return Turn::Flush;
            }
            if state.is_stopped {
                return Turn::Stop;
            }
            self.for_flushers.wait(&mut state);
        }
    }

    /// From now on, a thread calls [`Acks::expire_next`] until it returns false.
    pub(crate) fn watch_deadlines(&self) {
        self.state.lock().is_unwatched = false;
    }

    /// Makes [`Acks::expire_next`] return false.
    pub(crate) fn unwatch_deadlines(&self) {
        self.state.lock().is_unwatched = true;
        self.for_deadlines.notify_all();
    }

    /// Settles the waiters whose deadline has passed, whatever watermark they wait for; blocks
    /// until there may be one. False after [`Acks::unwatch_deadlines`].
    pub(crate) fn expire_next(&self) -> bool {
        let mut state = self.state.lock();
        if state.is_unwatched {
            return false;
        }
        let now_ms = self.clock.monotonic_ms();
        let late = state.waiters.take_late(now_ms, |ticket| self.ended(ticket));
        if !late.is_empty() {
            drop(state);
            self.tell(late);
            return true;
        }
        let earliest_ms = state.waiters.earliest_ms();
        let is_idle = earliest_ms == i64::MAX;
        // Sleep without end only if no put waited at the last look either. Otherwise puts that are
        // settled quickly would each wake this thread.
        if is_idle && state.was_idle {
            state.look_ms = Some(i64::MAX);
            self.for_deadlines.wait(&mut state);
        } else {
            let look_ms = earliest_ms.min(now_ms + IDLE_LOOK_MS);
            state.look_ms = Some(look_ms);
            self.for_deadlines.wait_for(&mut state, self.until(look_ms));
        }
        (state.look_ms, state.was_idle) = (None, is_idle);
        true
    }

    /// Settles the waiters whose watermark has been reached. Code that moves a watermark other than
    /// by a flush calls this afterwards, and holds no lock.
    pub(crate) fn settle_reached(&self) {
        let released = self.take_settled(&mut self.state.lock());
        self.tell(released);
    }

    /// Takes the turn for an interval flush; false if another thread has it, or if the store is
    /// poisoned: a failed flush is never tried again.
    pub(crate) fn try_turn(&self) -> bool {
        let mut state = self.state.lock();
        if state.is_flushing || self.poison().is_some() {
            return false;
        }
        state.begin();
        true
    }

    /// Ends a turn: everything before `flushed` is durable. Settles the waiters that this covers.
    ///
    /// A thread that `comes_back` to [`Acks::next_turn`] starts the next flush itself, after the
    /// replies: a client often puts again when it has its reply, and one flush for all costs less
    /// than two flushes of half the puts each. Without flush threads this thread keeps the turn
    /// while any put waits.
    pub(crate) fn end_flush(&self, flushed: u64, comes_back: bool) -> Turn {
        self.watermarks.advance_flushed(flushed);
        let mut state = self.state.lock();
        state.is_flushing = false;
        self.release(state, comes_back)
    }

    /// Like [`Acks::end_flush`], for a flush that found the disk full: keeps the turn for `pause`,
    /// or until the stop, and requests another flush.
    pub(crate) fn end_short(&self, flushed: u64, comes_back: bool, pause: Duration) -> Turn {
        self.watermarks.advance_flushed(flushed);
        let mut state = self.state.lock();
        // This pause is no deadline of a waiter, so it does not use the clock.
        let goes_on = |state: &mut State| !state.is_stopped;
        self.for_room.wait_while_for(&mut state, goes_on, pause);
        (state.is_wanted, state.is_short) = (true, true);
        state.is_flushing = false;
        self.release(state, comes_back)
    }

    /// Poisons the store and settles every waiter. The caller must hold no lock.
    pub(crate) fn fail(&self, reason: String) {
        self.poison_silently(reason);
        self.settle_poisoned();
    }

    /// Poisons the store; the first reason stays. For a thread with the put lock, which must call
    /// [`Acks::settle_poisoned`] after releasing it.
    pub(crate) fn poison_silently(&self, reason: String) {
        tracing::error!("store poisoned, it acknowledges nothing more: {reason}");
        self.poison.get_or_init(|| reason);
    }

    /// Settles every waiter of a poisoned store.
    pub(crate) fn settle_poisoned(&self) {
        let mut state = self.state.lock();
        state.is_flushing = false;
        self.release(state, false);
    }

    /// Why the store is poisoned; None if it is not.
    pub(crate) fn poison(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    /// Wakes one flush thread, unless one flushes or was woken already.
    fn wake_flusher(&self, state: &mut State) {
        if !state.is_flushing && !state.is_woken {
            state.is_woken = true;
            self.for_flushers.notify_one();
        }
    }

    /// Removes the waiters whose watermark has been reached; all if the store is poisoned.
    fn take_settled(&self, state: &mut State) -> Released {
        match self.poison().is_some() {
            true => state.waiters.take_all(|_| AckOutcome::Poisoned),
            false => state.waiters.take_reached(&self.watermarks),
        }
    }

    /// Settles the waiters whose watermark has been reached, and starts the next flush.
    fn release(&self, mut state: MutexGuard<'_, State>, comes_back: bool) -> Turn {
        let released = self.take_settled(&mut state);
        let is_served = state.is_served && !state.is_stopped;
        let mut next = Turn::Stop;
        if comes_back {
            // It needs no wake-up.
            state.is_woken = true;
        } else if is_served && state.is_work(&self.watermarks) {
            self.wake_flusher(&mut state);
        } else if state.waiters.need_flush(&self.watermarks) {
            state.begin();
            next = Turn::Flush;
        }
        drop(state);
        self.tell(released);
        next
    }

    /// Reports the outcomes of removed waiters. The caller must hold no lock.
    fn tell(&self, released: Released) {
        let settled = released.wake_threads();
        if !settled.is_empty() {
            self.on_settled.call(|listener| listener(&settled));
        }
    }

    /// Lets the flush threads end as soon as no put waits.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.for_flushers.notify_all();
        self.for_room.notify_all();
    }

    fn outcome(&self, ticket: &Ticket) -> Option<AckOutcome> {
        let is_late = || self.clock.monotonic_ms() >= ticket.deadline_ms;
        let settled = self.settled(ticket);
        settled.or_else(|| is_late().then(|| self.watermarks.timeout(ticket)))
    }

    /// The outcome of a ticket that stops waiting.
    fn ended(&self, ticket: &Ticket) -> AckOutcome {
        let settled = self.settled(ticket);
        settled.unwrap_or_else(|| self.watermarks.timeout(ticket))
    }

    /// The outcome, whatever the clock says.
    fn settled(&self, ticket: &Ticket) -> Option<AckOutcome> {
        // Check the poison first: a poisoned store acknowledges nothing, durable or not.
        if self.poison().is_some() {
            return Some(AckOutcome::Poisoned);
        }
        (self.watermarks.reach(ticket)).then_some(AckOutcome::Durable)
    }

    fn until(&self, deadline_ms: i64) -> Duration {
        let left = deadline_ms.saturating_sub(self.clock.monotonic_ms());
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}
