//! Reading the records that a pull has chosen.

use super::read::Reader;
use super::types::{ReadMode, WouldBlock};
use crate::format::consume_queue::QueueEntry;
use crate::format::message::{self, Head, sys_flag};
use crate::log::Files;

/// Records closer than this are read at once, the bytes between thrown away.
const NEAR_BYTES: i64 = 4_096;

/// Records read for a pull.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) count: i32,
    /// The first of the entries that could not be read for an error of the disk.
    pub(super) failed_at: Option<usize>,
}

impl<F: Files> Reader<F> {
    /// Appends the records to `out`, neighbours with one read, up to the first that cannot be
    /// read. One that is gone, or is no record, is left out.
    pub(super) fn read_records(
        &self,
        entries: &[QueueEntry],
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<Records, WouldBlock> {
        let start = out.len();
        let mut records = Records::default();
        let mut seen = 0;
        for run in entries.chunk_by(|left, right| self.is_near(left, right)) {
            match self.read_run(run, mode, out) {
                Ok(Some(read)) => records.count += read,
                Ok(None) => {
                    // Alone, so that one bad block takes no neighbour with it.
                    self.read_each(run, mode, out, &mut records)?;
                    if let Some(at) = records.failed_at {
                        records.failed_at = Some(seen + at);
                        break;
                    }
                }
                Err(blocked) => {
                    out.truncate(start);
                    return Err(blocked);
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

    /// Whether `right` follows `left` closely and in the same file.
    fn is_near(&self, left: &QueueEntry, right: &QueueEntry) -> bool {
        let gap = right.physical_offset - left.end_offset();
        let next_file = self
            .log
            .next_file_start(left.physical_offset.cast_unsigned());
        (0..=NEAR_BYTES).contains(&gap) && right.physical_offset.cast_unsigned() < next_file
    }

    /// Reads a span at the end of `out`, then moves its records together; None if the disk fails.
    pub(super) fn read_run(
        &self,
        run: &[QueueEntry],
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<Option<i32>, WouldBlock> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return Ok(Some(0));
        };
        let (from, start) = (first.physical_offset, out.len());
        let length = usize::try_from(last.end_offset() - from).unwrap_or(0);
        out.resize(start + length, 0);
        let read = self.read_log(from, mode, &mut out[start..]);
        let read = read.inspect_err(|WouldBlock| out.truncate(start))?;
        let Some(read) = read else {
            out.truncate(start);
            return Ok(None);
        };
        let (mut count, mut filled) = (0, start);
        for entry in run {
            let at = start + usize::try_from(entry.physical_offset - from).unwrap_or(0);
            let size = usize::try_from(entry.size_bytes).unwrap_or(0);
            // A unit may outlive its record; what is there now is not the message.
            if at + size <= start + read && is_record_of(entry, &out[at..at + size]) {
                out.copy_within(at..at + size, filled);
                filled += size;
                count += 1;
            }
        }
        out.truncate(filled);
        Ok(Some(count))
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

/// Whether these bytes are the record that a unit points to.
fn is_record_of(entry: &QueueEntry, bytes: &[u8]) -> bool {
    // Healing puts records of a type that is never queued where it found damage.
    Head::parse(bytes) == Head::Record(bytes.len())
        && message::stated_offset(bytes) == Some(entry.physical_offset)
        && message::stated_sys_flag(bytes).is_some_and(sys_flag::is_queued)
}
