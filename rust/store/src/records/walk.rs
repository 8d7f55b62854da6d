//! Going through the log record by record.

use std::io;
use std::ops::Range;

use mq_format::message::{BLANK_BYTES, Head};
use mq_log::{Segments, View, prefetch};

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes looked at at once where they are in memory.
const VIEW_BYTES: usize = 1 << 20;
/// Records given together at most.
pub(crate) const GROUP: usize = 16;
/// Records ahead of which the edges are fetched, if all are as long as the last one; and what of
/// an edge: the end of a record, with topic and properties, and the head of the next. Bodies are
/// not looked at, and the processor itself fetches ahead only where strides are short.
const FETCHED_AHEAD: usize = 6;
const FETCHED_BEFORE: usize = 128;
const FETCHED_BEHIND: usize = 96;
const LINE_BYTES: usize = 64;
/// No record is believed to be longer; RocketMQ's default limit is 4 MiB and 64 KiB.
pub const RECORD_BYTES_MAX: usize = 256 << 20;

/// Bytes of a log by offset: a broker's own log, or a directory someone else may be writing.
pub trait LogRead: Send + Sync {
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

    /// Bytes from `offset` on, at most so many, where they can be looked at without a copy.
    fn view(&self, _offset: u64, _bytes: usize) -> Option<View> {
        None
    }

    /// Says that a range of one file is about to be read; only a hint.
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

/// What was found at a place in the log.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<R> {
    /// Something as long as its size field says, with a record's magic.
    Record(R),
    /// The filler that ends a file; the walk goes on in the next file.
    Blank,
    /// Neither: the end of what was written, or damage. The walk stays here.
    Neither,
    /// The limit is reached.
    End,
}

impl<R> Step<R> {
    /// The same of a record in another form.
    fn map<T>(self, form: impl FnOnce(R) -> T) -> Step<T> {
        match self {
            Self::Record(record) => Step::Record(form(record)),
            Self::Blank => Step::Blank,
            Self::Neither => Step::Neither,
            Self::End => Step::End,
        }
    }
}

/// At least one record, and those behind it: the offset of each, and its bytes.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    /// Where `bytes` lie in the log.
    offset: u64,
    bytes: &'a [u8],
    /// Where each ends in `bytes`.
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

/// A place in the log that moves on. Holds one chunk of bytes.
#[derive(Debug)]
pub struct Walk {
    at: u64,
    /// Grows only, so that it need not be cleared for each read.
    buffer: Vec<u8>,
    /// What the chunk is instead of the buffer, while there.
    view: Option<View>,
    /// A page of a view was lost while it was looked at.
    is_torn: bool,
    /// Bytes of the chunk.
    filled: usize,
    /// Offset of the chunk's first byte.
    buffered_from: u64,
    /// Where the file behind the one that holds `at` starts; not above `at` where that is unknown.
    next_file: u64,
}

impl Walk {
    /// A walk that starts at `offset`.
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

    /// An error if anything that was given since the last call was not what the log has: a page
    /// that is looked at where it is may be lost to a failing disk or a truncated file. Asked
    /// before anybody sees what was made of it.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        self.end_view();
        match std::mem::take(&mut self.is_torn) {
            false => Ok(()),
            true => Err(io::Error::other("a page of the log is gone")),
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

    /// Where the next step starts.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Looks at the next place below `limit` and moves behind it.
    pub fn step(&mut self, log: &impl LogRead, limit: u64) -> io::Result<Step<&[u8]>> {
        let place = self.place(log, limit)?;
        Ok(place.map(|range| &self.chunk()[range]))
    }

    /// As [`Self::step`], but takes the records behind the next as well, as far as they are at
    /// hand, and looks at what is in memory where it is. Before what was given changes, or goes,
    /// [`Self::forget`] has to be called.
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

    /// The record at `range` of the chunk, which was the next, and those behind it.
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

    /// Moves behind the next record; where in the chunk it is.
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
                    return Ok(Step::Neither);
                }
                let from = self.skipped();
                self.at += size as u64;
                Ok(Step::Record(from..from + size))
            }
            Head::Record(_) | Head::Neither => Ok(Step::Neither),
        }
    }

    /// Throws away what was read, because the log may have changed since.
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

    /// Bytes of the chunk that lie before the next place.
    fn skipped(&self) -> usize {
        usize::try_from(self.at - self.buffered_from).unwrap_or(usize::MAX)
    }

    /// Whether so many bytes are at hand.
    fn has(&self, count: usize) -> bool {
        self.filled.saturating_sub(self.skipped()) >= count
    }

    /// Whether all of the next record is at hand, or something else.
    fn has_record(&self) -> bool {
        let rest = self.chunk().get(self.skipped()..).unwrap_or_default();
        match Head::parse(rest) {
            Head::Record(size) => size <= rest.len(),
            Head::Blank => true,
            Head::Neither => rest.len() >= BLANK_BYTES,
        }
    }

    /// The next `count` bytes below `end`, or fewer where the file has no more.
    fn bytes(&mut self, log: &impl LogRead, count: usize, end: u64) -> io::Result<&[u8]> {
        if !self.has(count) {
            let room = usize::try_from(end - self.at).unwrap_or(usize::MAX);
            self.read(log, room.min(count.max(CHUNK_BYTES)))?;
        }
        let skipped = self.skipped();
        let chunk = self.chunk();
        Ok(&chunk[skipped..(skipped + count).min(chunk.len())])
    }

    /// Reads so many bytes from `at` on, or fewer where the file has no more.
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

    /// Looks at what follows where it is, if it is in memory.
    fn look(&mut self, log: &impl LogRead, limit: u64) {
        let room = usize::try_from(limit - self.at).unwrap_or(usize::MAX);
        if let Some(view) = log.view(self.at, room.min(VIEW_BYTES)) {
            self.filled = view.bytes().len();
            self.buffered_from = self.at;
            self.set_view(Some(view));
        }
    }
}

/// Fetches the end of a record and the head of the next, which meet at `at`; not what lies behind
/// the chunk, as another processor may just write there.
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
