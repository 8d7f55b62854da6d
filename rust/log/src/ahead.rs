//! What the writer and the allocation thread tell each other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::segment::Segment;
use super::stall::Stall;
use mq_base::clock::Clock;

/// The longest time that the writer waits for the thread, milliseconds. Every other append waits
/// too, so this is enough for a thread to wake up, not for a disk.
const BRIEF_MS: i64 = 5;

/// What the writer and the allocation thread tell each other.
pub(super) struct Ahead {
    clock: Arc<dyn Clock>,
    /// The writer wakes the thread when it passes this log offset.
    pub wake_at: AtomicU64,
    pub state: Mutex<State>,
    pub for_thread: Condvar,
    for_writer: Condvar,
    stall: Arc<Stall>,
}

#[derive(Debug)]
pub(super) struct State {
    /// The next file, made before it is needed, and whether it has its name yet.
    pub prepared: Option<Arc<Segment>>,
    pub is_named: bool,
    /// Where the file behind the one that the writer took last starts: what lies before it is
    /// made, though the log's list may not have it yet.
    pub next_start: u64,
    /// Why the last round of the thread ended early.
    failure: Option<io::Error>,
    /// The writer waits for the thread, or went away empty-handed: a failure is for it.
    pub is_asked: bool,
    pub is_awake: bool,
    /// The thread makes the files; without it the writer does.
    pub is_running: bool,
}

impl Ahead {
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

impl Ahead {
    /// Called by the writer after each write; cheap unless there is work for the thread.
    pub fn passed(&self, offset: u64) {
        if offset >= self.wake_at.load(Ordering::Relaxed) {
            self.wake_at.store(u64::MAX, Ordering::Relaxed);
            self.state.lock().is_awake = true;
            self.for_thread.notify_one();
        }
    }

    /// What the writer lacks while the disk is slow.
    pub fn stall(&self) -> &Arc<Stall> {
        &self.stall
    }

    /// The next file: the prepared one once it has its name, or one from `make` if no thread
    /// prepares any.
    pub fn next_file(
        &self,
        make: impl FnOnce() -> io::Result<Segment>,
    ) -> io::Result<Arc<Segment>> {
        let prepared = |state: &mut State| {
            if !std::mem::take(&mut state.is_named) {
                return Ok(None);
            }
            let prepared = state.prepared.take();
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

    /// Room up to `end` in the last file.
    pub fn room_in(&self, last: &Segment, end: u64) -> io::Result<()> {
        if last.try_grant_to(end)? {
            return Ok(());
        }
        // Without the thread there is nobody in the way.
        let granted = |_: &mut State| Ok(last.try_grant_to(end)?.then_some(()));
        self.await_thread(granted).map(|_| ())
    }

    /// What `get` finds, perhaps after a while; None if no thread is there to make it. `WouldBlock`
    /// where the disk is slow: nobody waits for that here, the next try may succeed once the
    /// stall is over.
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

    /// Says that the thread got something done, or could not.
    pub fn tell(&self, failure: Option<io::Error>) {
        let mut state = self.state.lock();
        state.failure = failure;
        self.stall.end();
        self.for_writer.notify_one();
    }
}
