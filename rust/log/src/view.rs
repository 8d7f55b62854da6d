//! Bytes of a file that are in memory, looked at where they are.

use std::fmt;
use std::sync::Arc;

use super::segment::Segment;

/// Bytes of a file of the log, which stays mapped as long as this is there.
pub struct View {
    bytes: *const [u8],
    /// Keeps them mapped.
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
    /// The bytes stay readable while `owner` lives, and nobody writes them meanwhile.
    pub(super) unsafe fn new(bytes: *const [u8], owner: Arc<Segment>) -> Self {
        Self { bytes, owner }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the owner, which this view holds, keeps the bytes mapped, and nobody writes
        // them: so says the caller of `new`.
        unsafe { &*self.bytes }
    }

    /// Whether the bytes that were looked at are the file's: a page that a failing disk or a
    /// truncated file took away reads as zeros. Asked after they were used.
    pub fn is_whole(&self) -> bool {
        self.owner.disk().is_whole()
    }
}
