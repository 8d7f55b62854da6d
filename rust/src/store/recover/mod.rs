//! Opening a store: find the end of the log, mend or rebuild what is derived from it.
//!
//! 1. Load queues and index; see where RocketMQ would start checking the log.
//! 2. Check records from there; end the log at a torn tail, heal damage before valid records.
//! 3. Cut the log, zeroing what follows in its file; after an unclean stop write and sync again
//!    what lies beyond the checkpoint, because a failed fsync may have left clean-looking pages.
//! 4. Cut queues and index to the log; take in what they miss.

mod blocks;
pub(super) mod damage;
mod header;
#[cfg(test)]
mod header_tests;
mod heal;
mod index_check;
pub(super) mod log_check;
#[cfg(test)]
mod log_tests;
mod lost;
mod marker;
mod queue;
mod record;
mod settle;
#[cfg(test)]
mod tests;
mod witness;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use self::heal::Change;
pub(super) use self::heal::is_stand_in;
use self::log_check::Queued;
pub(super) use self::log_check::{Left, LogCheck};
use self::lost::LostUnits;
pub(super) use self::marker::{LogEnd, Marker};
pub(in crate::store) use self::record::good_record;
use self::witness::FirstMet;
use super::checkpoint::Checkpoint;
use super::consume_queues::ConsumeQueues;
use super::dispatch::Derived;
use super::files::io_error;
use super::index::IndexFiles;
use super::index_writer::IndexWriter;
use super::settings::Settings;
use super::types::StoreError;
use super::walk::{Step, Walk};
use crate::clock::Clock;
use crate::format::delay_levels::DelayLevels;
use crate::format::message::{CheckCrc, RecordView};
use crate::log::{Access, Files, Segments};

/// Files checked from the end after a clean stop, as RocketMQ does.
const CHECKED_FILES: usize = 3;
/// A checkpoint further ahead of the clock than this is not believed, milliseconds.
const CLOCK_STEP_MS: i64 = 24 * 3600 * 1000;
/// What is called so where its path is not known.
const LOG: &str = "commit log";
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

/// What dispatch is about to take in.
struct Feed {
    /// From where in the log.
    from: u64,
    /// From where on the log was checked.
    checked_from: u64,
    /// Damaged ranges that were healed so far, and what the last check changed.
    healed: usize,
    changes: Vec<Change>,
    writer: Option<IndexWriter>,
}

impl<F: Files> Recovery<'_, F> {
    /// Brings the store into a state that can be appended to.
    pub(crate) fn run(self) -> Result<Recovered, StoreError> {
        let log = self.root.join("commitlog");
        self.recover().map_err(|error| match error {
            StoreError::Io { path, source } if path == LOG => io_error(&log)(source),
            other => other,
        })
    }

    fn recover(&self) -> Result<Recovered, StoreError> {
        let settings = self.settings;
        let queues = ConsumeQueues::open(self.root, settings, !self.was_clean)?;
        let index = IndexFiles::load(
            self.root,
            settings.index_slots,
            settings.index_entries,
            Access::Append,
        )?;
        let index = settings.index_enabled.then_some(index);

        let marker = self.marker()?;
        let queues = Arc::new(queues);
        let index = index.map(Arc::new);
        if let Some(marker) = &marker
            && self.log.missing(1).is_empty()
            && self.is_index_whole(index.as_deref())?
            && marker
                .fits(self.log, &queues, index.as_deref())
                .map_err(log_io)?
            && self.is_sound(marker)?
            && self.has_right_ends(&queues)?
        {
            return self.untouched(marker, queues, index);
        }
        self.checked(marker.as_ref(), queues, index)
    }

    /// What a clean stop recorded, if nobody else wrote the checkpoint since.
    fn marker(&self) -> Result<Option<Marker>, StoreError> {
        let crc = self.checkpoint.crc()?;
        let marker = Marker::read(self.root)?.filter(|marker| marker.checkpoint_crc == crc);
        Ok(marker.filter(|_| self.was_clean))
    }

    /// Whether the files that are checked after a clean stop hold good records up to its end.
    fn is_sound(&self, marker: &Marker) -> Result<bool, StoreError> {
        let log_end = marker.end.log_end;
        let start = self.check_start(0)?.min(log_end);
        let bytes = log_end - start;
        tracing::info!(bytes, from = start, "checking the last commit-log files");
        let started = Instant::now();
        let mut check = self.log_check().finding_only();
        let found = check.run(start, Some(log_end), |_| None);
        let is_sound = match found {
            Err(StoreError::Damaged { .. }) => false,
            found => found.map(|_| !check.has_doubts())?,
        };
        let elapsed_ms = started.elapsed().as_millis();
        tracing::info!(is_sound, elapsed_ms, "checked the last commit-log files");
        Ok(is_sound)
    }

    /// A store that is as it was closed.
    fn untouched(
        &self,
        marker: &Marker,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
    ) -> Result<Recovered, StoreError> {
        let LogEnd {
            log_end,
            last_store_timestamp_ms,
            ..
        } = marker.end;
        self.log.truncate_to(log_end).map_err(log_io)?;
        let writer = match &index {
            Some(index) => Some(IndexWriter::resume(
                Arc::clone(index),
                Arc::clone(self.clock),
            )?),
            None => None,
        };
        let derived = self.derived(&queues, writer)?;
        self.recovered(log_end, last_store_timestamp_ms, 0, derived, queues, index)
    }

    /// A store whose log and derived files have to be looked at.
    fn checked(
        &self,
        marker: Option<&Marker>,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
    ) -> Result<Recovered, StoreError> {
        let safe_ms = self.safe_timestamp_ms();
        let mut check = self.log_check();
        let lost = LostUnits::new(self.root, &queues);
        let start = self.check_start(safe_ms)?;
        check.fill_gaps(start)?;
        let met = FirstMet::default();
        let log_end = self.end_of_log(&mut check, marker, start, |queued| {
            met.note(&queued);
            lost.from(&queued)
        })?;
        self.log.truncate_to(log_end).map_err(log_io)?;
        self.heal_contradicted(&mut check, &queues, &met, start)?;
        if !self.was_clean {
            let unsafe_from = check.first_after(safe_ms);
            self.rewrite(unsafe_from.unwrap_or(log_end), log_end)?;
        }

        let mut dispatch_from = check.missing_from().unwrap_or(log_end);
        if self.was_clean && marker.is_none() {
            dispatch_from = dispatch_from.min(lost.sample(self.log, start)?.unwrap_or(log_end));
        }
        let misses_units = marker.is_some_and(|marker| marker.misses_units(&queues));
        if lost.remove_headless()? || misses_units {
            dispatch_from = 0;
        }
        self.mend_units(&queues, check.changes(), log_end)?;
        let tails = self.lost_tails(&queues);
        // Units behind this may be lost, torn, or point to what is lost; they are made again.
        let trusted_to = match self.was_clean {
            true if misses_units => self.log.min_offset(),
            true => log_end,
            false => start,
        };
        dispatch_from = dispatch_from.min(self.settle_queues(&queues, trusted_to, log_end)?);
        let mut feed = Feed {
            from: dispatch_from,
            checked_from: start,
            healed: check.healed_ranges().len(),
            changes: check.changes().to_vec(),
            writer: None,
        };
        self.settle_older(&mut feed, &queues, index.as_ref(), log_end)?;
        let Feed {
            from,
            healed,
            writer,
            ..
        } = feed;
        let mut derived = self.derived(&queues, writer)?;
        derived.follow(self.log, &mut Walk::from(from), log_end, None)?;
        Self::put_back(&queues, tails)?;
        queues.flush()?;
        let last_ms = check.last_store_timestamp_ms();
        self.recovered(log_end, last_ms, healed, derived, queues, index)
    }

    /// Checks from `start` on; the log ends where a clean stop recorded it, or further on.
    fn end_of_log(
        &self,
        check: &mut LogCheck<'_, F>,
        marker: Option<&Marker>,
        start: u64,
        missing: impl Fn(Queued<'_>) -> Option<u64>,
    ) -> Result<u64, StoreError> {
        let Some(marker) = marker.filter(|marker| marker.end.log_end > start) else {
            return check.run(start, None, missing);
        };
        let is_tail_sound = marker.has_sound_tail(self.log).map_err(log_io)?;
        let end = marker.end.log_end;
        let end = check.run_to_recorded(start, end, is_tail_sound, &missing)?;
        if marker.is_exceeded(self.log).map_err(log_io)? && end == marker.end.log_end {
            return check.run(end, None, missing);
        }
        Ok(end)
    }

    /// Settles the index, then checks what else of the log dispatch is about to read: older files
    /// were not checked. Healing there may take the index further back.
    fn settle_older(
        &self,
        feed: &mut Feed,
        queues: &ConsumeQueues,
        index: Option<&Arc<IndexFiles>>,
        log_end: u64,
    ) -> Result<(), StoreError> {
        loop {
            if let Some(index) = index {
                let (writer, from) =
                    self.settle_index(index, (feed.checked_from, log_end), &feed.changes)?;
                feed.from = feed.from.min(from.unwrap_or(log_end));
                feed.writer = Some(writer);
            }
            feed.from = self.record_start(feed.from, log_end)?;
            if feed.from >= feed.checked_from {
                return Ok(());
            }
            let mut older = self.log_check();
            older.run(feed.from, Some(feed.checked_from), |_| None)?;
            feed.checked_from = feed.from;
            feed.changes = older.changes().to_vec();
            feed.healed += older.healed_ranges().len();
            self.mend_units(queues, &feed.changes, log_end)?;
        }
    }

    fn log_check(&self) -> LogCheck<'_, F> {
        let safe_ms = self.safe_timestamp_ms();
        let left = match self.was_clean {
            true => Left::Clean,
            false => Left::Unclean(safe_ms),
        };
        let heals = self.settings.heal_damage;
        let check = LogCheck::new(self.root, self.log, heals, left);
        check.with_multi_dispatch(self.settings.multi_dispatch)
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

    /// The checkpoint's time, if it can be true: a bit flipped in it must not vouch for anything.
    fn safe_timestamp_ms(&self) -> i64 {
        let safe_ms = self.checkpoint.safe_timestamp_ms();
        let latest_ms = self.clock.wall_ms().saturating_add(CLOCK_STEP_MS);
        if safe_ms <= latest_ms { safe_ms } else { 0 }
    }

    /// Where RocketMQ starts checking the log.
    fn check_start(&self, safe_ms: i64) -> Result<u64, StoreError> {
        let starts = self.log.starts();
        let Some(first) = starts.first() else {
            return Ok(0);
        };
        if self.was_clean {
            return Ok(starts[starts.len().saturating_sub(CHECKED_FILES)]);
        }
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

    /// `offset` if a record or filler starts there, as queues and index say; else where its file
    /// starts: healing may have changed the log under them.
    fn record_start(&self, offset: u64, log_end: u64) -> Result<u64, StoreError> {
        let offset = offset.max(self.log.min_offset());
        if offset >= log_end {
            return Ok(log_end);
        }
        let mut walk = Walk::from(offset);
        let is_start = match walk.step(self.log, log_end).map_err(log_io)? {
            Step::Record(bytes) => good_record(offset, bytes).is_some(),
            Step::Blank => true,
            Step::Neither | Step::End => false,
        };
        let file_start = self.log.next_file_start(offset) - self.log.file_size();
        Ok(if is_start { offset } else { file_start })
    }
}

fn first_store_timestamp<F: Files>(
    log: &Segments<F>,
    start: u64,
) -> Result<Option<i64>, StoreError> {
    let mut walk = Walk::from(start);
    let step = walk.step(log, log.next_file_start(start)).map_err(log_io)?;
    let Step::Record(bytes) = step else {
        return Ok(None);
    };
    let record = RecordView::parse(bytes, CheckCrc::No).ok();
    Ok(record.map(|record| record.store_timestamp_ms))
}

fn log_io(source: std::io::Error) -> StoreError {
    io_error(LOG.as_ref())(source)
}
