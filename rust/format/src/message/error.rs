//! Why bytes are not a record.

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
    /// Neither a record nor a filler starts here (zeros, at the end of the log).
    #[error("magic {0:#010x} is neither a record's nor a filler's")]
    Magic(i32),
    /// The filler that ends a file.
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
        /// What the fields add up to.
        computed: usize,
    },
    /// The body does not match its checksum.
    #[error("body CRC {computed} but the record says {stored}")]
    BodyCrc {
        /// The BODYCRC field.
        stored: u32,
        /// Of the bytes found.
        computed: u32,
    },
    /// The topic is not UTF-8.
    #[error("topic is not UTF-8")]
    Topic,
}
