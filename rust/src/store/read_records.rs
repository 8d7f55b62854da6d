//! Reading the records that a pull has chosen.

use super::read::Reader;
use super::types::{ReadMode, WouldBlock};
use crate::format::consume_queue::QueueEntry;
use crate::format::message::{self, Head, sys_flag};
use crate::log::Files;

/// Records closer than this are read at once, the bytes between thrown away.
const NEAR_BYTES: i64 = 4_096;
/// Records closer than this are looked for in memory at once: a look costs more than the pages
/// between them, which other queues' readers want in memory as well.
const LOOK_BYTES: i64 = 32 << 10;

/// Records read for a pull.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) count: i32,
    /// The first of the entries that could not be read for an error of the disk.
    pub(super) failed_at: Option<usize>,
}

impl<F: Files> Reader<F> {
    /// Appends the records to `out`, neighbours together, up to the first that cannot be read.
    /// One that is gone, or is no record, is left out.
    pub(super) fn read_records(
        &self,
        entries: &[QueueEntry],
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<Records, WouldBlock> {
        let mut records = Records::default();
        let mut seen = 0;
        let near = match mode {
            ReadMode::NoWait => LOOK_BYTES,
            ReadMode::Wait => NEAR_BYTES,
        };
        for run in entries.chunk_by(|left, right| self.is_near(left, right, near)) {
            match self.read_run(run, mode, out) {
                Ok(Some(read)) => records.count += read,
                Ok(None) | Err(WouldBlock) => {
                    // Alone, so that one bad block takes no neighbour with it, nor a page between
                    // them that is not in memory.
                    self.read_each(run, mode, out, &mut records)?;
                    if let Some(at) = records.failed_at {
                        records.failed_at = Some(seen + at);
                        break;
                    }
                }
            }
            seen += run.len();
        }
        Ok(records)
    }

    fn read_each(
        &self,
        run: &[QueueEntry],
        mode: ReadMode,
        out: &mut Vec<u8>,
        records: &mut Records,
    ) -> Result<(), WouldBlock> {
        for (at, entry) in run.iter().enumerate() {
            match self.read_run(std::slice::from_ref(entry), mode, out)? {
                Some(read) => records.count += read,
                None => {
                    records.failed_at = Some(at);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether `right` follows `left` by at most `near` bytes and in the same file.
    fn is_near(&self, left: &QueueEntry, right: &QueueEntry, near: i64) -> bool {
        let gap = right.physical_offset - left.end_offset();
        let next_file = self
            .log
            .next_file_start(left.physical_offset.cast_unsigned());
        (0..=near).contains(&gap) && right.physical_offset.cast_unsigned() < next_file
    }

    /// Appends the records of a run to `out`; None if the disk fails.
    pub(super) fn read_run(
        &self,
        run: &[QueueEntry],
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<Option<i32>, WouldBlock> {
        match mode {
            ReadMode::NoWait => self.copy_run(run, out),
            ReadMode::Wait => Ok(self.read_span(run, out)),
        }
    }

    /// Copies records that are in memory, and nothing of what lies between them.
    fn copy_run(&self, run: &[QueueEntry], out: &mut Vec<u8>) -> Result<Option<i32>, WouldBlock> {
        let start = out.len();
        let place = |entry: &QueueEntry| (entry.physical_offset.cast_unsigned(), size(entry));
        let pieces: Vec<_> = run.iter().map(place).collect();
        match self.log.copy_from_memory(&pieces, out) {
            Ok(true) => {
                let ends = run.iter().scan(start, |end, entry| {
                    let at = *end;
                    *end += size(entry);
                    Some((entry, at))
                });
                Ok(Some(keep_records(ends, start, out)))
            }
            Ok(false) => Err(WouldBlock),
            Err(error) => {
                self.note_error(run, &error);
                Ok(None)
            }
        }
    }

    /// Reads everything from the first record to the last at once.
    fn read_span(&self, run: &[QueueEntry], out: &mut Vec<u8>) -> Option<i32> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return Some(0);
        };
        let (from, start) = (first.physical_offset, out.len());
        let length = usize::try_from(last.end_offset() - from).unwrap_or(0);
        out.resize(start + length, 0);
        let read = self.log.read_at(from.cast_unsigned(), &mut out[start..]);
        let read = read.inspect_err(|error| self.note_error(run, error));
        out.truncate(start + *read.as_ref().unwrap_or(&0));
        let at = |entry: &QueueEntry| usize::try_from(entry.physical_offset - from).unwrap_or(0);
        let places = run.iter().map(|entry| (entry, start + at(entry)));
        read.is_ok().then(|| keep_records(places, start, out))
    }

    fn note_error(&self, run: &[QueueEntry], error: &std::io::Error) {
        let offset = run.first().map(|first| first.physical_offset);
        tracing::error!(offset, %error, "cannot read the commit log");
    }

    /// Reads from the log; None if the disk fails.
    pub(super) fn read_log(
        &self,
        offset: i64,
        mode: ReadMode,
        out: &mut [u8],
    ) -> Result<Option<usize>, WouldBlock> {
        let offset = offset.cast_unsigned();
        let read = match mode {
            ReadMode::Wait => self.log.read_at(offset, out).map(Some),
            ReadMode::NoWait => self.log.read_at_nowait(offset, out),
        };
        match read {
            Ok(Some(count)) => Ok(Some(count)),
            Ok(None) => Err(WouldBlock),
            Err(error) => {
                tracing::error!(offset, %error, "cannot read the commit log");
                Ok(None)
            }
        }
    }
}

fn size(entry: &QueueEntry) -> usize {
    usize::try_from(entry.size_bytes).unwrap_or(0)
}

/// Moves the records, each with its place in `out`, together from `start` on and drops the rest;
/// how many there are. A unit may outlive its record: what is there now is not the message.
fn keep_records<'e>(
    places: impl Iterator<Item = (&'e QueueEntry, usize)>,
    start: usize,
    out: &mut Vec<u8>,
) -> i32 {
    let (mut count, mut filled) = (0, start);
    for (entry, at) in places {
        let end = at + size(entry);
        if out
            .get(at..end)
            .is_some_and(|bytes| is_record_of(entry, bytes))
        {
            if at != filled {
                out.copy_within(at..end, filled);
            }
            filled += end - at;
            count += 1;
        }
    }
    out.truncate(filled);
    count
}

/// Whether these bytes are the record that a unit points to.
fn is_record_of(entry: &QueueEntry, bytes: &[u8]) -> bool {
    // Healing puts records of a type that is never queued where it found damage.
    Head::parse(bytes) == Head::Record(bytes.len())
        && message::stated_offset(bytes) == Some(entry.physical_offset)
        && message::stated_sys_flag(bytes).is_some_and(sys_flag::is_queued)
}
