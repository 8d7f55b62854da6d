//! Bytes of a file that are in memory, looked at where they are.

use std::any::Any;
use std::sync::Arc;

/// Bytes of a file of the log, which stays mapped as long as this is there.
#[derive(Debug)]
pub struct View {
    bytes: *const [u8],
    /// Who lent them.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the bytes are only read, and their owner may be let go of by any thread.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// What `lend` gives of the owner.
    pub(super) fn of<T: Send + Sync + 'static>(
        owner: &Arc<T>,
        lend: impl FnOnce(&T) -> Option<&[u8]>,
    ) -> Option<Self> {
        let bytes: *const [u8] = lend(owner)?;
        Some(Self {
            bytes,
            _owner: Arc::clone(owner) as Arc<dyn Any + Send + Sync>,
        })
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: lent by a shared borrow of the owner, of which nobody gets another kind while
        // this holds it.
        unsafe { &*self.bytes }
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
