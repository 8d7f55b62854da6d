//! The last entries of a queue, kept in memory during a start. One open and one read of a file
//! serve all checks of the queue.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Most bytes kept of all queues; the other queues are read again.
const ALL_BYTES_MAX: usize = 64 << 20;

/// Bytes kept of all queues of a store.
#[derive(Debug, Default)]
pub struct KeptBytes(AtomicUsize);

/// The bytes kept of one file.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Option<Part>>);

#[derive(Debug)]
struct Part {
    position: u64,
    bytes: Box<[u8]>,
}

impl Kept {
    /// Fills `out` with the bytes at a position, if all of them are kept.
    pub(super) fn copy(&self, position: u64, out: &mut [u8]) -> bool {
        let part = self.0.lock();
        let Some(part) = part.as_ref() else {
            return false;
        };
        let from = position.checked_sub(part.position);
        let from = from.and_then(|from| usize::try_from(from).ok());
        let bytes = from.and_then(|from| part.bytes.get(from..)?.get(..out.len()));
        bytes.inspect(|bytes| out.copy_from_slice(bytes)).is_some()
    }

    /// Keeps the bytes at a position of a file, unless `all` is at its limit.
    pub(super) fn keep(&self, position: u64, bytes: &[u8], all: &KeptBytes) {
        self.forget(all);
        let all = &all.0;
        if bytes.is_empty() || all.load(Ordering::Relaxed) + bytes.len() > ALL_BYTES_MAX {
            return;
        }
        all.fetch_add(bytes.len(), Ordering::Relaxed);
        let bytes = bytes.into();
        *self.0.lock() = Some(Part { position, bytes });
    }

    /// Frees the memory.
    pub(super) fn forget(&self, all: &KeptBytes) {
        if let Some(part) = self.0.lock().take() {
            all.0.fetch_sub(part.bytes.len(), Ordering::Relaxed);
        }
    }
}
