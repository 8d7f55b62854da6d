//! Files on a disk that hangs when told to: for tests.

use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::disk::{Access, Disk, FileInfo, Files};

/// Calls that wait while it is closed.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    waiting: usize,
    passed: usize,
}

impl Gate {
    /// Lets nobody through from now on.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
    }

    /// Lets everybody through.
    pub fn open(&self) {
        self.state.lock().is_closed = false;
        self.changed.notify_all();
    }

    /// Calls that hang at it now.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Calls that went through.
    pub fn passed(&self) -> usize {
        self.state.lock().passed
    }

    /// Goes through, once the gate is open.
    pub fn pass(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.is_closed {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
        state.passed += 1;
    }
}

/// The gates of a file set.
#[derive(Debug, Default)]
pub struct Gates {
    /// Before a sync.
    pub sync: Gate,
    /// Before the beginning of one.
    pub begin_sync: Gate,
    /// Before a new file is made, blocks are reserved, or pages are warmed.
    pub prepare: Gate,
}

/// A file set behind gates. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Gated<F> {
    inner: F,
    /// What a test closes and opens.
    pub gates: Arc<Gates>,
}

/// A file of [`Gated`].
#[derive(Debug)]
pub struct GatedDisk<D> {
    inner: D,
    gates: Arc<Gates>,
}

impl<F> Gated<F> {
    /// Wraps a file set, all gates open.
    pub fn new(inner: F) -> Self {
        let gates = Arc::default();
        Self { inner, gates }
    }

    fn wrap<D>(&self, inner: D) -> GatedDisk<D> {
        let gates = Arc::clone(&self.gates);
        GatedDisk { inner, gates }
    }
}

impl<F: Files> Files for Gated<F> {
    type Disk = GatedDisk<F::Disk>;

    fn list(&self) -> io::Result<Vec<FileInfo>> {
        self.inner.list()
    }

    fn open(&self, start: u64, access: Access) -> io::Result<Self::Disk> {
        self.inner.open(start, access).map(|disk| self.wrap(disk))
    }

    fn prepare(&self, start: u64, length: u64) -> io::Result<Self::Disk> {
        self.gates.prepare.pass();
        self.inner
            .prepare(start, length)
            .map(|disk| self.wrap(disk))
    }

    fn publish(&self, start: u64, disk: &Self::Disk) -> io::Result<()> {
        self.inner.publish(start, &disk.inner)
    }

    fn discard(&self, start: u64) -> io::Result<()> {
        self.inner.discard(start)
    }

    fn remove(&self, start: u64) -> io::Result<()> {
        self.inner.remove(start)
    }
}

impl<D: Disk> Disk for GatedDisk<D> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, out)
    }

    fn read_at_nowait(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<usize>> {
        self.inner.read_at_nowait(offset, out)
    }

    fn write_at(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        self.inner.write_at(offset, slices)
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.gates.prepare.pass();
        self.inner.allocate(from, to)
    }

    fn warm(&self, from: u64, to: u64) -> io::Result<()> {
        self.gates.prepare.pass();
        self.inner.warm(from, to)
    }

    fn zero(&self, from: u64, to: u64) -> io::Result<()> {
        self.inner.zero(from, to)
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        self.gates.sync.pass();
        self.inner.sync(from, to)
    }

    fn begin_sync(&self, from: u64, to: u64) {
        self.gates.begin_sync.pass();
        self.inner.begin_sync(from, to);
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}
