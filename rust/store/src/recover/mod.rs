//! Recovery when a store is opened: finds the end of the log, and repairs or rebuilds derived
//! files.
//!
//! 1. Load queues and index; determine where RocketMQ would start its check of the log.
//! 2. Check records from there. Truncate the log at a torn tail; repair damage before valid
//!    records.
//! 3. Truncate the log, zeroing the rest of its file. After an unclean stop, write and sync the
//!    part after the checkpoint again, because a failed fsync may have left pages that are marked
//!    clean but not on disk.
//! 4. Truncate queues and index to the log; dispatch the records that they lack.

mod clean_stop;
mod cross_check;
mod index_check;
mod known_ends;
mod log_end;
mod missing_entries;
mod new_holes;
mod queue;
mod recovery;
mod seen;
mod started_repairs;
mod stated_places;
#[cfg(test)]
mod tests;
mod truncate_queues;

use std::sync::Arc;

pub use self::clean_stop::{CleanStop, LogEnd};
use self::missing_entries::MissingEntries;
use self::new_holes::NewHoles;
pub(crate) use self::recovery::Recovery;
use self::seen::{SeenQueues, SeenRecords};
use crate::derive::dispatch::Dispatch;
use crate::derive::index::files::IndexFiles;
use crate::derive::index::writer::IndexWriter;
use crate::derive::queues::table::ConsumeQueues;
use crate::directory::log_facts::{LogFacts, QueueEnd};
use crate::directory::queue_ends::QueueEnds;
use crate::files::io_error;
use crate::scan::log_check::LogCheck;
use crate::scan::log_scanner::LogScanner;
use crate::scan::repair::Change;
use crate::scan::{LOG, log_io};
use crate::types::StoreError;
use mq_log::Access;

/// Bytes rewritten at once.
const REWRITE_BYTES: usize = 4 << 20;

/// A store whose derived files are complete up to the end of its log.
pub(crate) struct Recovered {
    /// End of the log; the first append goes there.
    pub log_end: u64,
    /// The consume queues; their ends are the next queue offsets.
    pub queues: Arc<ConsumeQueues>,
    /// The index, if enabled.
    pub index: Option<Arc<IndexFiles>>,
    /// State with which the dispatcher continues at `log_end`.
    pub derived: Dispatch,
    /// Number of repaired ranges.
    pub repaired: usize,
    /// Store time of the last record, milliseconds since the epoch; 0 for an empty log.
    pub last_store_timestamp_ms: i64,
}

/// A log with a known end, and the results of its check.
struct CheckedLog<'a> {
    /// Repairs that an earlier start has begun.
    facts: LogFacts,
    /// Start of the checked part, and end of the log.
    start: u64,
    end: u64,
    check: LogCheck<'a>,
    missing: MissingEntries<'a>,
    seen: SeenQueues,
    /// The ends of the queues that an earlier run recorded.
    ends: QueueEnds,
    /// Whether a clean stop recorded more entries than exist, or the recorded ends are damaged.
    lacks_entries: bool,
}

/// The part of the log that dispatch is about to process.
struct Feed {
    /// Log offset of its start.
    from: u64,
    /// Log offset from which the log was checked.
    checked_from: u64,
    /// Number of ranges repaired so far, and the changes of the last check.
    repaired: usize,
    changes: Vec<Change>,
    /// The holes that repairs made in queues.
    holes: NewHoles,
    writer: Option<IndexWriter>,
}

impl Recovery<'_> {
    /// Makes the store ready for appends.
    pub(crate) fn run(self) -> Result<Recovered, StoreError> {
        let log = self.root.join("commitlog");
        self.recover().map_err(|error| match error {
            StoreError::Io { path, source } if path == LOG => io_error(&log)(source),
            other => other,
        })
    }

    fn recover(&self) -> Result<Recovered, StoreError> {
        let settings = self.settings;
        let queues = Arc::new(ConsumeQueues::open(self.root, settings, !self.was_clean)?);
        let index = IndexFiles::load(
            self.root,
            settings.index_slots,
            settings.index_entries,
            Access::Append,
        )?;
        let index = settings.index_enabled.then(|| Arc::new(index));
        let clean_stop = self.clean_stop()?;
        let facts = LogFacts::read(self.root)?;
        let (ends, are_ends_damaged) = self.known_ends()?;
        let is_as_left = match &clean_stop {
            Some(clean_stop) if facts.is_complete() && self.is_index_whole(index.as_deref())? => {
                clean_stop
                    .fits(self.log, &queues, index.as_deref())
                    .map_err(log_io)?
            }
            _ => false,
        };
        // Check this before entries that contradict the log are cut off.
        let lacks_entries = are_ends_damaged
            || clean_stop
                .as_ref()
                .is_some_and(|clean_stop| clean_stop.lacks_entries(&queues));
        let start = self.check_start(self.safe_timestamp_ms())?;
        let limit = self.log.max_offset();
        let to = clean_stop
            .as_ref()
            .map_or(limit, |clean_stop| clean_stop.end.log_end);
        let mut check = self.log_check(start, to);
        let missing = MissingEntries::new(self.root, &queues);
        let seen = SeenQueues::default();
        check.fill_gaps(start)?;
        let log_end = self.end_of_log(&mut check, clean_stop.as_ref(), start, |queued| {
            seen.note(&queued)
        })?;
        check.log_result(log_end);
        self.log.truncate_to(log_end).map_err(log_io)?;
        if let Some(clean_stop) = clean_stop
            .as_ref()
            .filter(|_| is_as_left && check.is_sound())
            && self.has_known_ends(&queues, &ends, &missing)
            && !self.cut_wrong_ends(&queues)?
        {
            return self.untouched(clean_stop, Arc::clone(&queues), index);
        }
        let checked = CheckedLog {
            facts,
            start,
            end: log_end,
            check,
            missing,
            seen,
            ends,
            lacks_entries,
        };
        self.completed(checked, clean_stop.as_ref(), &queues, index)
    }

    /// Finishes a store that is unchanged since it was closed.
    fn untouched(
        &self,
        clean_stop: &CleanStop,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
    ) -> Result<Recovered, StoreError> {
        let LogEnd {
            log_end,
            last_store_timestamp_ms,
            ..
        } = clean_stop.end;
        let writer = match &index {
            Some(index) => Some(IndexWriter::resume(
                Arc::clone(index),
                Arc::clone(self.clock),
            )?),
            None => None,
        };
        let derived = self.derived(&queues, writer)?;
        queues.clear_stale()?;
        self.recovered(log_end, last_store_timestamp_ms, 0, derived, queues, index)
    }

    /// Finishes a store whose derived files must follow the results of the check.
    fn completed(
        &self,
        checked: CheckedLog<'_>,
        clean_stop: Option<&CleanStop>,
        queues: &Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
    ) -> Result<Recovered, StoreError> {
        let CheckedLog {
            facts,
            start,
            end: log_end,
            mut check,
            missing,
            seen,
            ends: known_ends,
            lacks_entries,
        } = checked;
        self.repair_contradicted(&mut check, queues, &seen, (start, log_end))?;
        self.rewrite_unsafe(&check, queues, log_end)?;

        let mut dispatch_from = missing.dispatch_start(&seen).unwrap_or(log_end);
        if self.was_clean && clean_stop.is_none() {
            dispatch_from = dispatch_from.min(missing.sample(self.log, start)?.unwrap_or(log_end));
        }
        let misses_queue = self.misses_queue(queues, &known_ends, &missing);
        if missing.remove_headless()? || misses_queue || lacks_entries {
            dispatch_from = 0;
        }
        let (changes, repaired) = self.changes(&check, &facts, start, &missing)?;
        let mut holes = NewHoles::default();
        self.repair_entries(queues, &changes, log_end, &mut holes)?;
        let ends = self.note_lost_ends(&check, queues, facts.queue_ends, log_end)?;
        // Entries after this offset may be lost, torn or wrong, and are derived again.
        let trusted_to = match (lacks_entries, self.was_clean) {
            (true, _) => self.log.min_offset(),
            (false, true) => log_end,
            (false, false) => start,
        };
        let truncated_to =
            self.truncate_queues(queues, (&seen, &known_ends), trusted_to, log_end)?;
        dispatch_from = dispatch_from.min(truncated_to);
        let mut feed = Feed {
            from: dispatch_from,
            checked_from: start,
            repaired,
            changes,
            holes,
            writer: None,
        };
        self.complete_older(&mut feed, queues, index.as_ref(), log_end)?;
        let mut derived = self.derived(queues, feed.writer.take())?;
        derived.follow(self.log, &mut LogScanner::from(feed.from), log_end, None)?;
        self.fill_holes(queues, &feed.holes, log_end)?;
        self.finish_queues(queues, ends, &known_ends, log_end)?;
        let last_ms = check.last_store_timestamp_ms();
        self.checkpoint.lower_to(last_ms)?;
        LogFacts::complete(self.root)?;
        self.recovered(
            log_end,
            last_ms,
            feed.repaired,
            derived,
            Arc::clone(queues),
            index,
        )
    }

    /// Writes the part of the log again that may not be on the disk, after an unclean stop.
    fn rewrite_unsafe(
        &self,
        check: &LogCheck<'_>,
        queues: &ConsumeQueues,
        log_end: u64,
    ) -> Result<(), StoreError> {
        if !self.was_clean {
            let unsafe_from = check.first_after(self.safe_timestamp_ms());
            let unsafe_from = unsafe_from.unwrap_or(log_end);
            self.rewrite(unsafe_from, log_end)?;
            queues.set_durable_to(unsafe_from);
        }
        Ok(())
    }

    /// Collects the former ends of queues that are truncated, and records them until the queues
    /// have reached them again.
    fn note_lost_ends(
        &self,
        check: &LogCheck<'_>,
        queues: &ConsumeQueues,
        earlier: Vec<QueueEnd>,
        log_end: u64,
    ) -> Result<Vec<QueueEnd>, StoreError> {
        let mut ends = self.lost_tails(queues);
        ends.extend(self.lost_durable_ends(queues, check, log_end));
        ends.extend(earlier);
        LogFacts::note_ends(self.root, &ends)?;
        Ok(ends)
    }

    /// Brings the queues to their former ends, flushes them and saves their ends.
    fn finish_queues(
        &self,
        queues: &ConsumeQueues,
        ends: Vec<QueueEnd>,
        known_ends: &QueueEnds,
        log_end: u64,
    ) -> Result<(), StoreError> {
        Self::put_back(queues, ends)?;
        Self::reach_known_ends(queues, known_ends)?;
        queues.flush()?;
        queues.clear_stale()?;
        Self::remove_unused(queues)?;
        let ends_now = queues.ends(log_end);
        if ends_now != *known_ends {
            ends_now.save(self.root)?;
        }
        Ok(())
    }

    /// The changes that queues and index must follow, and the number of ranges that this start and
    /// an unfinished earlier one repaired.
    fn changes(
        &self,
        check: &LogCheck<'_>,
        facts: &LogFacts,
        start: u64,
        missing: &MissingEntries<'_>,
    ) -> Result<(Vec<Change>, usize), StoreError> {
        let (mut changes, mut repaired) = (check.changes().to_vec(), check.repaired_ranges().len());
        for from in facts.extended.iter().filter(|from| **from < start) {
            let to = from + self.log.file_size();
            let mut check = self.log_check(*from, to);
            check.run_known(*from, to, |queued| {
                missing.from(queued.topic, queued.queue_id, SeenRecords::from(&queued));
            })?;
            check.log_result(to);
            repaired += check.repaired_ranges().len();
            changes.extend_from_slice(check.changes());
        }
        changes.extend(self.unfinished(&facts.repairs)?);
        Ok((changes, repaired))
    }

    /// Truncates the index, then checks the older part of the log that dispatch will read and that
    /// was not checked yet. A repair there may truncate the index further.
    fn complete_older(
        &self,
        feed: &mut Feed,
        queues: &ConsumeQueues,
        index: Option<&Arc<IndexFiles>>,
        log_end: u64,
    ) -> Result<(), StoreError> {
        loop {
            if let Some(index) = index {
                let (writer, from) =
                    self.truncate_index(index, (feed.checked_from, log_end), &feed.changes)?;
                feed.from = feed.from.min(from.unwrap_or(log_end));
                feed.writer = Some(writer);
            }
            feed.from = self.record_start(feed.from, log_end)?;
            if feed.from >= feed.checked_from {
                return Ok(());
            }
            let mut older = self.log_check(feed.from, feed.checked_from);
            let end = older.run(feed.from, Some(feed.checked_from), |_| ())?;
            older.log_result(end);
            feed.checked_from = feed.from;
            feed.changes = older.changes().to_vec();
            feed.repaired += older.repaired_ranges().len();
            self.repair_entries(queues, &feed.changes, log_end, &mut feed.holes)?;
        }
    }

    fn recovered(
        &self,
        log_end: u64,
        last_store_timestamp_ms: i64,
        repaired: usize,
        mut derived: Dispatch,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
    ) -> Result<Recovered, StoreError> {
        queues.apply_deletions(log_end)?;
        for queue in queues.all() {
            queue.set_min_from(self.log.min_offset().cast_signed());
            queue.files.forget_kept();
        }
        derived.complete_to(last_store_timestamp_ms);
        Ok(Recovered {
            log_end,
            queues,
            index,
            derived,
            repaired,
            last_store_timestamp_ms,
        })
    }

    fn derived(
        &self,
        queues: &Arc<ConsumeQueues>,
        index: Option<IndexWriter>,
    ) -> Result<Dispatch, StoreError> {
        let derived = Dispatch::new(Arc::clone(queues), index, self.settings.levels()?);
        Ok(derived.with_multi_dispatch(self.settings.multi_dispatch))
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
}
