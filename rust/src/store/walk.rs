//! Going through the log record by record.

use std::io;

use crate::format::message::{BLANK_BYTES, Head};
use crate::log::{Files, Segments};

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// No record is believed to be longer; RocketMQ's default limit is 4 MiB and 64 KiB.
pub(crate) const RECORD_BYTES_MAX: usize = 256 << 20;

/// Bytes of a log by offset: a broker's own log, or a directory someone else may be writing.
pub(crate) trait LogRead: Send + Sync {
    /// Offset of the first byte.
    fn min_offset(&self) -> u64;
    /// Offset behind the last byte that may be read.
    fn max_offset(&self) -> u64;
    /// Where the file after the one that holds `offset` starts.
    fn next_file_start(&self, offset: u64) -> u64;
    /// Reads what lies in one file, as much as fits; 0 outside the log.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;

    /// Where from `offset` on the first byte lies that is not known to be zero, or the next file
    /// starts.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }

    /// Says that a range of one file is about to be read; only a hint.
    fn will_read(&self, _from: u64, _to: u64) {}
}

impl<F: Files> LogRead for Segments<F> {
    fn min_offset(&self) -> u64 {
        Self::min_offset(self)
    }

    fn max_offset(&self) -> u64 {
        Self::max_offset(self)
    }

    fn next_file_start(&self, offset: u64) -> u64 {
        Self::next_file_start(self, offset)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        Self::read_at(self, offset, out)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Self::next_data(self, offset)
    }

    fn will_read(&self, from: u64, to: u64) {
        Self::will_read(self, from, to);
    }
}

/// What was found at a place in the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// The bytes of something as long as its size field says, with a record's magic.
    Record(&'a [u8]),
    /// The filler that ends a file; the walk goes on in the next file.
    Blank,
    /// Neither: the end of what was written, or damage. The walk stays here.
    Neither,
    /// The limit is reached.
    End,
}

/// A place in the log that moves on. Holds one chunk of bytes.
#[derive(Debug)]
pub(crate) struct Walk {
    at: u64,
    /// Grows only, so that it need not be cleared for each read.
    buffer: Vec<u8>,
    /// How much of the buffer was read.
    filled: usize,
    /// Offset of the buffer's first byte.
    buffered_from: u64,
    /// Where the file behind the one that holds `at` starts; not above `at` where that is unknown.
    next_file: u64,
}

impl Walk {
    /// A walk that starts at `offset`.
    pub(crate) fn from(offset: u64) -> Self {
        Self {
            at: offset,
            buffer: Vec::new(),
            filled: 0,
            buffered_from: offset,
            next_file: offset,
        }
    }

    /// Where the next step starts.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    /// Looks at the next place below `limit` and moves behind it.
    pub(crate) fn step(&mut self, log: &impl LogRead, limit: u64) -> io::Result<Step<'_>> {
        if self.at >= limit {
            return Ok(Step::End);
        }
        if self.at >= self.next_file {
            self.next_file = log.next_file_start(self.at);
        }
        let end = self.next_file.min(limit);
        match Head::parse(self.bytes(log, BLANK_BYTES, end)?) {
            Head::Blank => {
                self.at = self.next_file;
                Ok(Step::Blank)
            }
            Head::Record(size) if size <= RECORD_BYTES_MAX && self.at + size as u64 <= end => {
                let offset = self.at;
                if self.bytes(log, size, end)?.len() < size {
                    return Ok(Step::Neither);
                }
                self.at += size as u64;
                let from = usize::try_from(offset - self.buffered_from).unwrap_or(usize::MAX);
                Ok(Step::Record(&self.buffer[from..from + size]))
            }
            Head::Record(_) | Head::Neither => Ok(Step::Neither),
        }
    }

    /// Throws away what was read, because the log may have changed since.
    pub(crate) fn forget(&mut self) {
        self.filled = 0;
        self.buffered_from = self.at;
        self.next_file = self.at;
    }

    /// The next `count` bytes below `end`, or fewer where the file has no more.
    fn bytes(&mut self, log: &impl LogRead, count: usize, end: u64) -> io::Result<&[u8]> {
        let skipped = usize::try_from(self.at - self.buffered_from).unwrap_or(usize::MAX);
        if self.filled.saturating_sub(skipped) < count {
            let room = usize::try_from(end - self.at).unwrap_or(usize::MAX);
            self.read(log, room.min(count.max(CHUNK_BYTES)))?;
            return Ok(&self.buffer[..count.min(self.filled)]);
        }
        Ok(&self.buffer[skipped..skipped + count])
    }

    /// Reads so many bytes from `at` on, or fewer where the file has no more.
    fn read(&mut self, log: &impl LogRead, count: usize) -> io::Result<()> {
        if self.buffer.len() < count {
            self.buffer.resize(count, 0);
        }
        self.filled = 0;
        self.buffered_from = self.at;
        self.filled = log.read_at(self.at, &mut self.buffer[..count])?;
        Ok(())
    }
}
