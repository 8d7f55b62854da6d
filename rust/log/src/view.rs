//! Bytes of a file that are in memory, looked at where they are.

use std::fmt;
use std::sync::Arc;

/// Lends bytes of a file where they are mapped.
pub(super) trait Lender: Send + Sync {
    /// Whether the file still has every page that was looked at.
    fn is_whole(&self) -> bool;
}

/// Bytes of a file of the log, which stays mapped as long as this is there.
pub struct View {
    bytes: *const [u8],
    /// Keeps them mapped.
    owner: Arc<dyn Lender>,
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
    pub(super) unsafe fn new(bytes: *const [u8], owner: Arc<dyn Lender>) -> Self {
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
        self.owner.is_whole()
    }
}

/// Has the processor fetch the line of memory at `at` of `bytes`; a place outside does no harm.
#[inline]
pub fn prefetch(bytes: *const u8, at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing, and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(bytes.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}
