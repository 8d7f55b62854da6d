//! Scans the log record by record.

use std::io;
use std::ops::Range;

use mq_format::message::{BLANK_BYTES, Head};
use mq_log::{Segments, View, prefetch};

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes viewed at once if they are in memory.
const VIEW_BYTES: usize = 1 << 20;
/// Most records returned together.
pub(crate) const GROUP: usize = 16;
/// Prefetch distance in records of the last one's length, and the bytes before and after a record
/// boundary that are prefetched: the end of a record with topic and properties, and the head of the
/// next one. Bodies are not read, and the CPU's own prefetcher only follows short strides.
const FETCHED_AHEAD: usize = 6;
const FETCHED_BEFORE: usize = 128;
const FETCHED_BEHIND: usize = 96;
const LINE_BYTES: usize = 64;
/// Longest plausible record; RocketMQ's default limit is 4 MiB and 64 KiB.
pub const RECORD_BYTES_MAX: usize = 256 << 20;

/// Bytes of a log by offset: a store's own log, or a directory that another process may be writing.
pub trait LogRead: Send + Sync {
    /// Offset of the first byte.
    fn min_offset(&self) -> u64;
    /// Offset after the last readable byte.
    fn max_offset(&self) -> u64;
    /// Start of the file after the one that holds `offset`.
    fn next_file_start(&self, offset: u64) -> u64;
    /// Reads from one file, as much as fits; returns 0 outside the log.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;

    /// The first offset from `offset` on whose byte may be non-zero, or the start of the next file.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }

    /// A view of at most this many bytes from `offset` on, if they can be read without a copy.
    fn view(&self, _offset: u64, _bytes: usize) -> Option<View> {
        None
    }

    /// Hints that a range of one file will be read soon.
    fn will_read(&self, _from: u64, _to: u64) {}
}

impl LogRead for Segments {
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

    fn view(&self, offset: u64, bytes: usize) -> Option<View> {
        Self::view(self, offset, bytes)
    }

    fn will_read(&self, from: u64, to: u64) {
        Self::will_read(self, from, to);
    }
}

/// The result of a step at one offset of the log.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<R> {
    /// Bytes with a record's magic, as long as their size field says.
    Record(R),
    /// The blank record at the end of a file. The scan continues in the next file.
    Blank,
    /// Neither of these: the end of the written log, or damage. The scan stays here.
    Invalid,
    /// The limit is reached.
    End,
}

impl<R> Step<R> {
    /// Converts the record.
    fn map<T>(self, form: impl FnOnce(R) -> T) -> Step<T> {
        match self {
            Self::Record(record) => Step::Record(form(record)),
            Self::Blank => Step::Blank,
            Self::Invalid => Step::Invalid,
            Self::End => Step::End,
        }
    }
}

/// One or more consecutive records, with the offset and the bytes of each.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    /// Offset of `bytes` in the log.
    offset: u64,
    bytes: &'a [u8],
    /// End of each record in `bytes`.
    ends: [usize; GROUP],
    count: usize,
}

impl<'a> Records<'a> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        let mut start = 0;
        self.ends[..self.count].iter().map(move |end| {
            let from = std::mem::replace(&mut start, *end);
            (self.offset + from as u64, &self.bytes[from..*end])
        })
    }
}

/// A scan position in the log, with one chunk of buffered bytes.
#[derive(Debug)]
pub struct LogScanner {
    at: u64,
    /// Only grows, so that it need not be cleared for each read.
    buffer: Vec<u8>,
    /// If set, the chunk is this view instead of the buffer.
    view: Option<View>,
    /// A page of a view was lost while it was read.
    is_torn: bool,
    /// Bytes of the chunk.
    filled: usize,
    /// Offset of the chunk's first byte.
    buffered_from: u64,
    /// Start of the file after the one that holds `at`; not above `at` if it is unknown.
    next_file: u64,
}

impl LogScanner {
    /// A scan that starts at `offset`.
    pub fn from(offset: u64) -> Self {
        Self {
            at: offset,
            buffer: Vec::new(),
            view: None,
            is_torn: false,
            filled: 0,
            buffered_from: offset,
            next_file: offset,
        }
    }

    /// Fails if bytes returned since the last call may be wrong: a page of a view may be lost to a
    /// failing disk or a truncated file. Call this before publishing anything derived from the
    /// bytes.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        self.end_view();
        match std::mem::take(&mut self.is_torn) {
            false => Ok(()),
            true => Err(io::Error::other("a mapped page of the log was lost")),
        }
    }

    fn end_view(&mut self) {
        if let Some(view) = &self.view {
            self.is_torn |= !view.is_whole();
        }
    }

    fn set_view(&mut self, view: Option<View>) {
        self.end_view();
        self.view = view;
    }

    /// Offset of the next step.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Returns what is at the current offset, if that is below `limit`, and moves past it.
    pub fn step(&mut self, log: &impl LogRead, limit: u64) -> io::Result<Step<&[u8]>> {
        let place = self.place(log, limit)?;
        Ok(place.map(|range| &self.chunk()[range]))
    }

    /// Like [`Self::step`], but also returns the following records that are buffered, and uses a
    /// view if the log is in memory. Call [`Self::forget`] before the returned bytes change or
    /// their file is deleted.
    pub(crate) fn steps(
        &mut self,
        log: &impl LogRead,
        limit: u64,
    ) -> io::Result<Step<Records<'_>>> {
        if self.at < limit && !self.has_record() {
            self.look(log, limit);
        }
        let place = self.place(log, limit)?;
        Ok(place.map(|range| self.with_next(&range, limit)))
    }

    /// The next record, at `range` of the chunk, and the records after it.
    fn with_next(&mut self, range: &Range<usize>, limit: u64) -> Records<'_> {
        let mut size = range.len();
        let mut ends = [size; GROUP];
        let mut count = 1;
        let to = self.next_file.min(limit) - self.buffered_from;
        let to = usize::try_from(to).unwrap_or(usize::MAX).min(self.filled);
        let chunk = &self.chunk()[..to];
        let mut at = range.end;
        fetch_edge(chunk, at + (FETCHED_AHEAD - 1) * size);
        while count < GROUP
            && let Head::Record(next) = Head::parse(&chunk[at..])
            && next <= to - at
        {
            at += next;
            if next != size {
                fetch_edge(chunk, at);
            }
            fetch_edge(chunk, at + FETCHED_AHEAD * next);
            size = next;
            ends[count] = at - range.start;
            count += 1;
        }
        self.at = self.buffered_from + at as u64;
        Records {
            offset: self.buffered_from + range.start as u64,
            bytes: &self.chunk()[range.start..at],
            ends,
            count,
        }
    }

    /// Moves past the next record; returns its range in the chunk.
    fn place(&mut self, log: &impl LogRead, limit: u64) -> io::Result<Step<Range<usize>>> {
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
                if self.bytes(log, size, end)?.len() < size {
                    return Ok(Step::Invalid);
                }
                let from = self.skipped();
                self.at += size as u64;
                Ok(Step::Record(from..from + size))
            }
            Head::Record(_) | Head::Neither => Ok(Step::Invalid),
        }
    }

    /// Drops the buffered bytes, because the log may have changed.
    pub(crate) fn forget(&mut self) {
        self.set_view(None);
        self.filled = 0;
        self.buffered_from = self.at;
        self.next_file = self.at;
    }

    fn chunk(&self) -> &[u8] {
        let bytes = self.view.as_ref().map_or(&*self.buffer, View::bytes);
        &bytes[..self.filled]
    }

    /// Bytes of the chunk before the current offset.
    fn skipped(&self) -> usize {
        usize::try_from(self.at - self.buffered_from).unwrap_or(usize::MAX)
    }

    /// Whether `count` bytes are buffered.
    fn has(&self, count: usize) -> bool {
        self.filled.saturating_sub(self.skipped()) >= count
    }

    /// Whether the whole next record, or another kind of step, is buffered.
    fn has_record(&self) -> bool {
        let rest = self.chunk().get(self.skipped()..).unwrap_or_default();
        match Head::parse(rest) {
            Head::Record(size) => size <= rest.len(),
            Head::Blank => true,
            Head::Neither => rest.len() >= BLANK_BYTES,
        }
    }

    /// The next `count` bytes before `end`; fewer if the file has no more.
    fn bytes(&mut self, log: &impl LogRead, count: usize, end: u64) -> io::Result<&[u8]> {
        if !self.has(count) {
            let room = usize::try_from(end - self.at).unwrap_or(usize::MAX);
            self.read(log, room.min(count.max(CHUNK_BYTES)))?;
        }
        let skipped = self.skipped();
        let chunk = self.chunk();
        Ok(&chunk[skipped..(skipped + count).min(chunk.len())])
    }

    /// Reads `count` bytes from `at` on; fewer if the file has no more.
    fn read(&mut self, log: &impl LogRead, count: usize) -> io::Result<()> {
        if self.buffer.len() < count {
            self.buffer.resize(count, 0);
        }
        self.set_view(None);
        self.filled = 0;
        self.buffered_from = self.at;
        self.filled = log.read_at(self.at, &mut self.buffer[..count])?;
        Ok(())
    }

    /// Views the bytes from `at` on, if they are in memory.
    fn look(&mut self, log: &impl LogRead, limit: u64) {
        let room = usize::try_from(limit - self.at).unwrap_or(usize::MAX);
        if let Some(view) = log.view(self.at, room.min(VIEW_BYTES)) {
            self.filled = view.bytes().len();
            self.buffered_from = self.at;
            self.set_view(Some(view));
        }
    }
}

/// Prefetches the boundary of two records at `at`. Never beyond the chunk, where another CPU may be
/// writing.
fn fetch_edge(chunk: &[u8], at: usize) {
    if at + FETCHED_BEHIND > chunk.len() {
        return;
    }
    let from = at.saturating_sub(FETCHED_BEFORE);
    for line in (from..at + FETCHED_BEHIND).step_by(LINE_BYTES) {
        prefetch(chunk.as_ptr(), line);
    }
}

#[cfg(test)]
mod tests;
