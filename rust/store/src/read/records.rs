//! Reads the records that a pull has selected.

use super::reader::Reader;
use crate::entry_repair::EntryRepair;
use crate::scan::record::{self, Place, RecordFault};
use crate::types::{GetRequest, ReadMode, WouldBlock};
use mq_format::consume_queue::QueueEntry;
use mq_format::message::{BLANK_BYTES, Head};

/// Largest gap between records that are read from disk together; the gap is dropped.
const NEAR_BYTES: i64 = 4_096;
/// Largest gap between records that are looked up in memory together. One look-up costs more than
/// checking the pages of the gap, which readers of other queues need in memory, too.
const LOOK_BYTES: i64 = 32 << 10;
/// Most bytes read at once. The head of a longer record is checked first, because a damaged entry
/// may have any size.
const SPAN_BYTES_MAX: usize = 1 << 20;

/// Records selected for a pull, and the offset of the next pull.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) entries: Vec<QueueEntry>,
    /// Position of each entry, counted from the first scanned one.
    pub(crate) places: Vec<i64>,
    pub(crate) bytes: usize,
    pub(crate) scanned: i64,
    pub(crate) was_removing: bool,
    /// Physical offset of the last scanned entry.
    pub(crate) last_physical_offset: i64,
}

/// The result of reading records for a pull.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) count: i32,
    /// The first entry whose record could not be read because of a disk error.
    pub(crate) failed_at: Option<usize>,
}

/// Queue entries whose records are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    topic: &'a str,
    queue_id: i32,
    /// The queue offset from which `places` count.
    first_offset: i64,
    entries: &'a [QueueEntry],
    places: &'a [i64],
}

impl<'a> Run<'a> {
    /// The entries that a pull has selected.
    pub(crate) fn of(request: &GetRequest<'a>, selection: &'a Selection) -> Self {
        Self::new(request, &selection.entries, &selection.places)
    }

    /// Some entries, and their positions counted from the first entry that the pull scans.
    pub(crate) fn new(
        request: &GetRequest<'a>,
        entries: &'a [QueueEntry],
        places: &'a [i64],
    ) -> Self {
        Self {
            topic: request.topic,
            queue_id: request.queue_id,
            first_offset: request.offset,
            entries,
            places,
        }
    }

    fn part(self, from: usize, count: usize) -> Self {
        Self {
            entries: &self.entries[from..from + count],
            places: &self.places[from..from + count],
            ..self
        }
    }

    fn place(self, at: usize) -> Place<'a> {
        Place {
            topic: self.topic,
            queue_id: self.queue_id,
            queue_offset: self.first_offset + self.places[at],
        }
    }
}

/// The result of keeping the valid records of a run.
struct Kept {
    count: i32,
    /// The fault of the last dropped record.
    dropped: Option<RecordFault>,
}

impl Reader {
    /// Appends the records to `out`, reading neighbours together, up to a record that cannot be
    /// read. Skips deleted and damaged records.
    pub(crate) fn read_records(
        &self,
        chosen: Run<'_>,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<Records, WouldBlock> {
        let mut records = Records::default();
        let mut seen = 0;
        let near = match mode {
            ReadMode::NoWait => LOOK_BYTES,
            ReadMode::Wait => NEAR_BYTES,
        };
        let are_near = |left: &QueueEntry, right: &QueueEntry| self.is_near(left, right, near);
        for entries in chosen.entries.chunk_by(are_near) {
            let run = chosen.part(seen, entries.len());
            match self.read_run(run, mode, out) {
                Ok(Some(read)) => records.count += read,
                Ok(None) | Err(WouldBlock) => {
                    // Read them one by one, so that one bad block or record does not affect its
                    // neighbours, nor a page between them that is not in memory.
                    self.read_each(run, mode, out, &mut records)?;
                    if let Some(at) = records.failed_at {
                        records.failed_at = Some(seen + at);
                        break;
                    }
                }
            }
            seen += entries.len();
        }
        Ok(records)
    }

    fn read_each(
        &self,
        run: Run<'_>,
        mode: ReadMode,
        out: &mut Vec<u8>,
        records: &mut Records,
    ) -> Result<(), WouldBlock> {
        for at in 0..run.entries.len() {
            match self.read_run(run.part(at, 1), mode, out)? {
                Some(read) => records.count += read,
                None => {
                    records.failed_at = Some(at);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether `right` starts at most `near` bytes after the end of `left`, in the same file.
    fn is_near(&self, left: &QueueEntry, right: &QueueEntry, near: i64) -> bool {
        let gap = right.physical_offset - left.end_offset();
        let next_file = self
            .log
            .next_file_start(left.physical_offset.cast_unsigned());
        (0..=near).contains(&gap) && right.physical_offset.cast_unsigned() < next_file
    }

    /// Appends the records of a run to `out`; None after a disk error, or if each record must be
    /// read alone.
    pub(crate) fn read_run(
        &self,
        run: Run<'_>,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<Option<i32>, WouldBlock> {
        match mode {
            ReadMode::NoWait => self.copy_run(run, out),
            ReadMode::Wait if run.entries.len() == 1 => Ok(self.read_one(run, out)),
            ReadMode::Wait => Ok(self.read_span(run, out)),
        }
    }

    /// Copies records from memory without the gaps between them. If one is invalid, all are read
    /// again by a thread that may wait for the disk.
    fn copy_run(&self, run: Run<'_>, out: &mut Vec<u8>) -> Result<Option<i32>, WouldBlock> {
        let start = out.len();
        let place = |entry: &QueueEntry| (entry.physical_offset.cast_unsigned(), size(entry));
        let pieces: Vec<_> = run.entries.iter().map(place).collect();
        match self.log.copy_from_memory(&pieces, out) {
            Ok(true) => {
                let mut end = start;
                let place = |entry: &QueueEntry| {
                    let at = end;
                    end += size(entry);
                    at
                };
                let kept = keep_records(run, place, start, out);
                if kept.dropped.is_some() {
                    out.truncate(start);
                    return Err(WouldBlock);
                }
                Ok(Some(kept.count))
            }
            Ok(false) => Err(WouldBlock),
            Err(error) => {
                self.note_error(run, &error);
                Ok(None)
            }
        }
    }

    /// Reads from the first record to the last at once; None if each must be read alone.
    fn read_span(&self, run: Run<'_>, out: &mut Vec<u8>) -> Option<i32> {
        let (first, last) = (run.entries.first()?, run.entries.last()?);
        let length = usize::try_from(last.end_offset() - first.physical_offset).unwrap_or(0);
        if length > SPAN_BYTES_MAX {
            return None;
        }
        let start = out.len();
        let kept = self.read_and_keep(run, length, out)?;
        if kept.dropped.is_some() {
            out.truncate(start);
            return None;
        }
        Some(kept.count)
    }

    /// Reads one record. If it is invalid, reads it once more, then tries the entry's repair.
    fn read_one(&self, run: Run<'_>, out: &mut Vec<u8>) -> Option<i32> {
        let entry = run.entries.first()?;
        let length = size(entry);
        if length > SPAN_BYTES_MAX && !self.has_head(entry) {
            return self.read_repaired(run, RecordFault::Size { expected: length }, out);
        }
        let first = self.read_and_keep(run, length, out)?;
        if first.dropped.is_none() {
            return Some(first.count);
        }
        let again = self.read_and_keep(run, length, out)?;
        match again.dropped {
            Some(wrong) => self.read_repaired(run, wrong, out),
            None => Some(again.count),
        }
    }

    /// Repairs an entry that does not point to its record, and reads the record that the log has
    /// for it. Skips a damaged record. None while the log is searched.
    #[cold]
    fn read_repaired(&self, run: Run<'_>, wrong: RecordFault, out: &mut Vec<u8>) -> Option<i32> {
        let place = run.place(0);
        let entry = match self
            .repairer
            .repair(place.topic, place.queue_id, place.queue_offset)
        {
            EntryRepair::Entry(entry) => entry,
            EntryRepair::Later => return None,
            EntryRepair::No => {
                self.note_damage(run, wrong);
                return Some(0);
            }
        };
        let repaired = Run {
            entries: &[entry],
            ..run
        };
        let kept = self.read_and_keep(repaired, size(&entry), out)?;
        if let Some(wrong) = kept.dropped {
            self.note_damage(repaired, wrong);
        }
        Some(kept.count)
    }

    /// Appends the valid records of a run; None after a disk error.
    fn read_and_keep(&self, run: Run<'_>, length: usize, out: &mut Vec<u8>) -> Option<Kept> {
        let (from, start) = (run.entries.first()?.physical_offset, out.len());
        out.resize(start + length, 0);
        let read = self.log.read_at(from.cast_unsigned(), &mut out[start..]);
        let read = read.inspect_err(|error| self.note_error(run, error));
        out.truncate(start + *read.as_ref().unwrap_or(&0));
        read.ok()?;
        let at = |entry: &QueueEntry| usize::try_from(entry.physical_offset - from).unwrap_or(0);
        Some(keep_records(run, |entry| start + at(entry), start, out))
    }

    /// Whether a record of the entry's size seems to start there. Checked before a large
    /// allocation.
    fn has_head(&self, entry: &QueueEntry) -> bool {
        let mut head = [0; BLANK_BYTES];
        let offset = entry.physical_offset.cast_unsigned();
        let read = self.log.read_at(offset, &mut head);
        read.is_err() || Head::parse(&head) == Head::Record(size(entry))
    }

    /// Notes that the only record of a run is skipped; silently if its file was deleted meanwhile.
    #[cold]
    fn note_damage(&self, run: Run<'_>, wrong: RecordFault) {
        let Some(entry) = run.entries.first() else {
            return;
        };
        if entry.physical_offset >= self.log.min_offset().cast_signed() {
            self.damaged
                .note(entry.physical_offset, Some(run.place(0)), wrong);
        }
    }

    fn note_error(&self, run: Run<'_>, error: &std::io::Error) {
        let offset = run.entries.first().map(|first| first.physical_offset);
        tracing::error!(offset, %error, "cannot read the commit log");
    }

    /// Reads from the log; None after a disk error.
    pub(crate) fn read_log(
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

/// Moves the valid records, each at its position in `out`, together from `start` on and drops the
/// rest. An entry may outlive its record, and other bytes may be there now.
fn keep_records(
    run: Run<'_>,
    mut at: impl FnMut(&QueueEntry) -> usize,
    start: usize,
    out: &mut Vec<u8>,
) -> Kept {
    let (mut count, mut filled) = (0, start);
    let mut dropped = None;
    for (number, entry) in run.entries.iter().enumerate() {
        let at = at(entry);
        let end = at + size(entry);
        match check(run.place(number), entry, out.get(at..end)) {
            Ok(()) => {
                if at != filled {
                    out.copy_within(at..end, filled);
                }
                filled += end - at;
                count += 1;
            }
            Err(wrong) => dropped = Some(wrong),
        }
    }
    out.truncate(filled);
    Kept { count, dropped }
}

#[inline]
fn check(place: Place<'_>, entry: &QueueEntry, bytes: Option<&[u8]>) -> Result<(), RecordFault> {
    let Some(bytes) = bytes else {
        return Err(RecordFault::Short { size: size(entry) });
    };
    record::check_queued(bytes, entry.physical_offset, place)
}
