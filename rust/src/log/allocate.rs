//! The allocation thread: blocks, warm pages and the next file, ready before the writer comes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::disk::{Disk, Files};
use super::segment::Segment;
use super::segments::Segments;
use super::writer::Writer;

/// Bytes kept warm ahead of the writer: 10 ms at the speed of memory. They cost memory and, with
/// SYNC_FLUSH, a write of zeros, so an idle log should not have more of them.
const WARM_BYTES: u64 = 16 << 20;
/// Warmed at a time; the writer may have to wait for one piece.
const PIECE_BYTES: u64 = 1 << 20;

/// What the writer and the allocation thread tell each other.
#[derive(Debug)]
pub(super) struct Ahead<D> {
    /// The writer wakes the thread when it passes this log offset.
    wake_at: AtomicU64,
    state: Mutex<State<D>>,
    changed: Condvar,
    /// Held from the making of a file until it is in the log's list, so that the writer and the
    /// thread do not both make it: the second would cut the first one's file to nothing.
    making: Mutex<()>,
}

#[derive(Debug)]
struct State<D> {
    /// The next file, made before it is needed.
    prepared: Option<Arc<Segment<D>>>,
    is_awake: bool,
    is_stopped: bool,
}

impl<D> Default for Ahead<D> {
    fn default() -> Self {
        let state = State {
            prepared: None,
            is_awake: false,
            is_stopped: false,
        };
        Self {
            wake_at: AtomicU64::new(0),
            state: Mutex::new(state),
            changed: Condvar::new(),
            making: Mutex::new(()),
        }
    }
}

impl<D: Disk> Ahead<D> {
    /// Called by the writer after each write; cheap unless there is work for the thread.
    pub(super) fn passed(&self, offset: u64) {
        if offset >= self.wake_at.load(Ordering::Relaxed) {
            self.wake_at.store(u64::MAX, Ordering::Relaxed);
            self.state.lock().is_awake = true;
            self.changed.notify_one();
        }
    }

    /// Publishes the prepared file, else one from `make`.
    pub(super) fn next_file(
        &self,
        make: impl FnOnce() -> io::Result<Segment<D>>,
        publish: impl FnOnce(&Arc<Segment<D>>) -> io::Result<()>,
    ) -> io::Result<Arc<Segment<D>>> {
        let _one_maker = self.making.lock();
        let prepared = self.state.lock().prepared.take();
        let next = match prepared {
            Some(prepared) => prepared,
            None => Arc::new(make()?),
        };
        publish(&next)?;
        Ok(next)
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
        ahead.state.lock().is_awake = segments.last().is_none();
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
        self.ahead.state.lock().is_stopped = true;
        self.ahead.changed.notify_one();
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
            if let Err(error) = self.work() {
                // The writer meets the same error when it gets there, and answers with it.
                tracing::warn!(%error, "nothing is ready ahead of the commit log's writer");
            }
        }
    }

    /// Waits for the writer; false when stopped.
    fn wait(&self) -> bool {
        let mut state = self.ahead.state.lock();
        while !state.is_awake && !state.is_stopped {
            self.ahead.changed.wait(&mut state);
        }
        state.is_awake = false;
        !state.is_stopped
    }

    fn work(&self) -> io::Result<()> {
        let Some(last) = self.segments.last() else {
            return self.prepare(self.segments.max_offset()).map(drop);
        };
        while self.make_ready(&last, self.segments.max_offset())? {}
        let position = self.segments.max_offset().max(last.start());
        let near_end = self.step.min(self.segments.file_size() / 4);
        if last.end().saturating_sub(position) <= near_end
            && let Some(next) = self.prepare(last.end())?
        {
            while self.make_ready(&next, next.start())? {}
        }
        let wake_at = position + WARM_BYTES.min(self.step).min(near_end) / 2;
        self.ahead.wake_at.store(wake_at, Ordering::Relaxed);
        Ok(())
    }

    /// Readies one piece of a file for a writer at `position`; false if enough is ready.
    fn make_ready(&self, segment: &Segment<F::Disk>, position: u64) -> io::Result<bool> {
        let position = position.max(segment.start());
        if segment.reserved() < (position + self.step / 2).min(segment.end()) {
            segment.reserve_to((position + self.step).min(segment.end()))?;
        }
        segment.warm(PIECE_BYTES, position + WARM_BYTES)
    }

    /// Makes the file that starts at `start`, not warm; None if it exists.
    fn prepare(&self, start: u64) -> io::Result<Option<Arc<Segment<F::Disk>>>> {
        let _one_maker = self.ahead.making.lock();
        let is_rolled = self.segments.last().is_some_and(|last| last.end() != start);
        if is_rolled || self.ahead.state.lock().prepared.is_some() {
            return Ok(None);
        }
        let size = self.segments.file_size();
        let disk = self.segments.files().prepare(start, size)?;
        let segment = Arc::new(Segment::new(start, size, disk, true));
        segment.reserve_to((start + self.step).min(segment.end()))?;
        self.ahead.state.lock().prepared = Some(Arc::clone(&segment));
        Ok(Some(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Memory, MemoryDisk};

    #[test]
    fn nobody_makes_a_file_while_another_is_published() {
        let ahead = Ahead::default();
        let make = || Ok(Segment::new(0, 64, Memory::default().prepare(0, 64)?, true));
        let publish = |_: &Arc<Segment<MemoryDisk>>| {
            assert!(ahead.making.try_lock().is_none());
            Ok(())
        };
        assert_eq!(ahead.next_file(make, publish).unwrap().start(), 0);
        assert!(ahead.making.try_lock().is_some());
    }
}
