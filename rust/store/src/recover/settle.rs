//! Cutting the consume queues to the log.

use super::heal::Change;
use super::log_check::LogCheck;
use super::recovery::{Recovery, log_io};
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::directory::log_facts::QueueEnd;
use crate::records::walk::{Step, Walk};
use crate::types::StoreError;
use mq_format::consume_queue::QueueEntry;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{CheckCrc, RecordView, SCHEDULE_TOPIC};
use mq_format::multi_dispatch;

impl Recovery<'_> {
    /// Cuts the queues to what is trusted and drops those that do not fit the log; returns where
    /// dispatch must start so that the queues are complete.
    ///
    /// Units of records at or beyond `trusted_to` may be lost, torn, or point to what is lost.
    pub(super) fn settle_queues(
        &self,
        queues: &ConsumeQueues,
        trusted_to: u64,
        log_end: u64,
    ) -> Result<u64, StoreError> {
        let mut newest = 0;
        let mut is_rebuilding = false;
        for queue in queues.all() {
            let keep_to = match self.can_make_again(&queue) {
                true => trusted_to,
                false => self.fitting_to(&queue, trusted_to, log_end)?,
            };
            // Where nothing is trusted, a queue whose first file is missing must not stay.
            let is_headless = trusted_to <= self.log.min_offset()
                && self.is_headless(&queue)
                && !queues.begins_deleted(&queue);
            queue.truncate(keep_to.cast_signed())?;
            if !is_headless && self.fits_log(&queue)? {
                newest = newest.max(queue.end_physical().cast_unsigned());
            } else {
                tracing::warn!(
                    topic = queue.topic(),
                    queue_id = queue.queue_id(),
                    "consume queue does not match the log, building it anew"
                );
                queues.remove(&queue)?;
                is_rebuilding = true;
                continue;
            }
            queues.flush_later(&queue);
        }
        if is_rebuilding || newest == 0 {
            return Ok(self.log.min_offset());
        }
        // After a clean stop every queue is complete up to the newest unit of any.
        let is_whole = trusted_to == log_end && self.was_clean;
        let from = if is_whole { newest } else { trusted_to };
        Ok(from.min(queues.lost_from().unwrap_or(from)))
    }

    /// Whether a queue begins at a later offset than 0, and not because earlier records expired.
    fn is_headless(&self, queue: &ConsumeQueue) -> bool {
        let (first, _) = queue.written();
        let unit = queue.unit(first).filter(|_| first > 0);
        let log_start = self.log.min_offset().cast_signed();
        unit.is_some_and(|unit| !unit.is_filler() && unit.physical_offset >= log_start)
    }

    /// Whether dispatch gives a queue the units it had: not the bitmaps of subscribers that are
    /// not known yet, nor units of other topics' messages unless that is enabled.
    fn can_make_again(&self, queue: &ConsumeQueue) -> bool {
        let is_light = multi_dispatch::is_lmq(queue.topic());
        queue.ext.is_none() && (self.settings.multi_dispatch.enabled || !is_light)
    }

    /// Up to where in the log a queue's units each point to their record, and none is missing.
    fn fitting_to(
        &self,
        queue: &ConsumeQueue,
        trusted_to: u64,
        log_end: u64,
    ) -> Result<u64, StoreError> {
        let (first, end) = queue.written();
        let (mut keep_to, mut is_bad) = (log_end, false);
        for offset in (first..end).rev() {
            let unit = queue.unit(offset).filter(QueueEntry::is_used);
            let unit_end = unit.map_or(0, |unit| unit.end_offset().cast_unsigned());
            match unit {
                Some(unit) if unit.is_filler() => {}
                Some(_) if unit_end <= trusted_to => {
                    return Ok(if is_bad { trusted_to } else { keep_to });
                }
                Some(unit) if self.is_record_of(queue, offset, &unit)? => {
                    keep_to = if is_bad { unit_end } else { keep_to };
                    is_bad = false;
                }
                _ => is_bad = true,
            }
        }
        Ok(if is_bad { trusted_to } else { keep_to })
    }

    /// Whether the last unit of a queue points to that queue's record.
    fn fits_log(&self, queue: &ConsumeQueue) -> Result<bool, StoreError> {
        let Some((offset, entry)) = queue.last_record() else {
            return Ok(true);
        };
        if !entry.is_used() {
            // A hole before the files that were walked.
            return Ok(false);
        }
        // What lies before the log has expired.
        let has_expired = entry.end_offset() <= self.log.min_offset().cast_signed();
        Ok(has_expired || self.is_record_of(queue, offset, &entry)?)
    }

    /// Whether the last unit of each queue is as its record says. Those that are not are cut: what
    /// damaged the end of a file may have begun within them. The log must be sound.
    pub(super) fn has_right_ends(&self, queues: &ConsumeQueues) -> Result<bool, StoreError> {
        let (start, levels) = (self.log.min_offset().cast_signed(), self.settings.levels()?);
        let mut are_right = true;
        for queue in queues.all() {
            let Some((offset, unit)) = queue.last_record() else {
                continue;
            };
            if unit.physical_offset < start || self.is_unit_of(&queue, offset, &unit, &levels)? {
                continue;
            }
            let (topic, queue_id) = (queue.topic(), queue.queue_id());
            tracing::warn!(
                topic,
                queue_id,
                "the last entry of a consume queue is damaged"
            );
            queue.cut_last()?;
            queues.lost_units(&queue);
            are_right = false;
        }
        Ok(are_right)
    }

    /// Whether a unit is what dispatch makes of the record that belongs at its offset.
    fn is_unit_of(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        unit: &QueueEntry,
        levels: &DelayLevels,
    ) -> Result<bool, StoreError> {
        if !self.is_record_of(queue, offset, unit)? {
            return Ok(false);
        }
        // Java's recovery does not know when delayed messages are due; addresses were looked at.
        if queue.topic() == SCHEDULE_TOPIC || unit.is_extension_address() {
            return Ok(true);
        }
        let mut walk = Walk::from(unit.physical_offset.cast_unsigned());
        let step = walk.step(self.log, self.log.max_offset());
        let Step::Record(bytes) = step.map_err(log_io)? else {
            return Ok(false);
        };
        let record = RecordView::parse(bytes, CheckCrc::No);
        Ok(record.is_ok_and(|record| record.tags_code(levels) == unit.tags_code))
    }

    /// Whether a unit points to the record that belongs at its offset.
    fn is_record_of(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        entry: &QueueEntry,
    ) -> Result<bool, StoreError> {
        let mut walk = Walk::from(entry.physical_offset.cast_unsigned());
        let step = walk.step(self.log, self.log.max_offset());
        let Step::Record(bytes) = step.map_err(log_io)? else {
            return Ok(false);
        };
        let record = RecordView::parse(bytes, CheckCrc::No);
        Ok(record.is_ok_and(|record| {
            let is_own = record.topic == queue.topic()
                && record.queue_id == queue.queue_id()
                && record.queue_offset == offset;
            let has_size = i32::try_from(bytes.len()).is_ok_and(|size| size == entry.size_bytes);
            has_size && (is_own || is_dispatched_to(&record, queue.topic(), offset))
        }))
    }

    /// Tells the queues of records that are no more, or longer than they were.
    pub(super) fn mend_units(
        &self,
        queues: &ConsumeQueues,
        changes: &[Change],
        log_end: u64,
    ) -> Result<(), StoreError> {
        for queue in queues.all().iter().filter(|_| !changes.is_empty()) {
            queue.truncate(log_end.cast_signed())?;
            for change in changes {
                queue.mend(change)?;
            }
            queue.flush()?;
        }
        Ok(())
    }

    /// Queues whose last record was lost: without a hole the next message would take its queue
    /// offset, and whoever consumed the lost one would never see that message. So would it in a
    /// damaged queue all of whose records have expired.
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
            let is_hole = |entry: QueueEntry| entry.is_filler();
            if end > first && queue.unit(end - 1).is_some_and(is_hole) {
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

    /// Queues with units beyond a log that lost records which the checkpoint says were on disk:
    /// it is no torn tail, so their offsets were given to messages that consumers may have seen.
    pub(super) fn lost_durable_ends(
        &self,
        queues: &ConsumeQueues,
        check: &LogCheck<'_>,
        log_end: u64,
    ) -> Vec<QueueEnd> {
        let last_ms = check.last_store_timestamp_ms();
        let durable_ms = self.checkpoint.log_timestamp_ms();
        // A checkpoint that is not believed has no safe time.
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
                "the log ends before records that the checkpoint says were flushed; their queue \
                 offsets are left empty and not given again"
            );
        }
        tails
    }

    /// Gives the queues those holes back that nothing followed.
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

/// Whether a record was also queued in `topic` at an offset (RocketMQ's multi-dispatch).
pub(super) fn is_dispatched_to(record: &RecordView<'_>, topic: &str, offset: i64) -> bool {
    multi_dispatch::dispatches(record.properties).any(|found| found == (topic, offset))
}
