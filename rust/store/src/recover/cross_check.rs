//! Checks record headers against the consume queues. An entry holds the queue and the queue offset
//! of its record. If the record's body is valid but its header disagrees, either may be damaged.
//!
//! The header is damaged if the log has no other record for the entry, and the record does not fit
//! among the records of the queue that it names. Otherwise the entry is damaged.
//!
//! Reading all entries would cost as much as reading the log. So a queue is used only if its
//! offsets in the log have gaps, or its last entry contradicts the log.

use super::recovery::Recovery;
use super::seen::SeenQueues;
use super::stated_places::{Fit, Place, StatedPlaces};
use super::truncate_queues::is_dispatched_to;
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::scan::log_check::LogCheck;
use crate::scan::log_io;
use crate::scan::record::good_record;
use crate::scan::repair::Damage;
use crate::types::StoreError;
use mq_format::consume_queue::QueueEntry;
use mq_format::message::sys_flag;

/// A record that an entry contradicts.
struct Contradiction {
    range: Damage,
    /// The place of the entry, and the place that the record states.
    entry: Place,
    stated: Place,
}

impl Recovery<'_> {
    /// Repairs records in `[start, log_end)` whose headers are damaged according to their queues.
    pub(super) fn repair_contradicted(
        &self,
        check: &mut LogCheck<'_>,
        queues: &ConsumeQueues,
        seen: &SeenQueues,
        (start, log_end): (u64, u64),
    ) -> Result<(), StoreError> {
        let has_doubts = check.has_doubts();
        let mut by_queue = Vec::new();
        for queue in queues.all() {
            if has_doubts || self.is_suspect(queues, &queue, seen, start)? {
                let found = self.contradictions(queues, &queue, start)?;
                by_queue.extend((!found.is_empty()).then_some(found));
            }
        }
        if by_queue.is_empty() {
            return Ok(());
        }
        let mut places = StatedPlaces::default();
        for found in by_queue.iter().flatten() {
            places.ask(&found.entry);
            places.ask_around(&found.stated);
        }
        self.find_places(&mut places, (start, log_end))?;
        let mut damaged = Vec::new();
        for found in &by_queue {
            damaged.extend(found.iter().filter(|one| is_damaged(one, found, &places)));
        }
        damaged.sort_by_key(|found| found.range.from);
        damaged.dedup_by_key(|found| found.range.from);
        let mut damaged = damaged.into_iter();
        damaged.try_for_each(|found| check.repair_damage(found.range))
    }

    /// The records that a queue contradicts. None if the queue contradicts most of them, because
    /// then the queue is wrong.
    fn contradictions(
        &self,
        queues: &ConsumeQueues,
        queue: &ConsumeQueue,
        start: u64,
    ) -> Result<Vec<Contradiction>, StoreError> {
        let (mut found, mut asked) = (Vec::new(), 0);
        for (offset, entry) in queue.entries_backwards() {
            let Some(entry) = entry.filter(is_evidence) else {
                continue;
            };
            if entry.physical_offset.cast_unsigned() < start {
                break;
            }
            asked += 1;
            found.extend(self.contradiction(queues, queue, (offset, &entry))?);
        }
        if found.len() > 1.max(asked / 2) {
            found.clear();
        }
        Ok(found)
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
        let contradiction = self.contradiction(queues, queue, (last_offset, &last))?;
        Ok(is_unmet || contradiction.is_some())
    }

    /// A valid record with the size in the entry, but with another queue or queue offset. A record
    /// that another entry confirms is no contradiction.
    fn contradiction(
        &self,
        queues: &ConsumeQueues,
        queue: &ConsumeQueue,
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
        Ok(Some(Contradiction {
            range,
            entry: Place::new(queue.topic(), queue.queue_id(), offset),
            stated: Place::new(record.topic, record.queue_id, record.queue_offset),
        }))
    }
}

/// Whether the header of a record is damaged, and not the entry. `all` are the contradictions of
/// the same queue: if one of them is a record that fits, entries of the queue are damaged.
fn is_damaged(found: &Contradiction, all: &[Contradiction], places: &StatedPlaces) -> bool {
    let fit = |found: &Contradiction| places.fit(&found.stated, found.range.from);
    let is_lost = places.of(&found.entry).is_empty();
    is_lost
        && match fit(found) {
            Fit::Wrong => true,
            Fit::Unknown => all.iter().all(|other| fit(other) != Fit::Right),
            Fit::Right => false,
        }
}

fn is_evidence(entry: &QueueEntry) -> bool {
    entry.is_used() && !entry.is_hole()
}
