//! The allocation thread: blocks, warm pages and the next file, ready before the writer comes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::disk::{Disk, Files};
use super::segment::Segment;
use super::segments::Segments;
use super::writer::Writer;

/// Bytes kept warm ahead of the writer: 10 ms at the speed of memory. They cost memory and, with
/// SYNC_FLUSH, a write of zeros, so an idle log should not have more of them.
const WARM_BYTES: u64 = 16 << 20;

/// The writer waits for a file that is not ready this long; RocketMQ does, too.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the writer and the allocation thread tell each other.
#[derive(Debug)]
pub(super) struct Ahead<D> {
    /// The writer wakes the thread when it passes this log offset.
    wake_at: AtomicU64,
    state: Mutex<State<D>>,
    for_thread: Condvar,
    for_writer: Condvar,
}

#[derive(Debug)]
struct State<D> {
    /// The next file, made before it is needed.
    prepared: Option<Arc<Segment<D>>>,
    /// Where the file behind the one that the writer took last starts: what lies before it is
    /// made, though the log's list may not have it yet.
    next_start: u64,
    /// Why the last round of the thread ended early.
    failure: Option<io::Error>,
    is_awake: bool,
    /// The thread makes the files; without it the writer does.
    is_running: bool,
    patience: Duration,
}

impl<D> Default for Ahead<D> {
    fn default() -> Self {
        let state = State {
            prepared: None,
            next_start: 0,
            failure: None,
            is_awake: false,
            is_running: false,
            patience: PATIENCE,
        };
        Self {
            wake_at: AtomicU64::new(0),
            state: Mutex::new(state),
            for_thread: Condvar::new(),
            for_writer: Condvar::new(),
        }
    }
}

impl<D: Disk> Ahead<D> {
    /// Called by the writer after each write; cheap unless there is work for the thread.
    pub(super) fn passed(&self, offset: u64) {
        if offset >= self.wake_at.load(Ordering::Relaxed) {
            self.wake_at.store(u64::MAX, Ordering::Relaxed);
            self.state.lock().is_awake = true;
            self.for_thread.notify_one();
        }
    }

    /// The next file: the prepared one, or one from `make` if no thread prepares any. A disk that
    /// hangs does not hang the writer for longer than RocketMQ's patience.
    pub(super) fn next_file(
        &self,
        make: impl FnOnce() -> io::Result<Segment<D>>,
    ) -> io::Result<Arc<Segment<D>>> {
        let mut state = self.state.lock();
        let deadline = Instant::now() + state.patience;
        state.failure = None;
        loop {
            if let Some(prepared) = state.prepared.take() {
                state.next_start = prepared.end();
                return Ok(prepared);
            }
            if !state.is_running {
                return make().map(Arc::new);
            }
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            state.is_awake = true;
            self.for_thread.notify_one();
            if self.for_writer.wait_until(&mut state, deadline).timed_out() {
                let what = "the next log file is not ready: the disk is slow";
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
        }
    }

    /// Takes a file back that could not be published.
    pub(super) fn give_back(&self, segment: Arc<Segment<D>>) {
        let mut state = self.state.lock();
        state.next_start = segment.start();
        state.prepared = Some(segment);
    }
}

/// The running thread; dropping it stops the thread and discards the prepared file.
pub struct Allocator<F: Files> {
    segments: Arc<Segments<F>>,
    ahead: Arc<Ahead<F::Disk>>,
    thread: Option<JoinHandle<()>>,
}

impl<F: Files> Allocator<F> {
    /// Starts the thread that works ahead of `writer`.
    pub fn start(writer: &Writer<F>) -> io::Result<Self> {
        let segments = Arc::clone(writer.segments());
        let ahead = Arc::clone(writer.ahead());
        // An empty log gets its first file prepared before the first append; any other log waits
        // for the writer.
        let mut state = ahead.state.lock();
        (state.is_awake, state.is_running) = (segments.last().is_none(), true);
        drop(state);
        let worker = Worker {
            segments: Arc::clone(&segments),
            ahead: Arc::clone(&ahead),
            step: writer.step(),
        };
        let thread = thread::Builder::new().name("mq-allocate".into());
        let thread = Some(thread.spawn(move || worker.run())?);
        Ok(Self {
            segments,
            ahead,
            thread,
        })
    }
}

impl<F: Files> Drop for Allocator<F> {
    fn drop(&mut self) {
        self.ahead.state.lock().is_running = false;
        self.ahead.for_thread.notify_one();
        self.ahead.for_writer.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
        let prepared = self.ahead.state.lock().prepared.take();
        if let Some(prepared) = prepared
            && let Err(error) = self.segments.files().discard(prepared.start())
        {
            tracing::warn!(%error, "the prepared log file could not be removed");
        }
    }
}

struct Worker<F: Files> {
    segments: Arc<Segments<F>>,
    ahead: Arc<Ahead<F::Disk>>,
    /// Blocks are reserved so many bytes at a time.
    step: u64,
}

impl<F: Files> Worker<F> {
    fn run(&self) {
        while self.wait() {
            let failure = self.work().err();
            if let Some(error) = &failure {
                // The writer meets the same error when it gets there, and answers with it.
                tracing::warn!(%error, "nothing is ready ahead of the commit log's writer");
            }
            self.ahead.state.lock().failure = failure;
            self.ahead.for_writer.notify_one();
        }
    }

    /// Waits for the writer; false when stopped.
    fn wait(&self) -> bool {
        let mut state = self.ahead.state.lock();
        while !state.is_awake && state.is_running {
            self.ahead.for_thread.wait(&mut state);
        }
        state.is_awake = false;
        state.is_running
    }

    fn work(&self) -> io::Result<()> {
        let Some(last) = self.segments.last() else {
            return self.prepare(self.segments.appended()).map(drop);
        };
        let middle = last.end() - last.length() / 2;
        let mut next = None;
        let position = loop {
            let position = self.segments.appended().max(last.start());
            // The file first, and half a file before it is needed: a disk may be slow to make one.
            if position >= middle {
                next = self.prepare(last.end())?.or(next);
            }
            if !self.make_ready(&last, position)? {
                break position;
            }
        };
        if let Some(next) = next {
            while self.make_ready(&next, next.start())? {}
        }
        let row = last.disk().warm_pace().row_bytes;
        let mut wake_at = position + row.min(self.step / 2).min(last.length() / 8);
        if position < middle {
            wake_at = wake_at.min(middle);
        }
        self.ahead.wake_at.store(wake_at, Ordering::Relaxed);
        if self.segments.appended() >= wake_at {
            // The writer passed it before it was there to see.
            self.ahead.state.lock().is_awake = true;
        }
        Ok(())
    }

    /// Readies one piece of a file for a writer at `position`; false if enough is ready.
    fn make_ready(&self, segment: &Segment<F::Disk>, position: u64) -> io::Result<bool> {
        let position = position.max(segment.start());
        if segment.reserved() < (position + self.step / 2).min(segment.end()) {
            segment.reserve_to((position + self.step).min(segment.end()))?;
        }
        let piece = segment.disk().warm_pace().piece_bytes;
        let is_enough = position + WARM_BYTES < (segment.ready() + piece).min(segment.end());
        Ok(!is_enough && segment.warm(piece)?)
    }

    /// Makes the file that starts at `start`, not warm; None if it exists.
    fn prepare(&self, start: u64) -> io::Result<Option<Arc<Segment<F::Disk>>>> {
        let is_rolled = self.segments.last().is_some_and(|last| last.end() != start);
        let is_made = |state: &State<_>| state.prepared.is_some() || start < state.next_start;
        if is_rolled || is_made(&self.ahead.state.lock()) {
            return Ok(None);
        }
        let size = self.segments.file_size();
        let disk = self.segments.files().prepare(start, size)?;
        let segment = Arc::new(Segment::new(start, size, disk, true));
        segment.reserve_to((start + self.step).min(segment.end()))?;
        self.ahead.state.lock().prepared = Some(Arc::clone(&segment));
        self.ahead.for_writer.notify_one();
        Ok(Some(segment))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::log::gated::{Gated, Gates};
    use crate::log::{Memory, WriteError};

    const SIZE: u64 = 64 << 10;

    struct Rig {
        writer: Writer<Gated<Memory>>,
        allocator: Allocator<Gated<Memory>>,
        gates: Arc<Gates>,
    }

    /// A log on a disk that may hang. Its first file is written up to the middle.
    fn rig() -> Rig {
        let files = Gated::new(Memory::default());
        let gates = Arc::clone(&files.gates);
        let segments = Arc::new(Segments::open(files, SIZE).unwrap());
        let mut writer = Writer::new(segments, 16 << 10);
        let allocator = Allocator::start(&writer).unwrap();
        write(&mut writer, SIZE / 2 - 1_000);
        Rig {
            writer,
            allocator,
            gates,
        }
    }

    fn write(writer: &mut Writer<Gated<Memory>>, count: u64) {
        for _ in 0..count / 1_000 {
            writer.write(&[&[7; 1_000]]).unwrap();
        }
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(5), "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn a_roll_does_not_wait_for_a_disk_that_hangs() {
        let mut rig = rig();
        write(&mut rig.writer, 2_000);
        let ahead = Arc::clone(rig.writer.ahead());
        until("the next file is prepared and warm", || {
            let state = ahead.state.lock();
            let prepared = state.prepared.as_ref();
            prepared.is_some_and(|next| next.ready() >= next.start() + (16 << 10))
        });
        let segments = Arc::clone(rig.writer.segments());
        until("this file is ready", || {
            segments.last().is_some_and(|last| last.ready() == SIZE)
        });
        rig.gates.prepare.close();
        let (sender, written) = mpsc::channel();
        let mut writer = rig.writer;
        let writing = thread::spawn(move || {
            let left = writer.remaining() - 8;
            write(&mut writer, left);
            writer.roll(&[&[0; 8]]).unwrap();
            write(&mut writer, 15_000);
            sender.send(writer.position()).unwrap();
        });
        let position = written.recv_timeout(Duration::from_secs(5));
        assert_eq!(position, Ok(SIZE + 15_000), "the writer waits for the disk");
        rig.gates.prepare.open();
        writing.join().unwrap();
        drop(rig.allocator);
    }

    #[test]
    fn the_writer_gives_up_on_a_file_that_does_not_come() {
        const PATIENCE: Duration = Duration::from_millis(100);
        let mut rig = rig();
        rig.writer.ahead().state.lock().patience = PATIENCE;
        let segments = Arc::clone(rig.writer.segments());
        until("there is room", || {
            segments.last().is_some_and(|last| last.ready() > SIZE / 2)
        });
        rig.gates.prepare.close();
        write(&mut rig.writer, 2_000);
        let (position, started) = (rig.writer.position(), Instant::now());
        let error = rig.writer.roll(&[&[0; 8]]).unwrap_err();
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        assert!(
            matches!(&error, WriteError::NoRoom(cause) if is_late(cause)),
            "{error}"
        );
        assert!(started.elapsed() >= PATIENCE && started.elapsed() < 40 * PATIENCE);
        assert_eq!(rig.writer.position(), position);
        rig.gates.prepare.open();
        rig.writer.ahead().state.lock().patience = super::PATIENCE;
        rig.writer.roll(&[&[0; 8]]).unwrap();
        assert_eq!(rig.writer.position(), SIZE);
        drop(rig.allocator);
    }
}
