//! Files in memory that remember what a crash would leave.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::disk::{Access, Disk, FileInfo, Files};

/// A file in memory: what readers see, and what was synced.
#[derive(Debug, Clone)]
pub struct MemoryDisk {
    content: Arc<Mutex<Content>>,
    durability: Arc<Durability>,
}

/// How many syncs there were, and how many of them count.
#[derive(Debug)]
struct Durability {
    syncs: AtomicUsize,
    limit: AtomicUsize,
}

#[derive(Debug, Clone)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
}

/// A set of files in memory. Clones share the files.
#[derive(Debug, Clone)]
pub struct Memory {
    published: Arc<Mutex<BTreeMap<u64, MemoryDisk>>>,
    durability: Arc<Durability>,
}

impl Default for Memory {
    fn default() -> Self {
        let limit = AtomicUsize::new(usize::MAX);
        let durability = Durability {
            syncs: AtomicUsize::new(0),
            limit,
        };
        Self {
            published: Arc::default(),
            durability: Arc::new(durability),
        }
    }
}

impl Memory {
    /// The files a crash would leave now: only synced bytes. Names are durable at once.
    pub fn after_crash(&self) -> Self {
        let crashed = Self::default();
        for (start, disk) in self.published.lock().iter() {
            let durable = disk.content.lock().durable.clone();
            let content = Content {
                live: durable.clone(),
                durable,
            };
            let durability = Arc::clone(&crashed.durability);
            let disk = MemoryDisk {
                content: Arc::new(Mutex::new(content)),
                durability,
            };
            crashed.published.lock().insert(*start, disk);
        }
        crashed
    }

    /// Lets only the first `limit` syncs count; later ones say that all is well and keep nothing.
    pub fn freeze_after(&self, limit: usize) {
        self.durability.limit.store(limit, Ordering::SeqCst);
    }

    /// Syncs so far, whether they count or not.
    pub fn syncs(&self) -> usize {
        self.durability.syncs.load(Ordering::SeqCst)
    }
}

impl Files for Memory {
    type Disk = MemoryDisk;

    fn list(&self) -> io::Result<Vec<FileInfo>> {
        let published = self.published.lock();
        let info = |(start, disk): (&u64, &MemoryDisk)| {
            Ok(FileInfo {
                start: *start,
                length: disk.len()?,
            })
        };
        published.iter().map(info).collect()
    }

    fn open(&self, start: u64, _access: Access) -> io::Result<MemoryDisk> {
        self.published
            .lock()
            .get(&start)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn prepare(&self, _start: u64, length: u64) -> io::Result<MemoryDisk> {
        let zeros = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        let content = Content {
            live: zeros.clone(),
            durable: zeros,
        };
        let durability = Arc::clone(&self.durability);
        Ok(MemoryDisk {
            content: Arc::new(Mutex::new(content)),
            durability,
        })
    }

    fn publish(&self, start: u64, disk: &MemoryDisk) -> io::Result<()> {
        self.published.lock().insert(start, disk.clone());
        Ok(())
    }

    fn discard(&self, _start: u64) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, start: u64) -> io::Result<()> {
        let removed = self.published.lock().remove(&start);
        removed
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for MemoryDisk {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let content = self.content.lock();
        let rest = content.live.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn read_at_nowait(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<usize>> {
        self.read_at(offset, out).map(Some)
    }

    fn write_at(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        let mut content = self.content.lock();
        let mut at = offset as usize;
        for slice in slices {
            let target = content.live.get_mut(at..at + slice.len());
            target
                .ok_or(io::ErrorKind::InvalidInput)?
                .copy_from_slice(slice);
            at += slice.len();
        }
        Ok(())
    }

    fn allocate(&self, _from: u64, _to: u64) -> io::Result<()> {
        Ok(())
    }

    fn warm(&self, _from: u64, _to: u64) -> io::Result<()> {
        Ok(())
    }

    fn zero(&self, from: u64, to: u64) -> io::Result<()> {
        self.content.lock().live[from as usize..to as usize].fill(0);
        Ok(())
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        let before = self.durability.syncs.fetch_add(1, Ordering::SeqCst);
        if before < self.durability.limit.load(Ordering::SeqCst) {
            let mut content = self.content.lock();
            let Content { live, durable } = &mut *content;
            let range = from as usize..to as usize;
            durable[range.clone()].copy_from_slice(&live[range]);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().live.len() as u64)
    }
}
