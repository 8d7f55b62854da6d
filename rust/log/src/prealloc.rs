//! State that the writer shares with the allocation thread, and the writer's wait for a slow disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::directory::Directory;
use super::segment::Segment;
use mq_base::clock::Clock;

/// The longest time that the writer waits for the allocation thread, milliseconds. Every other
/// append waits too, so this is long enough for a thread to wake up, but not for a disk.
const BRIEF_MS: i64 = 5;

/// State that the writer shares with the allocation thread.
pub(super) struct Preallocation {
    clock: Arc<dyn Clock>,
    /// The writer wakes the thread when the end of the log reaches this log offset.
    pub wake_at: AtomicU64,
    pub state: Mutex<State>,
    pub for_thread: Condvar,
    for_writer: Condvar,
    stall: Arc<Stall>,
}

#[derive(Debug)]
pub(super) struct State {
    /// The next file, which the thread creates early, and whether the file has its final name.
    pub prepared: Option<Arc<Segment>>,
    pub is_named: bool,
    /// End of the prepared file that the writer took last. Every file that starts below it exists,
    /// even if the list of segments does not have it yet.
    pub next_start: u64,
    /// Why the last round of the thread ended early.
    failure: Option<io::Error>,
    /// The writer waits for the thread, or gave up with `NotReady`. The thread reports its next
    /// failure to the writer.
    pub is_asked: bool,
    pub is_awake: bool,
    /// The thread creates the files; without the thread the writer creates them.
    pub is_running: bool,
}

impl Preallocation {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State {
            prepared: None,
            is_named: false,
            next_start: 0,
            failure: None,
            is_asked: false,
            is_awake: false,
            is_running: false,
        };
        Self {
            wake_at: AtomicU64::new(0),
            state: Mutex::new(state),
            for_thread: Condvar::new(),
            for_writer: Condvar::new(),
            stall: Arc::new(Stall::new(Arc::clone(&clock))),
            clock,
        }
    }
}

impl Preallocation {
    /// The writer calls this after each write. It is cheap unless the thread has work.
    pub fn passed(&self, offset: u64) {
        if offset >= self.wake_at.load(Ordering::Relaxed) {
            self.wake_at.store(u64::MAX, Ordering::Relaxed);
            self.state.lock().is_awake = true;
            self.for_thread.notify_one();
        }
    }

    /// Returns the stall, which is on while the writer is held up by a slow disk.
    pub fn stall(&self) -> &Arc<Stall> {
        &self.stall
    }

    /// Returns the next file, which starts at `start`: the prepared one as soon as it has its final
    /// name, or one from `make` if no thread prepares files. Removes a file that was prepared
    /// before an empty log was told to begin elsewhere.
    pub fn next_file(
        &self,
        start: u64,
        files: &Directory,
        make: impl FnOnce() -> io::Result<Segment>,
    ) -> io::Result<Arc<Segment>> {
        let prepared = |state: &mut State| {
            if !std::mem::take(&mut state.is_named) {
                return Ok(None);
            }
            let prepared = state.prepared.take();
            if let Some(other) = prepared.as_ref().filter(|file| file.start() != start) {
                files.remove(other.start())?;
                return Ok(None);
            }
            if let Some(prepared) = &prepared {
                state.next_start = prepared.end();
            }
            Ok(prepared)
        };
        match self.await_thread(prepared)? {
            Some(prepared) => Ok(prepared),
            None => make().map(Arc::new),
        }
    }

    /// Makes sure that the writer may write up to `end` in the last file.
    pub fn room_in(&self, last: &Segment, end: u64) -> io::Result<()> {
        if last.try_grant_to(end)? {
            return Ok(());
        }
        // Without the thread, nothing holds the locks that `try_grant_to` tries.
        let granted = |_: &mut State| Ok(last.try_grant_to(end)?.then_some(()));
        self.await_thread(granted).map(|_| ())
    }

    /// Returns the value of `get`, after a wait of at most [`BRIEF_MS`] or, during a stall, without
    /// a wait. None if no thread runs that could provide the value. `WouldBlock` if the disk is
    /// slow: the caller can try again after the stall.
    fn await_thread<T>(
        &self,
        get: impl Fn(&mut State) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.is_asked, true) {
            state.failure = None;
        }
        let until_ms = self.clock.monotonic_ms() + BRIEF_MS;
        let mut is_late = self.stall.is_on();
        loop {
            let found = get(&mut state).transpose();
            let found = found.or_else(|| state.failure.take().map(Err));
            if found.is_some() || !state.is_running {
                state.is_asked = false;
                self.stall.end();
                return found.transpose();
            }
            state.is_awake = true;
            self.for_thread.notify_one();
            if is_late {
                self.stall.begin();
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let left_ms = (until_ms - self.clock.monotonic_ms()).max(0);
            let left = Duration::from_millis(left_ms.unsigned_abs());
            is_late = self.for_writer.wait_for(&mut state, left).timed_out();
        }
    }

    /// Records the result of a step of the thread, and wakes the writer.
    pub fn tell(&self, failure: Option<io::Error>) {
        let mut state = self.state.lock();
        state.failure = failure;
        self.stall.end();
        self.for_writer.notify_one();
    }
}

/// A stall begins when the writer gives up with `NotReady`, and ends when another attempt makes
/// sense.
pub struct Stall {
    clock: Arc<dyn Clock>,
    is_on: AtomicBool,
    /// Monotonic time at which the stall began.
    since_ms: Mutex<Option<i64>>,
    ended: Condvar,
}

impl Stall {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            is_on: AtomicBool::new(false),
            since_ms: Mutex::new(None),
            ended: Condvar::new(),
        }
    }

    /// Whether an append would fail with `NotReady` for now.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Duration of the stall so far, milliseconds; 0 without a stall, which costs one atomic read.
    pub fn lasts_ms(&self) -> i64 {
        if !self.is_on() {
            return 0;
        }
        let since_ms = *self.since_ms.lock();
        since_ms.map_or(0, |since_ms| self.clock.monotonic_ms() - since_ms)
    }

    /// Waits for the end of the stall; false if it lasts longer than `at_most`.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut since_ms = self.since_ms.lock();
        let lasts = |since_ms: &mut Option<i64>| since_ms.is_some();
        self.ended.wait_while_for(&mut since_ms, lasts, at_most);
        since_ms.is_none()
    }

    pub(super) fn begin(&self) {
        let now_ms = || self.clock.monotonic_ms();
        self.since_ms.lock().get_or_insert_with(now_ms);
        self.is_on.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        if self.is_on() {
            *self.since_ms.lock() = None;
            self.is_on.store(false, Ordering::Release);
            self.ended.notify_all();
        }
    }
}
