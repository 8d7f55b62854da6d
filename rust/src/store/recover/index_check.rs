//! Checking an index file entry by entry, and cutting it where it stops making sense.
//!
//! RocketMQ deletes what may be torn and loses its keys. But entries alone determine the file:
//! replaying them gives every slot, and so every link, which shows where the file is torn.

use std::io;
use std::sync::Arc;

use super::Recovery;
use super::heal::Change;
use crate::format::index::{IndexEntry, IndexHeader, IndexLayout};
use crate::format::message::{CheckCrc, RecordView};
use crate::log::Files;
use crate::store::files::io_error;
use crate::store::index::IndexFiles;
use crate::store::index_file::IndexFile;
use crate::store::index_writer::IndexWriter;
use crate::store::types::StoreError;
use crate::store::walk::{LogRead, Step, Walk};

/// Entries read at once.
const CHUNK_ENTRIES: i32 = 4_096;

impl<F: Files> Recovery<'_, F> {
    /// Cuts the index to what makes sense; returns the writer and from where it must be fed, if
    /// not from the end of the queues.
    pub(super) fn settle_index(
        &self,
        index: &Arc<IndexFiles>,
        log_end: u64,
        changes: &[Change],
    ) -> Result<(IndexWriter, Option<u64>), StoreError> {
        let is_whole = self.check_index(index, log_end, changes)?;
        let writer = IndexWriter::resume(Arc::clone(index), Arc::clone(self.clock))?;
        let from = match writer.end_physical_offset() {
            Some(end) => (!is_whole || !self.was_clean).then_some(end.cast_unsigned()),
            None => Some(self.log.min_offset()),
        };
        Ok((writer, from))
    }

    /// Checks the files that may be torn or point beyond the log; false if something was cut.
    fn check_index(
        &self,
        index: &IndexFiles,
        log_end: u64,
        changes: &[Change],
    ) -> Result<bool, StoreError> {
        let durable_ms = self.checkpoint.index_timestamp_ms();
        let files = index.files();
        for (at, file) in files.iter().enumerate() {
            let failed = || io_error(file.path());
            let header = file.header().map_err(failed())?;
            if changes.iter().any(|change| is_in(change, &header)) {
                index.remove_from(at)?;
                return Ok(false);
            }
            // The next file may begin in the millisecond in which the last durable one ends; a
            // header that counts nothing may be a file's first one, or lost.
            let is_doubtful = header.end_timestamp_ms >= durable_ms || header.index_count <= 1;
            let is_absurd = header.index_count.unsigned_abs() > file.layout().entries;
            let is_torn = is_absurd || (!self.was_clean && is_doubtful);
            if !is_torn && header.end_physical_offset < log_end.max(1).cast_signed() {
                continue;
            }
            let first_to_go = match check(file, self.log, log_end).map_err(failed())? {
                // Before a later file an earlier one was full; else its last entries are lost.
                Checked::Whole if at + 1 == files.len() || file.is_full(&header) => continue,
                Checked::Whole | Checked::Cut => at + 1,
                Checked::Useless => at,
            };
            index.remove_from(first_to_go)?;
            return Ok(false);
        }
        Ok(true)
    }
}

/// Whether a file may point to records that healing took away.
fn is_in(change: &Change, header: &IndexHeader) -> bool {
    header.index_count > 1
        && header.begin_physical_offset < change.to.cast_signed()
        && header.end_physical_offset >= change.from.cast_signed()
}

/// What became of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// Every entry makes sense.
    Whole,
    /// Entries were cut off; later files must go.
    Cut,
    /// Nothing in it can be kept.
    Useless,
}

/// The entries that make sense, replayed.
struct Replay {
    layout: IndexLayout,
    slots: Vec<i32>,
    next: i32,
    last: Option<IndexEntry>,
}

/// Checks a file against the log and mends it.
pub(super) fn check(file: &IndexFile, log: &impl LogRead, log_end: u64) -> io::Result<Checked> {
    let header = file.header()?;
    let mut replay = Replay::new(file.layout());
    // A torn header may count more than fits.
    let end = header.index_count.min(file.layout().entries.cast_signed());
    while replay.next < end {
        let count = CHUNK_ENTRIES.min(end - replay.next);
        let entries = file.entries(replay.next, count)?;
        if !entries
            .iter()
            .all(|entry| replay.take(*entry, log_end.cast_signed()))
        {
            break;
        }
    }
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
    let mended = IndexHeader {
        end_physical_offset: last.physical_offset,
        end_timestamp_ms,
        hash_slot_count: replay.used_slots(),
        index_count: replay.next,
        ..header
    };
    if mended != header || !file.has_slots(&replay.slots)? {
        file.rewrite(&mended, &replay.slots)?;
    }
    Ok(if is_whole {
        Checked::Whole
    } else {
        Checked::Cut
    })
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

    /// Takes the next entry if it makes sense there.
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

    /// Slots with a chain, as the header counts them.
    fn used_slots(&self) -> i32 {
        let used = self.slots.iter().filter(|head| **head != 0).count();
        i32::try_from(used).unwrap_or(i32::MAX)
    }
}

fn log_start(log: &impl LogRead) -> i64 {
    log.min_offset().cast_signed()
}

fn store_timestamp(log: &impl LogRead, offset: i64) -> Option<i64> {
    let mut walk = Walk::from(u64::try_from(offset).ok()?);
    match walk.step(log, u64::MAX) {
        Ok(Step::Record(bytes)) => {
            let record = RecordView::parse(bytes, CheckCrc::No).ok()?;
            Some(record.store_timestamp_ms)
        }
        _ => None,
    }
}
