//! Disks that fail when told to.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{Access, Disk, FileInfo, Files};

/// Which calls fail from now on, by raw error number; None lets them through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// `allocate`, and `prepare` of a new file.
    pub allocate: Option<i32>,
    /// `write_at`.
    pub write: Option<i32>,
    /// `sync`.
    pub sync: Option<i32>,
    /// `read_at` and `read_at_nowait`.
    pub read: Option<i32>,
}

/// A file set whose calls fail as [`Faults`] say.
#[derive(Debug, Clone, Default)]
pub struct Faulting<F> {
    inner: F,
    faults: Arc<Mutex<Faults>>,
}

/// A file of [`Faulting`].
#[derive(Debug)]
pub struct FaultingDisk<D> {
    inner: D,
    faults: Arc<Mutex<Faults>>,
}

impl<F> Faulting<F> {
    /// Wraps a file set; nothing fails yet.
    pub fn new(inner: F) -> Self {
        Self {
            inner,
            faults: Arc::default(),
        }
    }

    /// Decides what fails from now on, also in files that are open.
    pub fn set(&self, faults: Faults) {
        *self.faults.lock() = faults;
    }

    fn wrap<D>(&self, inner: D) -> FaultingDisk<D> {
        FaultingDisk {
            inner,
            faults: Arc::clone(&self.faults),
        }
    }
}

fn fail(fault: Option<i32>) -> io::Result<()> {
    fault.map_or(Ok(()), |error_number| {
        Err(io::Error::from_raw_os_error(error_number))
    })
}

impl<F: Files> Files for Faulting<F> {
    type Disk = FaultingDisk<F::Disk>;

    fn list(&self) -> io::Result<Vec<FileInfo>> {
        self.inner.list()
    }

    fn open(&self, start: u64, access: Access) -> io::Result<Self::Disk> {
        Ok(self.wrap(self.inner.open(start, access)?))
    }

    fn prepare(&self, start: u64, length: u64) -> io::Result<Self::Disk> {
        fail(self.faults.lock().allocate)?;
        Ok(self.wrap(self.inner.prepare(start, length)?))
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

impl<D: Disk> Disk for FaultingDisk<D> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        fail(self.faults.lock().read)?;
        self.inner.read_at(offset, out)
    }

    fn read_at_nowait(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<usize>> {
        fail(self.faults.lock().read)?;
        self.inner.read_at_nowait(offset, out)
    }

    fn write_at(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        fail(self.faults.lock().write)?;
        self.inner.write_at(offset, slices)
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        fail(self.faults.lock().allocate)?;
        self.inner.allocate(from, to)
    }

    fn warm(&self, from: u64, to: u64) -> io::Result<()> {
        self.inner.warm(from, to)
    }

    fn zero(&self, from: u64, to: u64) -> io::Result<()> {
        fail(self.faults.lock().write)?;
        self.inner.zero(from, to)
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        fail(self.faults.lock().sync)?;
        self.inner.sync(from, to)
    }

    fn begin_sync(&self, from: u64, to: u64) {
        self.inner.begin_sync(from, to);
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}
