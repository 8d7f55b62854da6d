//! The dispatch thread: follows the log, and decides when to look at it again.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::arrivals::ArrivalListener;
use super::dispatch::{BitmapSource, Dispatch, Progress};
use crate::files::io_error;
use crate::listeners::Listener;
use crate::scan::log_scanner::{LogRead, LogScanner};
use crate::threads::signal::{Signal, Woken};
use crate::types::StoreError;
use crate::write::space::{Space, Waiting};
use mq_base::services;
use mq_log::Segments;

// These pauses are shorter than the store clock's milliseconds. They only affect how soon a message
// becomes readable, so they use the system's time.

/// The dispatcher pauses between looks while messages follow each other within this time.
const BUSY: Duration = Duration::from_millis(1);
/// Waking a thread for every message costs more than dispatching it, so a busy dispatcher handles
/// the messages of a pause together. RocketMQ always pauses 1 ms.
const PAUSE: Duration = Duration::from_micros(250);
/// The pause while no reader waits. A look costs about 10 us, even if it finds nothing.
const REST: Duration = Duration::from_millis(1);
/// Time between two tries on a full disk.
const FULL_RETRY: Duration = Duration::from_millis(100);
/// With a larger backlog there is no pause, bytes.
const BEHIND_BYTES: u64 = 256 << 10;

/// Returns a function that waits until the log grows beyond an offset, and returns its end. After a
/// stop it returns the end without waiting, and None once the offset has reached it.
pub(crate) fn readable_beyond(
    log: Arc<Segments>,
    appended: Arc<Signal>,
) -> impl FnMut(u64) -> Option<u64> + Send + 'static {
    let mut last_look = None;
    move |offset| {
        let is_busy = last_look.is_some_and(|at: Instant| at.elapsed() < BUSY);
        if is_busy && log.max_offset() < offset + BEHIND_BYTES {
            let began = Instant::now();
            appended.rest(REST);
            thread::sleep(PAUSE.saturating_sub(began.elapsed()));
        }
        let end = wait_beyond(offset, &log, &appended);
        last_look = Some(Instant::now());
        end
    }
}

fn wait_beyond(offset: u64, log: &Segments, appended: &Signal) -> Option<u64> {
    loop {
        let end = log.max_offset();
        if end > offset {
            return Some(end);
        }
        if appended.wait(None, || log.max_offset() > offset) == Woken::Stop {
            let end = log.max_offset();
            return (end > offset).then_some(end);
        }
    }
}

/// Waits for space on a full disk, while puts are refused.
pub(crate) struct FullDiskRetry {
    space: Arc<Space>,
    /// Stopped when the store closes.
    pub(crate) appended: Arc<Signal>,
}

impl FullDiskRetry {
    pub(crate) fn new(space: &Arc<Space>, appended: &Arc<Signal>) -> Self {
        Self {
            space: Arc::clone(space),
            appended: Arc::clone(appended),
        }
    }

    /// Runs `work` until the disk has space for it. After a stop it tries only once more.
    fn run(&self, mut work: impl FnMut() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut done = work();
        if !matches!(done, Err(StoreError::Full { .. })) {
            return done;
        }
        let mut woken = Woken::Look;
        while woken == Woken::Look
            && let Err(error @ StoreError::Full { .. }) = &done
        {
            let what = format!("dispatch waits for room: {error}");
            self.space.hold(Waiting::Dispatch, what);
            woken = self.appended.wait(Some(FULL_RETRY), || false);
            done = work();
        }
        self.space.release(Waiting::Dispatch);
        if done.is_ok() {
            tracing::info!("the disk has space again, dispatch continues");
        }
        done
    }
}

/// Runs `work` and turns a panic into an error, which stops the dispatcher. After a panic we do not
/// know how far the queues were written.
fn unless_panicking(work: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let reason = format!("panicked: {}", services::words(&*panic));
        Err(io_error("dispatch thread".as_ref())(io::Error::other(
            reason,
        )))
    })
}

/// The thread that keeps [`Dispatch`] up with the log.
pub(crate) struct Dispatcher {
    progress: Arc<Progress>,
    pub(crate) bitmaps: Arc<Listener<BitmapSource>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Dispatcher {
    /// Starts to follow `log` at `from`, up to which `derived` is complete.
    ///
    /// `readable_beyond(offset)` waits until records beyond `offset` may be read and returns the
    /// end; None ends the thread. On a full disk the thread waits with `full_disk`. `arrived` is
    /// called for each batch, `failed` once if the thread cannot continue.
    pub(crate) fn start<L: LogRead + 'static>(
        log: Arc<L>,
        mut derived: Dispatch,
        from: u64,
        mut readable_beyond: impl FnMut(u64) -> Option<u64> + Send + 'static,
        full_disk: FullDiskRetry,
        arrived: Box<ArrivalListener>,
        failed: impl FnOnce(StoreError) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let progress = derived.progress();
        progress.set_dispatched(from);
        let bitmaps = derived.bitmaps();
        let body = move || {
            let mut scanner = LogScanner::from(from);
            while let Some(limit) = readable_beyond(scanner.offset()) {
                if scanner.offset() < log.min_offset() {
                    // A slave's empty log began at a later offset than 0.
                    scanner = LogScanner::from(log.min_offset());
                }
                let follow = || derived.follow(&*log, &mut scanner, limit, Some(&*arrived));
                if let Err(error) = unless_panicking(|| full_disk.run(follow)) {
                    tracing::error!(%error, "dispatch stopped");
                    return failed(error);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("mq-dispatch".into())
            .spawn(body)
            .map_err(io_error("dispatch thread".as_ref()))?;
        Ok(Self {
            progress,
            bitmaps,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Progress of dispatch.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits for the thread to end, after `readable_beyond` returned None.
    pub(crate) fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // The join cannot fail: the thread catches panics.
            let _ = thread.join();
        }
    }
}
