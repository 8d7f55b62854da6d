//! Limits on a header from an untrusted sender.

use super::FrameError;

/// A longer header must be UTF-8, bytes: replacing other bytes needs several times its memory.
const REPLACED_BYTES_MAX: usize = 64 << 10;

/// Limits of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Largest size of the header on the wire, bytes.
    pub bytes: usize,
    /// Largest number of named fields. The properties of a message count as one field.
    pub fields: usize,
}

impl HeaderLimits {
    /// No limit other than the frame size: for replies that a client requested from its server.
    pub const NONE: Self = Self {
        bytes: usize::MAX,
        fields: usize::MAX,
    };

    /// Checks the header length in the first eight bytes of a frame as soon as they have arrived,
    /// so that no part of a header that is too long is kept.
    ///
    /// # Errors
    /// `FrameError::HeaderBytes` when the header is longer than `bytes`.
    pub fn check_start(self, frame: &[u8]) -> Result<(), FrameError> {
        match frame.get(5..8) {
            Some(&[a, b, c]) => self.check_bytes(u32::from_be_bytes([0, a, b, c]) as usize),
            _ => Ok(()),
        }
    }

    pub(super) fn check_bytes(self, header: usize) -> Result<(), FrameError> {
        let limit = self.bytes;
        match header <= limit {
            true => Ok(()),
            false => Err(FrameError::HeaderBytes { header, limit }),
        }
    }
}

/// Checks a number of fields.
pub(super) fn check_fields(count: usize, limit: usize) -> Result<(), FrameError> {
    match count <= limit {
        true => Ok(()),
        false => Err(FrameError::HeaderFields { limit }),
    }
}

/// Checks the length of a header that is not UTF-8.
pub(super) fn check_replaced(header: usize) -> Result<(), FrameError> {
    let limit = REPLACED_BYTES_MAX;
    match header <= limit {
        true => Ok(()),
        false => Err(FrameError::HeaderText { header, limit }),
    }
}
