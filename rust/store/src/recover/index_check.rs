//! Checks an index file entry by entry, and truncates it at the first invalid one.
//!
//! RocketMQ deletes files that may be torn and loses their keys. But the entries determine the rest
//! of the file: replaying them gives all slots and links, which shows where the file is torn.

use std::io;
use std::sync::Arc;

use super::recovery::Recovery;
use crate::derive::index::file::IndexFile;
use crate::derive::index::files::IndexFiles;
use crate::derive::index::writer::IndexWriter;
use crate::files::io_error;
use crate::scan::log_io;
use crate::scan::log_scanner::{LogRead, LogScanner, Step};
use crate::scan::repair::Change;
use crate::types::StoreError;
use mq_format::index::{IndexEntry, IndexHeader, IndexLayout, has_key_hash, indexed_keys};
use mq_format::message::{self, CheckCrc, Head, RecordView, STATED_BYTES, sys_flag};

/// Entries read at once.
const CHUNK_ENTRIES: i32 = 4_096;
/// Most bytes of the log read between two index files.
const GAP_BYTES_MAX: u64 = 16 << 20;

impl Recovery<'_> {
    /// Truncates the index to its valid part. Returns the writer, and the log offset from which it
    /// must be fed if that is before the end of the queues.
    ///
    /// The log was checked from `checked_from` on, and repaired with these `changes`. An earlier
    /// start may have repaired it, too, before a power loss.
    pub(super) fn truncate_index(
        &self,
        index: &Arc<IndexFiles>,
        (checked_from, log_end): (u64, u64),
        changes: &[Change],
    ) -> Result<(IndexWriter, Option<u64>), StoreError> {
        let is_whole = self.check_index(index, (checked_from, log_end), changes)?;
        let writer = IndexWriter::resume(Arc::clone(index), Arc::clone(self.clock))?;
        let from = match writer.end_physical_offset() {
            Some(end) => {
                let end = end.cast_unsigned();
                let is_whole = is_whole && self.was_clean && !index.is_cut();
                // The newest file may be missing.
                let is_whole = is_whole && !self.has_keys(self.after(end)?, log_end)?;
                (!is_whole).then_some(end)
            }
            None => Some(self.log.min_offset()),
        };
        Ok((writer, from))
    }

    /// Checks the files that may be torn or point beyond the log; false if the index was truncated.
    fn check_index(
        &self,
        index: &IndexFiles,
        (checked_from, log_end): (u64, u64),
        changes: &[Change],
    ) -> Result<bool, StoreError> {
        let durable_ms = self.checkpoint.index_timestamp_ms();
        let gap = self.index_gap(index)?;
        if let Some(gap) = gap {
            index.remove_from(gap)?;
        }
        let files = index.files();
        for (at, file) in files.iter().enumerate() {
            let failed = || io_error(file.path());
            let header = file.header().map_err(failed())?;
            if changes.iter().any(|change| is_in(change, &header)) {
                index.remove_from(at)?;
                return Ok(false);
            }
            // The next file may begin in the millisecond in which the last durable one ends. A
            // header without entries may belong to a new file, or may be lost.
            let is_doubtful = header.end_timestamp_ms >= durable_ms
                || header.index_count <= 1
                || header.end_physical_offset >= checked_from.cast_signed();
            let is_absurd = header.index_count.unsigned_abs() > file.layout().entries;
            let is_torn = is_absurd
                || !file.ends_match().map_err(failed())?
                || (!self.was_clean && is_doubtful);
            if !is_torn && header.end_physical_offset < log_end.max(1).cast_signed() {
                continue;
            }
            let first_to_go =
                match check(file, self.log, (checked_from, log_end)).map_err(failed())? {
                    // Every file before the last must be full; otherwise its last entries are lost.
                    Checked::Whole if at + 1 == files.len() || file.is_full(&header) => continue,
                    Checked::Whole | Checked::Cut => at + 1,
                    Checked::Useless => at,
                };
            index.remove_from(first_to_go)?;
            return Ok(false);
        }
        Ok(gap.is_none())
    }
}

impl Recovery<'_> {
    /// Whether all index files exist, and their ends match their headers.
    pub(super) fn is_index_whole(&self, index: Option<&IndexFiles>) -> Result<bool, StoreError> {
        let Some(index) = index else {
            return Ok(true);
        };
        Ok(index.is_whole()? && self.index_gap(index)?.is_none())
    }

    /// The first file before which one is missing: a record with keys is between it and the end of
    /// the previous file.
    fn index_gap(&self, index: &IndexFiles) -> Result<Option<usize>, StoreError> {
        let mut from = self.log.min_offset();
        let mut is_known = true;
        for (at, file) in index.files().iter().enumerate() {
            let header = file.header().map_err(io_error(file.path()))?;
            let begin = u64::try_from(header.begin_physical_offset).unwrap_or(0);
            if header.index_count > 1 && is_known && self.has_keys(from, begin)? {
                return Ok(Some(at));
            }
            let end = u64::try_from(header.end_physical_offset).unwrap_or(0);
            is_known = end >= self.log.min_offset();
            from = end.max(self.log.min_offset());
            if is_known {
                from = self.after(from)?;
            }
        }
        Ok(None)
    }

    /// End of the record at `offset`.
    fn after(&self, offset: u64) -> Result<u64, StoreError> {
        let mut scanner = LogScanner::from(offset.max(self.log.min_offset()));
        scanner
            .step(self.log, self.log.max_offset())
            .map_err(log_io)?;
        Ok(scanner.offset())
    }

    /// Whether a record of `[from, to)` has keys; reads at most `GAP_BYTES_MAX`.
    fn has_keys(&self, from: u64, to: u64) -> Result<bool, StoreError> {
        let mut scanner = LogScanner::from(from);
        while scanner.offset() < to.min(from.saturating_add(GAP_BYTES_MAX)) {
            let offset = scanner.offset();
            match scanner.step(self.log, to).map_err(log_io)? {
                Step::Record(bytes) => {
                    let record = RecordView::parse(bytes, CheckCrc::No);
                    if record.is_ok_and(|record| is_indexed(&record)) {
                        return Ok(true);
                    }
                }
                Step::Blank => {}
                Step::Invalid | Step::End => return Ok(false),
            }
            if scanner.offset() <= offset {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

/// Whether a record has entries in the index.
fn is_indexed(record: &RecordView<'_>) -> bool {
    !sys_flag::is_rollback(record.sys_flag) && indexed_keys(record.properties).next().is_some()
}

/// Whether a file may point to records that a repair removed.
fn is_in(change: &Change, header: &IndexHeader) -> bool {
    header.index_count > 1
        && header.begin_physical_offset < change.to.cast_signed()
        && header.end_physical_offset >= change.from.cast_signed()
}

/// The result of checking an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// All entries are valid.
    Whole,
    /// Entries were cut off; later files must be removed.
    Cut,
    /// No entry can be kept.
    Useless,
}

/// The valid entries, replayed.
struct Replay {
    layout: IndexLayout,
    slots: Vec<i32>,
    next: i32,
    last: Option<IndexEntry>,
}

/// Checks a file against the log and repairs it; entries from `checked_from` on one by one.
fn check(
    file: &IndexFile,
    log: &impl LogRead,
    (checked_from, log_end): (u64, u64),
) -> io::Result<Checked> {
    let header = file.header()?;
    let replay = replay(file, &header, log, (checked_from, log_end))?;
    let first = file.entry(1)?.physical_offset;
    let begins_right = first == header.begin_physical_offset
        && store_timestamp(log, first) == Some(header.begin_timestamp_ms);
    let Some(last) = replay
        .last
        .filter(|_| begins_right || first < log_start(log))
    else {
        return Ok(Checked::Useless);
    };
    let is_whole = replay.next == header.index_count;
    let end_timestamp_ms = store_timestamp(log, last.physical_offset)
        .unwrap_or_else(|| header.entry_timestamp_ms(last.time_difference_seconds));
    let repaired = IndexHeader {
        end_physical_offset: last.physical_offset,
        end_timestamp_ms,
        hash_slot_count: replay.used_slots(),
        index_count: replay.next,
        ..header
    };
    if repaired != header || !file.has_slots(&replay.slots)? {
        file.rewrite(&repaired, &replay.slots)?;
    }
    Ok(if is_whole {
        Checked::Whole
    } else {
        Checked::Cut
    })
}

/// Replays the entries of a file up to the first invalid one.
fn replay(
    file: &IndexFile,
    header: &IndexHeader,
    log: &impl LogRead,
    (checked_from, log_end): (u64, u64),
) -> io::Result<Replay> {
    let mut replay = Replay::new(file.layout());
    let mut record: Option<(i64, i64)> = None;
    let mut has_record = |entry: &IndexEntry, is_first: bool| -> io::Result<bool> {
        let offset = entry.physical_offset;
        if record.is_none_or(|(at, _)| at != offset) {
            let stored_ms = indexed_record_ms(log, offset.cast_unsigned())?;
            record = stored_ms.map(|stored_ms| (offset, stored_ms));
        }
        // The first entry of a file may count from the end of the previous file.
        Ok(record.is_some_and(|(_, stored_ms)| {
            let seconds = header.time_difference_seconds(stored_ms);
            is_first || seconds == entry.time_difference_seconds
        }))
    };
    // A torn header may count more entries than the file can hold.
    let end = header.index_count.min(file.layout().entries.cast_signed());
    'entries: while replay.next < end {
        let count = CHUNK_ENTRIES.min(end - replay.next);
        let entries = file.entries(replay.next, count)?;
        for entry in &entries {
            let offset = entry.physical_offset.cast_unsigned();
            // The sector with the end of the entry may be lost.
            let ends_in_zeros = entry.time_difference_seconds == 0 && entry.previous == 0;
            let is_doubtful = ends_in_zeros && offset >= log.min_offset();
            let is_trusted = offset < checked_from && !is_doubtful;
            if !(is_trusted || has_record(entry, replay.next == 1)?)
                || has_lost_hash(entry, log)
                || !replay.take(*entry, log_end.cast_signed())
            {
                break 'entries;
            }
        }
    }
    // A file may be torn inside an entry, and the rest of that entry may still look valid.
    while let Some(last) = replay.last {
        if last.physical_offset < log_start(log) || has_record(&last, replay.next == 2)? {
            break;
        }
        let before = (replay.next > 2)
            .then(|| file.entry(replay.next - 2))
            .transpose()?;
        replay.give_back(last, before);
    }
    Ok(replay)
}

/// Whether the hash of an entry did not reach the disk, because it is in an earlier sector than the
/// rest of the entry. The rest looks like an entry with hash 0, which hardly any key has.
fn has_lost_hash(entry: &IndexEntry, log: &impl LogRead) -> bool {
    let is_doubtful = entry.key_hash == 0 && entry.physical_offset >= log_start(log);
    let has_hash_0 = |record: &RecordView<'_>| has_key_hash(record.topic, record.properties, 0);
    is_doubtful && at_record(log, entry.physical_offset, has_hash_0) != Some(true)
}

impl Replay {
    fn new(layout: IndexLayout) -> Self {
        Self {
            layout,
            slots: vec![0; layout.slots as usize],
            next: 1,
            last: None,
        }
    }

    /// Adds the next entry if it is valid.
    fn take(&mut self, entry: IndexEntry, log_end: i64) -> bool {
        if entry.key_hash < 0 || entry.time_difference_seconds < 0 {
            return false;
        }
        let slot = &mut self.slots[self.layout.slot_of(entry.key_hash) as usize];
        let last = self.last.map_or(0, |last| last.physical_offset);
        let is_sound = entry.previous == *slot
            && entry.physical_offset >= last
            && entry.physical_offset < log_end;
        if is_sound {
            *slot = self.next;
            self.next += 1;
            self.last = Some(entry);
        }
        is_sound
    }

    /// Removes the `last` entry; `before` is the entry before it.
    fn give_back(&mut self, last: IndexEntry, before: Option<IndexEntry>) {
        self.slots[self.layout.slot_of(last.key_hash) as usize] = last.previous;
        self.next -= 1;
        self.last = before;
    }

    /// Number of slots with a chain, for the header.
    fn used_slots(&self) -> i32 {
        let used = self.slots.iter().filter(|head| **head != 0).count();
        i32::try_from(used).unwrap_or(i32::MAX)
    }
}

fn log_start(log: &impl LogRead) -> i64 {
    log.min_offset().cast_signed()
}

/// Store time of the record at `offset`; None if there is none, or if it is not indexed, like a
/// stand-in record.
fn indexed_record_ms(log: &impl LogRead, offset: u64) -> io::Result<Option<i64>> {
    let mut head = [0; STATED_BYTES];
    let read = log.read_at(offset, &mut head)?;
    let head = &head[..read];
    let is_rollback = |flag: i32| flag & sys_flag::TRANSACTION_MASK == sys_flag::ROLLBACK;
    let is_indexed = matches!(Head::parse(head), Head::Record(_))
        && message::stated_offset(head) == Some(offset.cast_signed())
        && message::stated_sys_flag(head).is_some_and(|flag| !is_rollback(flag));
    Ok(message::stated_store_timestamp(head).filter(|_| is_indexed))
}

fn store_timestamp(log: &impl LogRead, offset: i64) -> Option<i64> {
    at_record(log, offset, |record| record.store_timestamp_ms)
}

/// The result of `look` for the record at `offset`; None if there is no record.
fn at_record<Seen>(
    log: &impl LogRead,
    offset: i64,
    look: impl FnOnce(&RecordView<'_>) -> Seen,
) -> Option<Seen> {
    let mut scanner = LogScanner::from(u64::try_from(offset).ok()?);
    match scanner.step(log, u64::MAX) {
        Ok(Step::Record(bytes)) => RecordView::parse(bytes, CheckCrc::No)
            .ok()
            .as_ref()
            .map(look),
        _ => None,
    }
}
