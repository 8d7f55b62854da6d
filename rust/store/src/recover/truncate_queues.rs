//! Truncates the consume queues to the log.

use super::new_holes::NewHoles;
use super::recovery::Recovery;
use super::seen::{SeenQueues, SeenRecords};
use crate::derive::queues::progress::QueueProgress;
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::directory::log_facts::QueueEnd;
use crate::directory::queue_ends::QueueEnds;
use crate::scan::log_check::LogCheck;
use crate::scan::log_io;
use crate::scan::log_scanner::RECORD_BYTES_MAX;
use crate::scan::repair::Change;
use crate::types::StoreError;
use mq_format::consume_queue::QueueEntry;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{CheckCrc, Head, RecordView, SCHEDULE_TOPIC};
use mq_format::multi_dispatch;

impl Recovery<'_> {
    /// Truncates the queues to the trusted part, and further to the part that matches the log.
    /// Returns the log offset at which dispatch must start to complete them. Dispatch derives the
    /// cut entries again; entries that are right already are not written.
    ///
    /// Entries of records at or after `trusted_to` may be lost or torn, or point to lost records.
    pub(super) fn truncate_queues(
        &self,
        queues: &ConsumeQueues,
        (seen, ends): (&SeenQueues, &QueueEnds),
        trusted_to: u64,
        log_end: u64,
    ) -> Result<u64, StoreError> {
        let levels = self.settings.levels()?;
        let is_rebuilt = trusted_to <= self.log.min_offset();
        let mut newest = 0;
        let mut is_rebuilding = false;
        let all = queues.all();
        let mut progress = QueueProgress::new(self.clock, "checking consume queues", all.len());
        for queue in all {
            progress.step();
            // If nothing is trusted, a queue without its first file must be rebuilt.
            if is_rebuilt && self.is_headless(&queue) && !queues.begins_deleted(&queue) {
                tracing::warn!(
                    topic = queue.topic(),
                    queue_id = queue.queue_id(),
                    "rebuilding a consume queue: it does not match the log"
                );
                queues.remove(&queue)?;
                is_rebuilding = true;
                continue;
            }
            let before = queue.max_offset();
            let is_short = self.is_short(queues, &queue, ends);
            let keep_to = match self.can_make_again(&queue) {
                true => trusted_to,
                false => self.fitting_to(&queue, trusted_to, log_end)?,
            };
            queue.truncate(keep_to.cast_signed())?;
            self.cut_wrong_end(&queue, &levels)?;
            let from = if is_rebuilt {
                None
            } else if queue.is_without_entries() {
                // The queue was created for a message that was lost, or damage emptied it.
                Some(0)
            } else if is_short || self.was_clean {
                let is_cut = is_short || queue.max_offset() < before;
                is_cut.then(|| queue.end_physical().cast_unsigned())
            } else {
                self.gap_before(&queue, seen.of(&queue), before, &levels)?
            };
            if let Some(from) = from {
                self.log_lost(&queue, before, from);
                queues.lost_entries(&queue);
            }
            newest = newest.max(queue.end_physical().cast_unsigned());
            queues.flush_later(&queue);
        }
        if is_rebuilding || newest == 0 {
            return Ok(self.log.min_offset());
        }
        // After a clean stop every queue is complete up to the newest entry of any queue.
        let is_whole = trusted_to == log_end && self.was_clean;
        let from = if is_whole { newest } else { trusted_to };
        Ok(from.min(queues.lost_from().unwrap_or(from)))
    }

    /// Log offset of records that a queue lost before the checked part, whose first record is in
    /// `seen`. `before` is the former end of the queue.
    fn gap_before(
        &self,
        queue: &ConsumeQueue,
        seen: Option<SeenRecords>,
        before: i64,
        levels: &DelayLevels,
    ) -> Result<Option<u64>, StoreError> {
        let (first, end) = queue.written();
        let next = seen.map_or(before, |seen| seen.first);
        if (first..end).contains(&next) {
            let entry = queue.stored_entry(next).filter(QueueEntry::is_used);
            let is_right = match entry {
                Some(entry) => self.is_entry_of(queue, next, &entry, levels)?,
                None => false,
            };
            if !is_right {
                // The log has this record at a later offset.
                queue.cut_to(next)?;
                self.cut_wrong_end(queue, levels)?;
            }
        }
        let is_gap = queue.max_offset() < next;
        Ok(is_gap.then(|| queue.end_physical().cast_unsigned()))
    }

    fn log_lost(&self, queue: &ConsumeQueue, before: i64, from: u64) {
        tracing::warn!(
            topic = queue.topic(),
            queue_id = queue.queue_id(),
            from_queue_offset = queue.max_offset(),
            to_queue_offset = before,
            from_log_offset = from,
            "the end of a consume queue contradicts the commit log; rebuilding its entries from \
             the log"
        );
    }

    /// Whether a queue starts after offset 0 although its earlier records have not expired.
    fn is_headless(&self, queue: &ConsumeQueue) -> bool {
        let (first, _) = queue.written();
        let entry = queue.stored_entry(first).filter(|_| first > 0);
        let log_start = self.log.min_offset().cast_signed();
        entry.is_some_and(|entry| !entry.is_hole() && entry.physical_offset >= log_start)
    }

    /// Whether dispatch can rebuild a queue exactly. It cannot rebuild bitmaps of subscribers that
    /// are not known yet, nor multi-dispatch entries unless multi-dispatch is enabled.
    fn can_make_again(&self, queue: &ConsumeQueue) -> bool {
        let is_light = multi_dispatch::is_lmq(queue.topic());
        queue.ext.is_none() && (self.settings.multi_dispatch.enabled || !is_light)
    }

    /// Log offset up to which all entries of a queue point to their records and none is missing.
    fn fitting_to(
        &self,
        queue: &ConsumeQueue,
        trusted_to: u64,
        log_end: u64,
    ) -> Result<u64, StoreError> {
        let (mut keep_to, mut is_bad) = (log_end, false);
        for (offset, entry) in queue.entries_backwards() {
            let entry = entry.filter(QueueEntry::is_used);
            let unit_end = entry.map_or(0, |entry| entry.end_offset().cast_unsigned());
            match entry {
                Some(entry) if entry.is_hole() => {}
                Some(_) if unit_end <= trusted_to => {
                    return Ok(if is_bad { trusted_to } else { keep_to });
                }
                Some(entry) if self.is_record_of(queue, offset, &entry)? => {
                    keep_to = if is_bad { unit_end } else { keep_to };
                    is_bad = false;
                }
                _ => is_bad = true,
            }
        }
        Ok(if is_bad { trusted_to } else { keep_to })
    }

    /// Cuts off entries at the end of each queue that contradict their records: damage of the end
    /// of a file may have begun within them. True if there were any. The log must be valid.
    pub(super) fn cut_wrong_ends(&self, queues: &ConsumeQueues) -> Result<bool, StoreError> {
        let levels = self.settings.levels()?;
        let mut is_cut = false;
        let all = queues.all();
        let mut progress = QueueProgress::new(self.clock, "checking consume queues", all.len());
        for queue in all {
            progress.step();
            let before = queue.max_offset();
            if self.cut_wrong_end(&queue, &levels)? {
                self.log_lost(&queue, before, queue.end_physical().cast_unsigned());
                queues.lost_entries(&queue);
                is_cut = true;
            }
        }
        Ok(is_cut)
    }

    /// Cuts off entries at the end of a queue that contradict the log; true if there were any.
    fn cut_wrong_end(
        &self,
        queue: &ConsumeQueue,
        levels: &DelayLevels,
    ) -> Result<bool, StoreError> {
        let mut cut = None;
        for (offset, entry) in queue.entries_backwards() {
            match entry {
                Some(entry) if entry.is_hole() => {}
                Some(entry) if self.is_right_end(queue, offset, &entry, levels)? => break,
                _ => cut = Some(offset),
            }
        }
        cut.map_or(Ok(()), |cut| queue.cut_to(cut))?;
        Ok(cut.is_some())
    }

    /// Whether the last entry of a queue may stay: it is right, or its record and the one of the
    /// previous entry have expired.
    fn is_right_end(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        entry: &QueueEntry,
        levels: &DelayLevels,
    ) -> Result<bool, StoreError> {
        if !entry.is_used() {
            return Ok(false);
        }
        if entry.end_offset() > self.log.min_offset().cast_signed() {
            return self.is_entry_of(queue, offset, entry, levels);
        }
        let before = match offset > queue.written().0 {
            true => queue.stored_entry(offset - 1),
            false => None,
        };
        let is_record = |before: &QueueEntry| before.is_used() && !before.is_hole();
        let before = before.filter(is_record);
        Ok(before.is_none_or(|before| before.end_offset() <= entry.physical_offset))
    }

    /// Whether dispatch would derive this entry from the record that belongs at its offset.
    fn is_entry_of(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        entry: &QueueEntry,
        levels: &DelayLevels,
    ) -> Result<bool, StoreError> {
        self.is_right(queue, offset, entry, |record| {
            // Java's recovery does not know the due time of delayed messages. Extension addresses
            // were checked before.
            let is_told = queue.topic() == SCHEDULE_TOPIC || entry.is_extension_address();
            is_told || record.tags_code(levels) == entry.tags_code
        })
    }

    /// Whether an entry points to the record that belongs at its offset.
    pub(super) fn is_record_of(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        entry: &QueueEntry,
    ) -> Result<bool, StoreError> {
        self.is_right(queue, offset, entry, |_| true)
    }

    fn is_right(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        entry: &QueueEntry,
        has_tags_code: impl Fn(&RecordView<'_>) -> bool,
    ) -> Result<bool, StoreError> {
        let size = usize::try_from(entry.size_bytes).unwrap_or(0);
        let start = entry.physical_offset.cast_unsigned();
        let room = self.log.next_file_start(start).saturating_sub(start);
        if size as u64 > room.min(RECORD_BYTES_MAX as u64) {
            return Ok(false);
        }
        let mut bytes = vec![0; size];
        let read = self.log.read_at(start, &mut bytes).map_err(log_io)?;
        if Head::parse(&bytes[..read]) != Head::Record(size) {
            return Ok(false);
        }
        let record = RecordView::parse(&bytes[..read], CheckCrc::No);
        Ok(record.is_ok_and(|record| {
            let is_own = record.topic == queue.topic()
                && record.queue_id == queue.queue_id()
                && record.queue_offset == offset;
            let is_here = record.physical_offset == entry.physical_offset;
            let is_there = is_own || is_dispatched_to(&record, queue.topic(), offset);
            is_here && is_there && has_tags_code(&record)
        }))
    }

    /// Updates the queues for records that were removed or extended. Adds the new holes to `holes`.
    pub(super) fn repair_entries(
        &self,
        queues: &ConsumeQueues,
        changes: &[Change],
        log_end: u64,
        holes: &mut NewHoles,
    ) -> Result<(), StoreError> {
        for queue in queues.all().iter().filter(|_| !changes.is_empty()) {
            queue.truncate(log_end.cast_signed())?;
            for change in changes {
                if let Some(range) = queue.repair(change)? {
                    holes.add(queue, range);
                }
            }
            queue.flush()?;
        }
        Ok(())
    }

    /// Queues whose last record was lost. Without a hole the next message would reuse its queue
    /// offset, and consumers of the lost message would skip the new one. The same holds for a
    /// damaged queue whose records have all expired.
    pub(super) fn lost_tails(&self, queues: &ConsumeQueues) -> Vec<QueueEnd> {
        let log_start = self.log.min_offset().cast_signed();
        let expired = queues.lost_ends().iter();
        let expired = expired.filter(|lost| lost.end_physical <= log_start);
        let mut tails: Vec<_> = expired
            .map(|lost| QueueEnd {
                topic: lost.topic.clone(),
                queue_id: lost.queue_id,
                end: lost.end,
            })
            .collect();
        for queue in queues.all() {
            let (first, end) = queue.written();
            let is_hole = |entry: QueueEntry| entry.is_hole();
            if end > first && queue.stored_entry(end - 1).is_some_and(is_hole) {
                let (topic, queue_id) = (queue.topic().to_owned(), queue.queue_id());
                tails.push(QueueEnd {
                    topic,
                    queue_id,
                    end,
                });
            }
        }
        tails
    }

    /// Queues with entries beyond a log that lost records which the checkpoint calls durable. This
    /// is no torn tail, so consumers may have seen the messages with these queue offsets.
    pub(super) fn lost_durable_ends(
        &self,
        queues: &ConsumeQueues,
        check: &LogCheck<'_>,
        log_end: u64,
    ) -> Vec<QueueEnd> {
        let last_ms = check.last_store_timestamp_ms();
        let durable_ms = self.checkpoint.log_timestamp_ms();
        // A checkpoint that is not trusted has no safe time.
        if self.was_clean || durable_ms <= last_ms || self.safe_timestamp_ms() == 0 {
            return Vec::new();
        }
        let mut tails = Vec::new();
        for queue in queues.all() {
            if queue.end_physical() > log_end.cast_signed() {
                let (topic, queue_id) = (queue.topic().to_owned(), queue.queue_id());
                let end = queue.max_offset();
                tails.push(QueueEnd {
                    topic,
                    queue_id,
                    end,
                });
            }
        }
        if !tails.is_empty() {
            tracing::error!(
                log_end,
                last_ms,
                durable_ms,
                queues = tails.len(),
                "the log ends before records that were flushed according to the checkpoint; their \
                 queue offsets are left empty and not reused"
            );
        }
        tails
    }

    /// Removes queues that still have no entry. Otherwise the next start would search the log for
    /// them.
    pub(super) fn remove_unused(queues: &ConsumeQueues) -> Result<(), StoreError> {
        let all = queues.all().into_iter();
        { all }
            .filter(|queue| queue.is_without_entries())
            .try_for_each(|queue| queues.remove(&queue))
    }

    /// Adds the holes at the ends of queues again, unless records follow them.
    pub(super) fn put_back(queues: &ConsumeQueues, tails: Vec<QueueEnd>) -> Result<(), StoreError> {
        for tail in tails {
            if let Some(queue) = queues.for_record(&tail.topic, tail.queue_id) {
                queue.pad_to(tail.end)?;
                queue.flush()?;
            }
        }
        Ok(())
    }
}

/// Whether multi-dispatch queued a record in `topic` at this offset.
pub(super) fn is_dispatched_to(record: &RecordView<'_>, topic: &str, offset: i64) -> bool {
    multi_dispatch::dispatches(record.properties).any(|found| found == (topic, offset))
}
