//! A whole frame, as handlers get it.

use bytes::Bytes;

/// A whole frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<'b> {
    pub bytes: &'b [u8],
    /// The same bytes, if the frame has its own memory; then `keep` need not copy.
    own: Option<&'b Bytes>,
}

impl<'b> Whole<'b> {
    /// A frame that shares its memory with other bytes.
    pub(crate) fn among(bytes: &'b [u8]) -> Self {
        Self { bytes, own: None }
    }

    /// A frame with its own memory.
    pub(crate) fn own(bytes: &'b Bytes) -> Self {
        Self {
            bytes,
            own: Some(bytes),
        }
    }

    /// Returns the frame in memory that the caller may keep.
    pub(crate) fn keep(self) -> Bytes {
        self.own
            .map_or_else(|| Bytes::copy_from_slice(self.bytes), Bytes::clone)
    }
}
