//! Errors of bytes that are not a record.

use thiserror::Error;

use crate::bytes::CursorError;

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The buffer ends before the record does.
    #[error("record of {needed} bytes, {available} available")]
    Incomplete {
        /// Bytes of the record.
        needed: usize,
        /// Bytes given.
        available: usize,
    },
    /// Neither a record nor a blank record starts here (zeros, at the end of the log).
    #[error("magic {0:#010x} is neither a record's nor a filler's")]
    Magic(i32),
    /// The blank record that ends a file.
    #[error("end-of-file filler")]
    Blank,
    /// A field does not fit into the record.
    #[error(transparent)]
    Field(#[from] CursorError),
    /// The total size disagrees with the lengths of the fields.
    #[error("total size {total} but the fields have {computed} bytes")]
    Size {
        /// The TOTALSIZE field.
        total: usize,
        /// Sum of the lengths of the fields.
        computed: usize,
    },
    /// The body does not match its checksum.
    #[error("body CRC {computed} but the record says {stored}")]
    BodyCrc {
        /// The BODYCRC field.
        stored: u32,
        /// Checksum of the bytes found.
        computed: u32,
    },
    /// The topic is not UTF-8.
    #[error("topic is not UTF-8")]
    Topic,
}
