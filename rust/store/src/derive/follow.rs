//! The thread that keeps what is derived up with the log, and when it looks at the log again.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::arrivals::Listener;
use super::dispatch::{BitmapSource, Derived, Progress};
use crate::files::io_error;
use crate::records::walk::{LogRead, Walk};
use crate::threads::signal::{Signal, Woken};
use crate::types::StoreError;
use crate::write::space::{Space, Waiting};
use mq_base::services;
use mq_log::Segments;

// These pauses are shorter than a millisecond, which is what the store's clock counts. They decide
// nothing but how soon a message becomes readable, so they use the system's own time.

/// While messages come this fast after each other, the dispatcher pauses between looks.
const BUSY: Duration = Duration::from_millis(1);
/// Waking a thread for every message costs more than the message: a busy dispatcher takes what
/// came in during a pause at once. RocketMQ pauses 1 ms, busy or not.
const PAUSE: Duration = Duration::from_micros(250);
/// The same while no reader waits: a look costs some 10 us, whatever it finds.
const REST: Duration = Duration::from_millis(1);
/// A dispatcher without room on the disk tries again so often.
const FULL_RETRY: Duration = Duration::from_millis(100);
/// More than this waits for no pause, bytes.
const BEHIND_BYTES: u64 = 256 << 10;

/// Waits for the log to grow beyond an offset and tells how far; after a stop, until the end is
/// reached, then None.
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

/// How the dispatcher waits for room on a full disk: puts are refused meanwhile.
pub(crate) struct Room {
    space: Arc<Space>,
    /// Stopped when the store closes.
    pub(crate) appended: Arc<Signal>,
}

impl Room {
    pub(crate) fn new(space: &Arc<Space>, appended: &Arc<Signal>) -> Self {
        Self {
            space: Arc::clone(space),
            appended: Arc::clone(appended),
        }
    }

    /// Does `work` until there is room for it; after a stop once more.
    fn patiently(
        &self,
        mut work: impl FnMut() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
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
            tracing::info!("there is room, dispatch goes on");
        }
        done
    }
}

/// Does `work`; a panic of it is an error, which stops the dispatcher: how far the queues were
/// written is not known.
fn unless_panicking(work: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let reason = format!("panicked: {}", services::words(&*panic));
        Err(io_error("dispatch thread".as_ref())(io::Error::other(
            reason,
        )))
    })
}

/// The thread that keeps [`Derived`] up with the log.
pub(crate) struct Dispatcher {
    progress: Arc<Progress>,
    listener: Arc<OnceLock<Listener>>,
    bitmaps: Arc<OnceLock<BitmapSource>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Dispatcher {
    /// Starts following `log` from `from`, up to which `derived` is complete.
    ///
    /// `readable_beyond(offset)` waits until records beyond `offset` may be read and returns how
    /// far; None ends the thread. While the disk is full it waits for `room`. `failed` is called
    /// once if the thread cannot go on.
    pub(crate) fn start<L: LogRead + 'static>(
        log: Arc<L>,
        mut derived: Derived,
        from: u64,
        mut readable_beyond: impl FnMut(u64) -> Option<u64> + Send + 'static,
        room: Room,
        failed: impl FnOnce(StoreError) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let progress = derived.progress();
        progress.set_dispatched(from);
        let bitmaps = derived.bitmaps();
        let listener: Arc<OnceLock<Listener>> = Arc::default();
        let told = Arc::clone(&listener);
        let body = move || {
            let mut walk = Walk::from(from);
            while let Some(limit) = readable_beyond(walk.offset()) {
                let follow = || derived.follow(&*log, &mut walk, limit, told.get());
                if let Err(error) = unless_panicking(|| room.patiently(follow)) {
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
            listener,
            bitmaps,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Registers the one listener; later ones are ignored.
    pub(crate) fn on_arrival(&self, listener: Listener) {
        let _ = self.listener.set(listener);
    }

    /// Registers the one source of filter bitmaps; later ones are ignored.
    pub(crate) fn set_bitmap_source(&self, source: BitmapSource) {
        let _ = self.bitmaps.set(source);
    }

    /// How far dispatch is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits for the thread to end, after `readable_beyond` answered None.
    pub(crate) fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // No panic ends it.
            let _ = thread.join();
        }
    }
}
