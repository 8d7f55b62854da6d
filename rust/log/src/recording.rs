//! Disks that write down what reaches them, for tests of the order of things.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{Access, Disk, FileInfo, Files};

/// Something that changed a file. Offsets are bytes from the start of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file got its name.
    Publish(u64),
    /// A file was removed.
    Remove(u64),
    /// Bytes were written to `[from, to)`.
    Write(u64, u64),
    /// `[from, to)` became zeros.
    Zero(u64, u64),
    /// `[from, to)` became durable.
    Sync(u64, u64),
    /// The disk was to begin with `[from, to)`.
    BeginSync(u64, u64),
}

/// A file set that records [`Event`]s.
#[derive(Debug, Clone, Default)]
pub struct Recording<F> {
    inner: F,
    events: Arc<Mutex<Vec<Event>>>,
}

/// A file of [`Recording`].
#[derive(Debug)]
pub struct RecordingDisk<D> {
    inner: D,
    start: u64,
    events: Arc<Mutex<Vec<Event>>>,
}

impl<F> Recording<F> {
    /// Wraps a file set.
    pub fn new(inner: F) -> Self {
        Self {
            inner,
            events: Arc::default(),
        }
    }

    /// What happened since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock())
    }

    fn wrap<D>(&self, inner: D, start: u64) -> RecordingDisk<D> {
        RecordingDisk {
            inner,
            start,
            events: Arc::clone(&self.events),
        }
    }
}

impl<F: Files> Files for Recording<F> {
    type Disk = RecordingDisk<F::Disk>;

    fn list(&self) -> io::Result<Vec<FileInfo>> {
        self.inner.list()
    }

    fn open(&self, start: u64, access: Access) -> io::Result<Self::Disk> {
        Ok(self.wrap(self.inner.open(start, access)?, start))
    }

    fn prepare(&self, start: u64, length: u64) -> io::Result<Self::Disk> {
        Ok(self.wrap(self.inner.prepare(start, length)?, start))
    }

    fn publish(&self, start: u64, disk: &Self::Disk) -> io::Result<()> {
        self.inner.publish(start, &disk.inner)?;
        self.events.lock().push(Event::Publish(start));
        Ok(())
    }

    fn discard(&self, start: u64) -> io::Result<()> {
        self.inner.discard(start)
    }

    fn remove(&self, start: u64) -> io::Result<()> {
        self.inner.remove(start)?;
        self.events.lock().push(Event::Remove(start));
        Ok(())
    }
}

impl<D: Disk> Disk for RecordingDisk<D> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, out)
    }

    fn read_at_nowait(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<usize>> {
        self.inner.read_at_nowait(offset, out)
    }

    fn write_at(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        self.inner.write_at(offset, slices)?;
        let count: usize = slices.iter().map(|slice| slice.len()).sum();
        let from = self.start + offset;
        self.events
            .lock()
            .push(Event::Write(from, from + count as u64));
        Ok(())
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.inner.allocate(from, to)
    }

    fn warm(&self, from: u64, to: u64) -> io::Result<()> {
        self.inner.warm(from, to)
    }

    fn zero(&self, from: u64, to: u64) -> io::Result<()> {
        self.inner.zero(from, to)?;
        self.events
            .lock()
            .push(Event::Zero(self.start + from, self.start + to));
        Ok(())
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        self.inner.sync(from, to)?;
        self.events
            .lock()
            .push(Event::Sync(self.start + from, self.start + to));
        Ok(())
    }

    fn begin_sync(&self, from: u64, to: u64) {
        self.inner.begin_sync(from, to);
        self.events
            .lock()
            .push(Event::BeginSync(self.start + from, self.start + to));
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}
