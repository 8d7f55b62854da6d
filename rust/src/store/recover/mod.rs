//! Opening a store: find the end of the log, mend or rebuild what is derived from it.
//!
//! 1. Load queues and index; see where RocketMQ would start checking the log.
//! 2. Check records from there; end the log at a torn tail, heal damage before valid records.
//! 3. Cut the log, zeroing what follows in its file; after an unclean stop write and sync again
//!    what lies beyond the checkpoint, because a failed fsync may have left clean-looking pages.
//! 4. Cut queues and index to the log; take in what they miss.

pub(super) mod damage;
mod heal;
mod index_check;
mod log_check;
mod marker;
mod missing;
mod queue;
mod settle;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub(super) use self::heal::heal;
use self::index_check::Checked;
use self::log_check::LogCheck;
pub(in crate::store) use self::log_check::good_record;
pub(super) use self::marker::Marker;
use super::checkpoint::Checkpoint;
use super::consume_queues::ConsumeQueues;
use super::dispatch::Derived;
use super::files::io_error;
use super::index::IndexFiles;
use super::index_writer::IndexWriter;
use super::settings::Settings;
use super::types::StoreError;
use super::walk::Walk;
use crate::clock::Clock;
use crate::format::delay_levels::DelayLevels;
use crate::format::message::{CheckCrc, RecordView};
use crate::log::{Access, Files, Segments};

/// Files checked from the end after a clean stop, as RocketMQ does.
const CHECKED_FILES: usize = 3;
/// Bytes rewritten at once.
const REWRITE_BYTES: usize = 4 << 20;

/// What recovery is told.
pub(crate) struct Recovery<'a, F: Files> {
    /// Root directory of the store.
    pub root: &'a Path,
    /// The log, just opened.
    pub log: &'a Segments<F>,
    /// The checkpoint, just opened.
    pub checkpoint: &'a Checkpoint,
    /// What the store is opened with.
    pub settings: &'a Settings,
    /// Names new index files.
    pub clock: &'a Arc<dyn Clock>,
    /// Whether `abort` was missing.
    pub was_clean: bool,
}

/// A store whose derived files are complete up to the end of its log.
pub(crate) struct Recovered {
    /// End of the log, where the first append goes.
    pub log_end: u64,
    /// The consume queues; their maxima are the next queue offsets.
    pub queues: Arc<ConsumeQueues>,
    /// The index, if enabled.
    pub index: Option<Arc<IndexFiles>>,
    /// What the dispatcher goes on with, from `log_end`.
    pub derived: Derived,
    /// Damaged ranges that were healed.
    pub healed: usize,
    /// Store time of the last record, milliseconds since the epoch, 0 for an empty log.
    pub last_store_timestamp_ms: i64,
}

impl<F: Files> Recovery<'_, F> {
    /// Brings the store into a state that can be appended to.
    pub(crate) fn run(self) -> Result<Recovered, StoreError> {
        let settings = self.settings;
        let queues = ConsumeQueues::open(self.root, settings, !self.was_clean)?;
        let index = IndexFiles::load(
            self.root,
            settings.index_slots,
            settings.index_entries,
            Access::Append,
        )?;
        let index = settings.index_enabled.then_some(index);

        let marker = Marker::take(self.root)?.filter(|_| self.was_clean);
        let queues = Arc::new(queues);
        let index = index.map(Arc::new);
        if let Some(marker) = &marker
            && marker
                .fits(self.log, &queues, index.as_deref())
                .map_err(log_io)?
        {
            return self.untouched(marker, queues, index);
        }
        self.checked(marker.as_ref(), queues, index)
    }

    /// A store that is as it was closed.
    fn untouched(
        &self,
        marker: &Marker,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
    ) -> Result<Recovered, StoreError> {
        self.log.truncate_to(marker.log_end).map_err(log_io)?;
        let writer = match &index {
            Some(index) => Some(IndexWriter::resume(
                Arc::clone(index),
                Arc::clone(self.clock),
            )?),
            None => None,
        };
        let derived = self.derived(&queues, writer)?;
        self.recovered(
            marker.log_end,
            marker.last_store_timestamp_ms,
            0,
            derived,
            queues,
            index,
        )
    }

    /// A store whose log and derived files have to be looked at.
    fn checked(
        &self,
        marker: Option<&Marker>,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
    ) -> Result<Recovered, StoreError> {
        let known_end = self.known_end(&queues, index.as_deref());
        let mut check = LogCheck::new(self.root, self.log, self.settings.heal_damage, known_end);
        let start = self.check_start()?;
        let log_end = check.run(start, None, |offset, record| {
            missing::dispatch_from(&queues, self.settings.multi_dispatch, offset, record)
        })?;
        self.log.truncate_to(log_end).map_err(log_io)?;
        if !self.was_clean {
            let unsafe_from = check.first_after(self.checkpoint.safe_timestamp_ms());
            self.rewrite(unsafe_from.unwrap_or(log_end), log_end)?;
        }

        // Units behind this may be lost, torn, or point to what is lost; they are made again.
        let trusted_to = if self.was_clean { log_end } else { start };
        let healed_from = check.healed_ranges().first().map(|(from, _)| *from);
        let trusted_to = trusted_to.min(healed_from.unwrap_or(log_end));
        let mut dispatch_from = self.settle_queues(&queues, trusted_to, log_end)?;
        if let Some(missing) = check.missing_from() {
            dispatch_from = dispatch_from.min(missing);
        }
        if marker.is_some_and(|marker| marker.misses_queues(&queues)) {
            dispatch_from = 0;
        }
        let writer = match &index {
            Some(index) => {
                let (writer, from) = self.settle_index(index, log_end)?;
                dispatch_from = dispatch_from.min(from.unwrap_or(log_end));
                Some(writer)
            }
            None => None,
        };
        let dispatch_from = dispatch_from.max(self.log.min_offset());
        if dispatch_from < start {
            // Older files were not checked; what is read from them must be.
            check.run(dispatch_from, Some(start), |_, _| None)?;
        }
        let mut derived = self.derived(&queues, writer)?;
        derived.follow(self.log, &mut Walk::from(dispatch_from), log_end, None)?;
        queues.flush()?;
        let last_ms = check.last_store_timestamp_ms();
        self.recovered(
            log_end,
            last_ms,
            check.healed_ranges().len(),
            derived,
            queues,
            index,
        )
    }

    fn recovered(
        &self,
        log_end: u64,
        last_store_timestamp_ms: i64,
        healed: usize,
        mut derived: Derived,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
    ) -> Result<Recovered, StoreError> {
        for queue in queues.all() {
            queue.set_min_from(self.log.min_offset().cast_signed());
        }
        derived.complete_to(last_store_timestamp_ms);
        Ok(Recovered {
            log_end,
            queues,
            index,
            derived,
            healed,
            last_store_timestamp_ms,
        })
    }

    fn derived(
        &self,
        queues: &Arc<ConsumeQueues>,
        index: Option<IndexWriter>,
    ) -> Result<Derived, StoreError> {
        let derived = Derived::new(Arc::clone(queues), index, self.levels()?);
        Ok(derived.with_multi_dispatch(self.settings.multi_dispatch))
    }

    fn levels(&self) -> Result<DelayLevels, StoreError> {
        let text = &self.settings.delay_levels;
        DelayLevels::parse(text).ok_or_else(|| StoreError::Setting {
            key: "messageDelayLevel",
            value: text.clone(),
            what: "delays with unit s, m, h or d, separated by spaces",
        })
    }

    /// Up to where the derived files know of records. After a clean stop all are, so bad bytes
    /// behind that place are the unwritten rest of the file; after another stop anything is
    /// possible.
    fn known_end(&self, queues: &ConsumeQueues, index: Option<&IndexFiles>) -> Option<u64> {
        if !self.was_clean {
            return None;
        }
        let of_queues = queues.all().iter().map(|queue| queue.end_physical()).max();
        let of_index = index.and_then(IndexFiles::end_physical_offset);
        Some(of_queues.max(of_index).unwrap_or(0).cast_unsigned())
    }

    /// Where RocketMQ starts checking the log.
    fn check_start(&self) -> Result<u64, StoreError> {
        let starts = self.log.starts();
        let Some(first) = starts.first() else {
            return Ok(0);
        };
        if self.was_clean {
            return Ok(starts[starts.len().saturating_sub(CHECKED_FILES)]);
        }
        let safe_ms = self.checkpoint.safe_timestamp_ms();
        for start in starts.iter().rev() {
            let store_timestamp_ms = first_store_timestamp(self.log, *start)?;
            if store_timestamp_ms.is_some_and(|time| time > 0 && time <= safe_ms) {
                return Ok(*start);
            }
        }
        Ok(*first)
    }

    /// Writes and syncs a range again.
    fn rewrite(&self, from: u64, to: u64) -> Result<(), StoreError> {
        let mut bytes = vec![0; REWRITE_BYTES.min(usize::try_from(to - from).unwrap_or(0))];
        let mut at = from;
        while at < to {
            let count = self.log.read_at(at, &mut bytes).map_err(log_io)?;
            if count == 0 {
                break;
            }
            self.log.overwrite(at, &bytes[..count]).map_err(log_io)?;
            at += count as u64;
        }
        Ok(())
    }

    /// Cuts the index to what makes sense; returns the writer and from where it must be fed, if
    /// not from the end of the queues.
    fn settle_index(
        &self,
        index: &Arc<IndexFiles>,
        log_end: u64,
    ) -> Result<(IndexWriter, Option<u64>), StoreError> {
        let is_whole = self.check_index(index, log_end)?;
        let writer = IndexWriter::resume(Arc::clone(index), Arc::clone(self.clock))?;
        let from = match writer.end_physical_offset() {
            Some(end) => (!is_whole || !self.was_clean).then_some(end.cast_unsigned()),
            None => Some(self.log.min_offset()),
        };
        Ok((writer, from))
    }

    /// Checks the files that may be torn or point beyond the log; false if something was cut.
    fn check_index(&self, index: &IndexFiles, log_end: u64) -> Result<bool, StoreError> {
        let durable_ms = self.checkpoint.index_timestamp_ms();
        let files = index.files();
        for (at, file) in files.iter().enumerate() {
            let failed = || io_error(file.path());
            let header = file.header().map_err(failed())?;
            // The next file may begin in the millisecond in which the last durable one ends; a
            // header that counts nothing may be a file's first one, or lost.
            let is_doubtful = header.end_timestamp_ms >= durable_ms || header.index_count <= 1;
            let is_torn = !self.was_clean && is_doubtful;
            if !is_torn && header.end_physical_offset < log_end.max(1).cast_signed() {
                continue;
            }
            let first_to_go = match index_check::check(file, self.log, log_end).map_err(failed())? {
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

fn first_store_timestamp<F: Files>(
    log: &Segments<F>,
    start: u64,
) -> Result<Option<i64>, StoreError> {
    let mut walk = Walk::from(start);
    let step = walk.step(log, log.next_file_start(start)).map_err(log_io)?;
    let super::walk::Step::Record(bytes) = step else {
        return Ok(None);
    };
    let record = RecordView::parse(bytes, CheckCrc::No).ok();
    Ok(record.map(|record| record.store_timestamp_ms))
}

fn log_io(source: std::io::Error) -> StoreError {
    io_error("commit log".as_ref())(source)
}
