//! Bytes of a file that are in memory, read in place without a copy.

use std::fmt;
use std::sync::Arc;

use super::segment::Segment;

/// Bytes of a file of the log, which stay mapped as long as this value lives.
pub struct View {
    bytes: *const [u8],
    /// Keeps the bytes mapped.
    owner: Arc<Segment>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

// SAFETY: the bytes are only read, and the owner is Send, so any thread may drop it.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// A view of `bytes`, which `owner` keeps mapped.
    ///
    /// # Safety
    ///
    /// The bytes must stay readable while `owner` lives, and no thread may write them in that time.
    pub(super) unsafe fn new(bytes: *const [u8], owner: Arc<Segment>) -> Self {
        Self { bytes, owner }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the owner, which this view holds, keeps the bytes mapped, and no thread writes
        // them, as the caller of `new` promised.
        unsafe { &*self.bytes }
    }

    /// Whether the bytes came from the file: a page that was lost to a failing disk or a truncation
    /// reads as zeros. Call this after using the bytes.
    pub fn is_whole(&self) -> bool {
        self.owner.disk().is_whole()
    }
}
