//! Cutting the consume queues to the log.

use super::{Recovery, log_io, missing};
use crate::format::consume_queue::QueueEntry;
use crate::format::message::{CheckCrc, RecordView};
use crate::format::multi_dispatch;
use crate::log::Files;
use crate::store::consume_queue::ConsumeQueue;
use crate::store::consume_queues::ConsumeQueues;
use crate::store::types::StoreError;

impl<F: Files> Recovery<'_, F> {
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
            queue.truncate(keep_to.cast_signed())?;
            if self.fits_log(&queue)? {
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
            queue.flush()?;
        }
        if is_rebuilding || newest == 0 {
            return Ok(self.log.min_offset());
        }
        // After a clean stop every queue is complete up to the newest unit of any.
        let is_whole = trusted_to == log_end && self.was_clean;
        let from = if is_whole { newest } else { trusted_to };
        Ok(from.min(queues.lost_from().unwrap_or(from)))
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
        // What lies before the log has expired.
        let has_expired = entry.end_offset() <= self.log.min_offset().cast_signed();
        Ok(has_expired || self.is_record_of(queue, offset, &entry)?)
    }

    /// Whether a unit points to the record that belongs at its offset.
    fn is_record_of(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        entry: &QueueEntry,
    ) -> Result<bool, StoreError> {
        let mut bytes = vec![0; usize::try_from(entry.size_bytes).unwrap_or(0)];
        let at = entry.physical_offset.cast_unsigned();
        let read = self.log.read_at(at, &mut bytes).map_err(log_io)?;
        let record = RecordView::parse(&bytes[..read], CheckCrc::No);
        Ok(record.is_ok_and(|record| {
            let is_own = record.topic == queue.topic()
                && record.queue_id == queue.queue_id()
                && record.queue_offset == offset;
            is_own || missing::is_dispatched_to(&record, queue.topic(), offset)
        }))
    }
}
