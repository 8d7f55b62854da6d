//! Checks record headers against the consume queues. An entry holds the queue and the queue offset
//! of its record. If the record's body is valid but its header disagrees, the header is damaged.
//!
//! Reading all entries would cost as much as reading the log. So a queue is used only if its
//! offsets in the log have gaps, or its last entry contradicts the log.

use super::log_check::LogCheck;
use super::recovery::{Recovery, log_io};
use super::repair::Damage;
use super::seen::SeenQueues;
use super::truncate_queues::is_dispatched_to;
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::records::record::good_record;
use crate::types::StoreError;
use mq_format::consume_queue::QueueEntry;
use mq_format::message::sys_flag;

/// A record that an entry contradicts.
struct Contradiction {
    range: Damage,
    /// Whether the record has the next queue offset of the queue that it names.
    is_in_sequence: bool,
}

impl Recovery<'_> {
    /// Repairs records at or after `start` whose headers are damaged according to their queues.
    pub(super) fn repair_contradicted(
        &self,
        check: &mut LogCheck<'_>,
        queues: &ConsumeQueues,
        seen: &SeenQueues,
        start: u64,
    ) -> Result<(), StoreError> {
        let has_doubts = check.has_doubts();
        for queue in queues.all() {
            if !has_doubts && !self.is_suspect(queues, &queue, seen, start)? {
                continue;
            }
            for damage in self.contradictions(queues, &queue, seen, start)? {
                check.repair_damage(damage)?;
            }
        }
        Ok(())
    }

    /// The records that a queue contradicts. None if the queue is wrong: it contradicts most of
    /// them, or one with the next queue offset of its queue.
    fn contradictions(
        &self,
        queues: &ConsumeQueues,
        queue: &ConsumeQueue,
        seen: &SeenQueues,
        start: u64,
    ) -> Result<Vec<Damage>, StoreError> {
        let (mut found, mut asked) = (Vec::new(), 0);
        for (offset, entry) in queue.entries_backwards() {
            let Some(entry) = entry.filter(is_evidence) else {
                continue;
            };
            if entry.physical_offset.cast_unsigned() < start {
                break;
            }
            asked += 1;
            found.extend(self.contradiction(queues, queue, seen, (offset, &entry))?);
        }
        let is_believed = found.len() <= 1.max(asked / 2)
            && !found
                .iter()
                .any(|contradiction| contradiction.is_in_sequence);
        let found = found.into_iter().filter(|_| is_believed);
        Ok(found.map(|contradiction| contradiction.range).collect())
    }

    /// Whether the first or last entry of a queue in the checked log contradicts the log.
    fn is_suspect(
        &self,
        queues: &ConsumeQueues,
        queue: &ConsumeQueue,
        seen: &SeenQueues,
        start: u64,
    ) -> Result<bool, StoreError> {
        let Some((last_offset, last)) = queue.last_record() else {
            return Ok(false);
        };
        if last.physical_offset.cast_unsigned() < start {
            return Ok(false);
        }
        let is_early = |first: i64| {
            let before = queue.stored_entry(first - 1).filter(is_evidence);
            before.is_some_and(|entry| entry.physical_offset.cast_unsigned() >= start)
        };
        let is_unmet = seen
            .of(queue)
            .is_none_or(|seen| seen.first > queue.written().0 && is_early(seen.first));
        let contradiction = self.contradiction(queues, queue, seen, (last_offset, &last))?;
        Ok(is_unmet || contradiction.is_some())
    }

    /// A valid record with the size in the entry, but with another queue or queue offset. A record
    /// that another entry confirms is no contradiction.
    fn contradiction(
        &self,
        queues: &ConsumeQueues,
        queue: &ConsumeQueue,
        seen: &SeenQueues,
        (offset, entry): (i64, &QueueEntry),
    ) -> Result<Option<Contradiction>, StoreError> {
        let from = entry.physical_offset.cast_unsigned();
        let size = usize::try_from(entry.size_bytes).unwrap_or(0);
        let mut bytes = vec![0; size.min(self.log.file_size() as usize)];
        let read = self.log.read_at(from, &mut bytes).map_err(log_io)?;
        let Some(record) = good_record(from, &bytes[..read]) else {
            return Ok(None);
        };
        let is_own = sys_flag::is_queued(record.sys_flag)
            && record.topic == queue.topic()
            && record.queue_id == queue.queue_id()
            && record.queue_offset == offset;
        let is_expected = is_own || is_dispatched_to(&record, queue.topic(), offset);
        let claimed = queues.get(record.topic, record.queue_id);
        let claimed = claimed.and_then(|claimed| claimed.stored_entry(record.queue_offset));
        let is_confirmed = claimed.is_some_and(|claimed| {
            is_evidence(&claimed) && claimed.physical_offset == entry.physical_offset
        });
        if record.size() != size
            || is_expected
            || is_confirmed
            || sys_flag::is_rollback(record.sys_flag)
        {
            return Ok(None);
        }
        let range = Damage {
            from,
            to: from + size as u64,
            last: None,
            store_timestamp_ms: record.store_timestamp_ms,
        };
        let is_in_sequence = seen.is_in_sequence(&record);
        Ok(Some(Contradiction {
            range,
            is_in_sequence,
        }))
    }
}

fn is_evidence(entry: &QueueEntry) -> bool {
    entry.is_used() && !entry.is_hole()
}
