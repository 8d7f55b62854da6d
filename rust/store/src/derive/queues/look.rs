//! Reads the ends of a queue's files at a start.

use std::io;

use super::queue_files::{QueueFiles, is_zero};
use crate::files::{io_error, offset_files};
use crate::types::StoreError;
use mq_format::consume_queue::ENTRY_BYTES;

/// Bytes of the first read of a file, and most bytes kept of a queue: whole entries.
pub(crate) const LOOK_BYTES: usize = 4_096 - 4_096 % ENTRY_BYTES;

/// The result of one read of a file.
pub(crate) struct Look {
    /// The first bytes of the file.
    pub bytes: Vec<u8>,
    /// Whether all later bytes are zero.
    pub is_rest_zero: bool,
}

/// Contents of the files after a position.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rest {
    /// There are non-zero bytes.
    pub has_bytes: bool,
    /// There are files that start after the position.
    pub has_files: bool,
}

impl QueueFiles {
    /// Reads the start of a file. The rest is not read if the file system reports it as a hole.
    pub(crate) fn look(&self, start: u64) -> io::Result<Look> {
        let file = self.open_once(start)?;
        let length = usize::try_from(self.file_bytes).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(4_096)];
        file.read_exact_at(&mut bytes, 0)?;
        let after = bytes.split_off(length.min(LOOK_BYTES));
        let is_rest_zero = after.iter().all(|byte| *byte == 0)
            && is_zero(&file, (bytes.len() + after.len()) as u64, self.file_bytes)?;
        Ok(Look {
            bytes,
            is_rest_zero,
        })
    }

    /// Reads the contents of the files from a position on.
    pub(crate) fn rest(&self, position: u64) -> Result<Rest, StoreError> {
        let mut rest = Rest::default();
        for file in offset_files(&self.directory)? {
            let end = file.offset + file.bytes;
            if end <= position {
                continue;
            }
            rest.has_files |= file.offset > position;
            let from = position.saturating_sub(file.offset);
            let is_zero = self
                .open(file.offset)
                .and_then(|open| is_zero(&open, from, file.bytes));
            rest.has_bytes |= !is_zero.map_err(io_error(&file.path))?;
        }
        Ok(rest)
    }
}
