//! The allocation thread: prepares blocks, pages and files before the writer needs them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use super::prealloc::{Preallocation, State};
use super::segment::Segment;
use super::segments::Segments;
use super::writer::Writer;
use mq_base::services::Services;

/// Name of the thread.
const THREAD: &str = "mq-allocate";

/// Number of bytes that are warmed ahead of the writer: 10 ms at the speed of memory. They cost
/// memory and, with SYNC_FLUSH, a write of zeros, so an idle log should not have more of them.
const WARM_BYTES: u64 = 16 << 20;

/// The thread creates the next file when the writer has filled 1/8 of the current one. A roll then
/// waits for the disk only if the disk needs longer than the other 7/8 take to fill.
const PREPARE_AFTER: u64 = 8;
/// The thread gives the next file its final name when the last 1/4 of the current file begins.
const NAME_BEFORE: u64 = 4;

/// The running thread; dropping it stops the thread and discards the prepared file.
pub struct Allocator {
    segments: Arc<Segments>,
    prealloc: Arc<Preallocation>,
    thread: Option<JoinHandle<()>>,
}

impl Allocator {
    /// Starts the thread that works ahead of `writer`. A round that panics is noted in `services`.
    pub fn start(writer: &Writer, services: &Arc<Services>) -> io::Result<Self> {
        let segments = Arc::clone(writer.segments());
        let prealloc = Arc::clone(writer.prealloc());
        // The thread prepares the first file of an empty log at once. For any other log it waits
        // until the writer needs something.
        let mut state = prealloc.state.lock();
        (state.is_awake, state.is_running) = (segments.last().is_none(), true);
        // An earlier thread may have set a later offset, for a file that its end discarded.
        prealloc.wake_at.store(0, Ordering::Relaxed);
        drop(state);
        let worker = Worker {
            segments: Arc::clone(&segments),
            prealloc: Arc::clone(&prealloc),
            step: writer.step(),
            services: Arc::clone(services),
        };
        let thread = thread::Builder::new().name(THREAD.into());
        let thread = Some(thread.spawn(move || worker.run())?);
        Ok(Self {
            segments,
            prealloc,
            thread,
        })
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.prealloc.state.lock().is_running = false;
        self.prealloc.for_thread.notify_one();
        self.prealloc.tell(None);
        if let Some(thread) = self.thread.take() {
            // A panic does not end this thread: `Services::round` catches it.
            let _ = thread.join();
        }
        let mut state = self.prealloc.state.lock();
        let Some(start) = state.prepared.take().map(|prepared| prepared.start()) else {
            return;
        };
        let files = self.segments.files();
        let removed = match std::mem::take(&mut state.is_named) {
            true => files.remove(start),
            false => files.discard(start),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, start, "could not remove the prepared log file; it is unused");
        }
    }
}

struct Worker {
    segments: Arc<Segments>,
    prealloc: Arc<Preallocation>,
    /// Number of bytes for which blocks are reserved at a time.
    step: u64,
    services: Arc<Services>,
}

impl Worker {
    fn run(&self) {
        while self.wait() {
            let failure = self.work_or_say_why().err();
            if let Some(error) = &failure {
                // The writer gets the same error when it needs the file or the blocks.
                tracing::warn!(%error, "could not prepare room in the log; appends may fail");
            }
            self.prealloc.tell(failure);
        }
    }

    /// Turns a panic into an error: the thread keeps running, and the writer gets the error.
    fn work_or_say_why(&self) -> io::Result<()> {
        let round = self.services.round(THREAD, || self.work());
        round.unwrap_or_else(|reason| Err(io::Error::other(reason)))
    }

    /// Waits until the writer wakes the thread; false if the thread should stop.
    fn wait(&self) -> bool {
        let mut state = self.prealloc.state.lock();
        while !state.is_awake && state.is_running {
            self.prealloc.for_thread.wait(&mut state);
        }
        state.is_awake = false;
        state.is_running
    }

    fn work(&self) -> io::Result<()> {
        let Some(last) = self.segments.last() else {
            self.prepare(self.segments.appended())?;
            return self.name(false);
        };
        let prepare_at = last.start() + last.length() / PREPARE_AFTER;
        let name_at = last.end() - last.length() / NAME_BEFORE;
        let mut next = None;
        let position = loop {
            let position = self.segments.appended().max(last.start());
            // The thread creates the file first, long before the writer needs it: the disk may be
            // slow.
            if position >= prepare_at || self.prealloc.state.lock().is_asked {
                next = self.prepare(last.end())?.or(next);
                self.name(position >= name_at)?;
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
        for place in [prepare_at, name_at] {
            if position < place {
                wake_at = wake_at.min(place);
            }
        }
        self.prealloc.wake_at.store(wake_at, Ordering::Relaxed);
        if self.segments.appended() >= wake_at {
            // The writer passed `wake_at` before it was set, so it did not wake the thread.
            self.prealloc.state.lock().is_awake = true;
        }
        Ok(())
    }

    /// Prepares one piece of a file for a writer at `position`; false if enough is prepared.
    fn make_ready(&self, segment: &Segment, position: u64) -> io::Result<bool> {
        if !segment.is_writable() {
            return Ok(false); // It is full and retired; the next file comes with the next bytes.
        }
        let position = position.max(segment.start());
        if segment.reserved() < (position + self.step / 2).min(segment.end()) {
            segment.reserve_to((position + self.step).min(segment.end()))?;
        }
        let piece = segment.disk().warm_pace().piece_bytes;
        let is_enough = position + WARM_BYTES < (segment.ready() + piece).min(segment.end());
        let is_more = !is_enough && segment.warm(piece)?;
        self.prealloc.tell(None);
        Ok(is_more)
    }

    /// Creates the file that starts at `start`, without warming it; None if it exists already.
    fn prepare(&self, start: u64) -> io::Result<Option<Arc<Segment>>> {
        let is_rolled = self.segments.last().is_some_and(|last| last.end() != start);
        let is_made = |state: &State| state.prepared.is_some() || start < state.next_start;
        if is_rolled || is_made(&self.prealloc.state.lock()) {
            return Ok(None);
        }
        let size = self.segments.file_size();
        let disk = self.segments.files().prepare(start, size)?;
        let segment = Arc::new(Segment::new(start, size, disk, true));
        segment.reserve_to((start + self.step).min(segment.end()))?;
        self.prealloc.state.lock().prepared = Some(Arc::clone(&segment));
        Ok(Some(segment))
    }

    /// Gives the prepared file its final name if the writer `is_near` its start or waits for it.
    /// The writer does not rename files itself, because every append would wait for the disk.
    fn name(&self, is_near: bool) -> io::Result<()> {
        let state = self.prealloc.state.lock();
        let is_due = !state.is_named && (is_near || state.is_asked);
        let prepared = state.prepared.as_ref().filter(|_| is_due);
        let Some(start) = prepared.map(|prepared| prepared.start()) else {
            return Ok(());
        };
        drop(state);
        self.segments.files().publish(start)?;
        self.prealloc.state.lock().is_named = true;
        self.prealloc.tell(None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::WriteError;
    use crate::testing::{Kind, TestDisk};
    use mq_base::clock::SystemClock;

    const SIZE: u64 = 64 << 10;

    struct Rig {
        writer: Writer,
        allocator: Allocator,
        disk: TestDisk,
    }

    /// Creates a log on a disk that can be blocked. The next write makes the thread prepare a file.
    fn rig() -> Rig {
        let disk = TestDisk::new();
        let segments = Arc::new(Segments::open(disk.files(), SIZE).unwrap());
        let mut writer = Writer::new(segments, 16 << 10, SystemClock::shared());
        let allocator = Allocator::start(&writer, &Arc::default()).unwrap();
        write(&mut writer, SIZE / PREPARE_AFTER - 1_000);
        Rig {
            writer,
            allocator,
            disk,
        }
    }

    fn write(writer: &mut Writer, count: u64) {
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

    /// A slave's file may be full, and retired by a flush, before the next bytes come.
    #[test]
    fn a_full_file_that_is_retired_needs_no_room() {
        let disk = TestDisk::new();
        let segments = Arc::new(Segments::open(disk.files(), SIZE).unwrap());
        let clock = SystemClock::shared();
        let mut writer = Writer::new(Arc::clone(&segments), 16 << 10, clock);
        let worker = Worker {
            segments: Arc::clone(&segments),
            prealloc: Arc::clone(writer.prealloc()),
            step: writer.step(),
            services: Arc::default(),
        };
        writer.write_copy(&[7; SIZE as usize]).unwrap();
        segments.retire_before(SIZE).unwrap();
        worker.work().unwrap();
        writer.write_copy(&[8; 100]).unwrap();
        assert_eq!(segments.max_offset(), SIZE + 100);
    }

    #[test]
    fn a_roll_does_not_wait_for_a_disk_that_hangs() {
        let mut rig = rig();
        write(&mut rig.writer, 2_000);
        let prealloc = Arc::clone(rig.writer.prealloc());
        until("the next file is prepared and warm", || {
            let state = prealloc.state.lock();
            let prepared = state.prepared.as_ref();
            prepared.is_some_and(|next| next.ready() >= next.start() + (16 << 10))
        });
        write(&mut rig.writer, SIZE - SIZE / NAME_BEFORE);
        until("it has its name", || prealloc.state.lock().is_named);
        let segments = Arc::clone(rig.writer.segments());
        until("this file is ready", || {
            segments.last().is_some_and(|last| last.ready() == SIZE)
        });
        rig.disk.hook.gate(Kind::Room).close();
        rig.disk.hook.gate(Kind::Name).close();
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
        rig.disk.hook.gate(Kind::Room).open();
        rig.disk.hook.gate(Kind::Name).open();
        writing.join().unwrap();
        drop(rig.allocator);
    }

    #[test]
    fn a_roll_gives_up_while_the_next_file_has_no_name() {
        let mut rig = rig();
        rig.disk.hook.gate(Kind::Name).close();
        write(&mut rig.writer, 2_000);
        let error = rig.writer.roll(&[&[0; 8]]).unwrap_err();
        assert!(matches!(error, WriteError::NotReady), "{error}");
        let stall = rig.writer.stall();
        assert!(stall.is_on());
        rig.disk.hook.gate(Kind::Name).open();
        let prealloc = Arc::clone(rig.writer.prealloc());
        until("it has its name", || prealloc.state.lock().is_named);
        rig.writer.roll(&[&[0; 8]]).unwrap();
        drop(rig.allocator);
        let left: Vec<_> = rig.disk.files().list().unwrap();
        assert_eq!(left.len(), 2);
    }

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Creates a rig whose next file does not appear, and whose last file has some room left.
    fn stalled() -> Rig {
        let mut rig = rig();
        let segments = Arc::clone(rig.writer.segments());
        until("there is room", || {
            segments
                .last()
                .is_some_and(|last| last.ready() > SIZE / PREPARE_AFTER + 2_000)
        });
        rig.disk.hook.gate(Kind::Room).close();
        write(&mut rig.writer, 2_000);
        rig
    }

    #[test]
    fn a_roll_gives_up_while_the_next_file_is_missing() {
        let mut rig = stalled();
        let (position, stall) = (rig.writer.position(), rig.writer.stall());
        for _ in 0..3 {
            let error = rig.writer.roll(&[&[0; 8]]).unwrap_err();
            assert!(matches!(error, WriteError::NotReady), "{error}");
            assert!(stall.is_on());
        }
        assert!(stall.lasts_ms() < 5_000);
        assert!(!stall.wait(Duration::ZERO));
        assert_eq!(rig.writer.position(), position);
        rig.disk.hook.gate(Kind::Room).open();
        assert!(stall.wait(PATIENCE), "the stall ends with the file");
        until("it rolls", || rig.writer.prealloc().state.lock().is_named);
        rig.writer.roll(&[&[0; 8]]).unwrap();
        assert_eq!(rig.writer.position(), SIZE);
        assert_eq!(stall.lasts_ms(), 0);
        drop(rig.allocator);
    }

    #[test]
    fn a_write_gives_up_while_blocks_are_missing() {
        let disk = TestDisk::new();
        let gate = disk.hook.gate(Kind::Room);
        let segments = Arc::new(Segments::open(disk.files(), 1 << 20).unwrap());
        let mut writer = Writer::new(Arc::clone(&segments), 16 << 10, SystemClock::shared());
        writer.write(&[b"first"]).unwrap();
        gate.close();
        let allocator = Allocator::start(&writer, &Arc::default()).unwrap();
        let last = segments.last().unwrap();
        let warming = last.hold_still();
        let record = vec![7; last.ready() as usize];
        let error = writer.write(&[&record]).unwrap_err();
        assert!(matches!(error, WriteError::NotReady), "{error}");
        assert!(writer.stall().is_on());
        drop(warming);
        gate.open();
        assert!(writer.stall().wait(PATIENCE));
        writer.write(&[&record]).unwrap();
        drop(allocator);
    }

    #[test]
    fn the_end_of_the_thread_ends_the_stall() {
        let mut rig = stalled();
        let stall = rig.writer.stall();
        rig.writer.roll(&[&[0; 8]]).unwrap_err();
        let waiting = thread::spawn(move || stall.wait(PATIENCE));
        rig.disk.hook.gate(Kind::Room).open();
        drop(rig.allocator);
        assert!(waiting.join().unwrap());
        assert_eq!(rig.disk.hook.gate(Kind::Room).waiting(), 0);
    }

    #[test]
    fn the_first_write_wakes_a_thread_that_was_started_again() {
        let mut rig = rig();
        write(&mut rig.writer, 2_000);
        let prealloc = Arc::clone(rig.writer.prealloc());
        let is_prepared = || prealloc.state.lock().prepared.is_some();
        until("the next file is prepared", is_prepared);
        let position = rig.writer.position();
        until("the thread sleeps until much more is written", || {
            let wake_at = prealloc.wake_at.load(Ordering::Relaxed);
            (position + 1_000..u64::MAX).contains(&wake_at)
        });
        drop(rig.allocator);
        assert!(!is_prepared());
        let allocator = Allocator::start(&rig.writer, &Arc::default()).unwrap();
        write(&mut rig.writer, 1_000);
        until("the next file is prepared again", is_prepared);
        drop(allocator);
    }

    #[test]
    fn a_failure_ends_the_stall_and_fails_the_next_attempt() {
        const ENOSPC: i32 = 28;
        let disk = TestDisk::new();
        let gate = disk.hook.gate(Kind::Room);
        let segments = Arc::new(Segments::open(disk.files(), SIZE).unwrap());
        let mut writer = Writer::new(segments, 16 << 10, SystemClock::shared());
        gate.close();
        let allocator = Allocator::start(&writer, &Arc::default()).unwrap();
        let error = writer.write(&[b"first"]).unwrap_err();
        assert!(matches!(error, WriteError::NotReady), "{error}");
        disk.hook.fail(Kind::Room, ENOSPC);
        gate.open();
        assert!(writer.stall().wait(PATIENCE));
        let error = writer.write(&[b"first"]).unwrap_err();
        let is_full = |error: &io::Error| error.raw_os_error() == Some(ENOSPC);
        assert!(
            matches!(&error, WriteError::NoRoom(cause) if is_full(cause)),
            "{error}"
        );
        disk.hook.repair();
        writer.write(&[b"first"]).unwrap();
        drop(allocator);
    }
}
