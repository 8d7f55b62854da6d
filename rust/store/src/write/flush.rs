//! Makes the log durable: by group commit, or on an interval.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::ack::{Acks, Turn, Wait};
use super::space::{Space, Waiting};
use super::writeback::{PAGE_BYTES, Writeback};
use crate::threads::bell::Bell;
use crate::threads::periodic::{Pause, Periodic};
use crate::threads::signal::Signal;
use crate::types::{AckOutcome, Ticket, Watermark};
use mq_base::clock::Clock;
use mq_base::services::{self, Services};
use mq_log::Segments;
use mq_log::fs::is_full;

/// The name of the threads that flush.
const THREAD: &str = "mq-flush";
/// Two, so that one syncs while the other sends the replies of the sync before.
const GROUP_COMMIT_THREADS: usize = 2;
/// Pause before the next try of a flush that found no room on the disk.
const FULL_RETRY: Duration = Duration::from_millis(100);
/// Pause of a flush thread after a round that panicked.
const PANIC_PAUSE: Duration = Duration::from_millis(100);

/// The result of writing the appended bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// All bytes are in the log.
    All,
    /// The disk is full: the rest is in memory, and puts are refused until it is written.
    NoRoom,
    /// The store is poisoned.
    Failed,
}

/// Flushes the log; shared by all threads that may have to.
pub(crate) struct Flusher {
    pub(crate) log: Arc<Segments>,
    pub(crate) acks: Arc<Acks>,
    pub(crate) space: Arc<Space>,
    /// The last write found the disk full.
    pub(crate) lacks_room: AtomicBool,
    /// Wakes the dispatcher.
    pub(crate) appended: Arc<Signal>,
    /// Wakes the threads that send the log to slaves.
    pub(crate) sending: Bell,
    /// Store timestamp of a record below the log's end, at least as old as any above it.
    pub(crate) last_store_timestamp_ms: Arc<AtomicI64>,
    /// Receives the store timestamp up to which the log is durable.
    pub(crate) on_flushed: Box<dyn Fn(i64) + Send + Sync>,
}

impl Flusher {
    /// Blocks until the ticket is settled. Flushes on this thread if no other does; a deadline that
    /// passes meanwhile is noticed after the flush.
    pub(crate) fn wait(&self, ticket: &Ticket) -> AckOutcome {
        loop {
            match self.acks.begin_wait(ticket) {
                Wait::Over(outcome) => return outcome,
                Wait::Block(one_shot) => return self.acks.block(&one_shot, ticket),
                // A panic of the flush poisons the store, which the next step reports.
                Wait::Flush => drop(self.flush_while_mine(false)),
            }
        }
    }

    /// Makes everything appended so far durable; false if the disk is full or the store is
    /// poisoned.
    pub(crate) fn flush_all(&self) -> bool {
        let end_offset = self.log.appended().cast_signed();
        // Write first: waiting for a flush without room would block until there is room.
        if self.write_out() != Written::All {
            return false;
        }
        self.wait(&Ticket {
            end_offset,
            needs: Watermark::Flushed,
            deadline_ms: i64::MAX,
        }) == AckOutcome::Durable
    }

    /// Wakes those who follow the written log.
    pub(crate) fn ring(&self) {
        self.appended.ring();
        self.sending.ring();
    }

    /// Writes the appended bytes, so that readers see them. On a full disk it requests a flush,
    /// which tries again.
    pub(crate) fn write_out(&self) -> Written {
        match self.log.write_out() {
            Ok(()) => {
                if self.lacks_room.load(Ordering::Acquire) {
                    self.lacks_room.store(false, Ordering::Release);
                    self.space.release(Waiting::Log);
                    tracing::info!("there is room, the commit log is written");
                }
                self.ring();
                Written::All
            }
            Err(error) if is_full(&error) => {
                let what = format!("the commit log waits for room: {error}");
                self.space.hold(Waiting::Log, what);
                self.lacks_room.store(true, Ordering::Release);
                self.acks.want_flush();
                Written::NoRoom
            }
            Err(error) => {
                self.acks.fail(format!("append to the commit log: {error}"));
                Written::Failed
            }
        }
    }

    /// A round of a flush thread; false if it was the last one.
    fn round(&self) -> bool {
        let turn = self.acks.next_turn();
        if turn == Turn::Flush {
            self.run_turn(true);
        }
        turn == Turn::Flush
    }

    /// Flushes. Passes a panic of the flush on to the thread's service, which logs it.
    fn run_turn(&self, comes_back: bool) {
        if let Err(panic) = self.flush_while_mine(comes_back) {
            resume_unwind(panic);
        }
    }

    /// Flushes as long as this thread has the turn; it `comes_back` for the next one.
    ///
    /// After a panic we do not know which bytes are on the disk. So a panic counts as a failed
    /// flush and poisons the store.
    fn flush_while_mine(&self, comes_back: bool) -> thread::Result<()> {
        let flush = || while self.flush(comes_back) == Turn::Flush {};
        catch_unwind(AssertUnwindSafe(flush)).inspect_err(|panic| {
            let reason = services::words(&**panic);
            self.acks
                .fail(format!("flush of the commit log panicked: {reason}"));
        })
    }

    /// Syncs everything appended so far.
    fn flush(&self, comes_back: bool) -> Turn {
        // Read in this order, so that the timestamp's record is before the end that is read after
        // it.
        let timestamp_ms = self.last_store_timestamp_ms.load(Ordering::Acquire);
        let written = self.write_out();
        if written == Written::Failed {
            return Turn::Stop;
        }
        let to = self.log.max_offset();
        match self.sync(self.acks.flushed(), to) {
            Ok(()) if written == Written::NoRoom => self.acks.end_short(to, comes_back, FULL_RETRY),
            Ok(()) => {
                (self.on_flushed)(timestamp_ms);
                self.acks.end_flush(to, comes_back)
            }
            Err(error) => {
                let reason = format!("flush of the commit log up to {to}: {error}");
                self.acks.fail(reason);
                Turn::Stop
            }
        }
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        if from >= to {
            return Ok(());
        }
        self.log.sync(from, to)?;
        if self.log.next_file_start(from) <= to
            && let Err(error) = self.log.retire_before(to)
        {
            // The bytes are durable; only memory stays in use.
            tracing::warn!(%error, "a full commit-log file stays mapped");
        }
        Ok(())
    }

    /// Whether an interval flush is worth it.
    fn is_due(&self, least_pages: u64) -> bool {
        let (from, to) = (self.acks.flushed(), self.log.max_offset());
        if least_pages == 0 || self.log.next_file_start(from) <= to {
            return to > from;
        }
        to / PAGE_BYTES >= from / PAGE_BYTES + least_pages
    }
}

/// RocketMQ's settings of asynchronous flushes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    /// `flushIntervalCommitLog`.
    pub(crate) every: Duration,
    /// `flushCommitLogLeastPages`: fewer dirty pages wait.
    pub(crate) least_pages: u64,
    /// `flushCommitLogThoroughInterval`: after this long one dirty byte is enough.
    pub(crate) thorough_ms: i64,
}

/// Flushes at an interval.
pub(crate) struct Rounds {
    flusher: Arc<Flusher>,
    interval: Interval,
    clock: Arc<dyn Clock>,
    thorough_at_ms: i64,
}

impl Rounds {
    /// The thorough flush is due one interval from now.
    pub(crate) fn new(flusher: Arc<Flusher>, interval: Interval, clock: Arc<dyn Clock>) -> Self {
        let thorough_at_ms = clock.monotonic_ms() + interval.thorough_ms;
        Self {
            flusher,
            interval,
            clock,
            thorough_at_ms,
        }
    }

    /// Flushes if there are enough dirty pages or enough time has passed.
    pub(crate) fn next(&mut self) {
        let now_ms = self.clock.monotonic_ms();
        let is_thorough = now_ms >= self.thorough_at_ms;
        if is_thorough {
            self.thorough_at_ms = now_ms + self.interval.thorough_ms;
        }
        let least_pages = if is_thorough {
            0
        } else {
            self.interval.least_pages
        };
        if self.flusher.is_due(least_pages) && self.flusher.acks.try_turn() {
            self.flusher.run_turn(false);
        }
    }
}

/// The flush threads. Dropping stops them without a last flush.
pub(crate) enum FlushThreads {
    /// Group commit: the next sync serves all waiters. It starts when the last one ends.
    GroupCommit {
        acks: Arc<Acks>,
        threads: Vec<JoinHandle<()>>,
    },
    /// A flush at an interval.
    OnInterval {
        /// Stops when dropped.
        _thread: Periodic,
    },
}

impl FlushThreads {
    /// Starts group commit.
    pub(crate) fn group_commit(
        flusher: &Arc<Flusher>,
        services: &Arc<Services>,
    ) -> io::Result<Self> {
        let mut threads = Vec::new();
        flusher.acks.serve();
        for _ in 0..GROUP_COMMIT_THREADS {
            let (flusher, services) = (Arc::clone(flusher), Arc::clone(services));
            let run = move || {
                let round = || services.round(THREAD, || flusher.round());
                let pause = |_| {
                    thread::sleep(PANIC_PAUSE);
                    true
                };
                while round().unwrap_or_else(pause) {}
            };
            threads.push(thread::Builder::new().name(THREAD.into()).spawn(run)?);
        }
        Ok(Self::GroupCommit {
            acks: Arc::clone(&flusher.acks),
            threads,
        })
    }

    /// Starts flushing on an interval.
    pub(crate) fn on_interval(
        flusher: &Arc<Flusher>,
        interval: Interval,
        clock: Arc<dyn Clock>,
        services: &Arc<Services>,
    ) -> io::Result<Self> {
        let every = interval.every;
        let (log, acks) = (Arc::clone(&flusher.log), Arc::clone(&flusher.acks));
        let mut ahead = Writeback::new(log, acks, Arc::clone(&clock));
        let mut rounds = Rounds::new(Arc::clone(flusher), interval, clock);
        let round = move |pause: &Pause| {
            rounds.next();
            while ahead.run_until_next_flush(every, pause) {
                rounds.next();
            }
        };
        let thread = Periodic::start_pausing(THREAD, every, services, round)?;
        Ok(Self::OnInterval { _thread: thread })
    }
}

impl Drop for FlushThreads {
    fn drop(&mut self) {
        // The periodic thread stops when it is dropped.
        if let Self::GroupCommit { acks, threads } = self {
            acks.stop();
            for thread in threads.drain(..) {
                // No panic ends it.
                let _ = thread.join();
            }
        }
    }
}
