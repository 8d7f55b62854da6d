//! Checks the holes that repairs of the log made in queues. A damaged entry may point to a lost
//! record by mistake, so the log may still have the record of its queue offset.

use std::collections::HashMap;

use super::recovery::Recovery;
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::scan::damage::{LastSeen, next_record};
use crate::scan::log_io;
use crate::scan::log_scanner::{LogScanner, Step};
use crate::scan::record::good_record;
use crate::types::StoreError;
use mq_format::consume_queue::QueueEntry;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{Outline, sys_flag};

/// Entries before a hole among which a right one is searched.
const NEIGHBOURS_MAX: i64 = 4_096;

/// The queues with new holes: first and last queue offset with such a hole.
#[derive(Debug, Default)]
pub(super) struct NewHoles(HashMap<String, HashMap<i32, (i64, i64)>>);

impl NewHoles {
    pub(super) fn add(&mut self, queue: &ConsumeQueue, (first, last): (i64, i64)) {
        let of_topic = self.0.entry(queue.topic().to_owned()).or_default();
        let range = of_topic.entry(queue.queue_id()).or_insert((first, last));
        *range = (range.0.min(first), range.1.max(last));
    }

    fn may_have(&self, topic: &str, queue_id: i32, queue_offset: i64) -> bool {
        let range = self.0.get(topic).and_then(|queues| queues.get(&queue_id));
        range.is_some_and(|(first, last)| (*first..=*last).contains(&queue_offset))
    }
}

impl Recovery<'_> {
    /// Replaces new holes by the entries of their records, if the log has these.
    pub(super) fn fill_holes(
        &self,
        queues: &ConsumeQueues,
        holes: &NewHoles,
        log_end: u64,
    ) -> Result<(), StoreError> {
        let levels = self.settings.levels()?;
        let mut scanner = LogScanner::from(self.start_of_search(queues, holes)?.unwrap_or(log_end));
        while scanner.offset() < log_end {
            let at = scanner.offset();
            match scanner.step(self.log, log_end).map_err(log_io)? {
                Step::Record(bytes) => self.fill_holes_of(queues, holes, (at, bytes), &levels)?,
                Step::Blank => {}
                Step::Invalid => {
                    let next = next_record(self.log, at, log_end, &LastSeen::default())?;
                    scanner = LogScanner::from(next.unwrap_or(log_end));
                }
                Step::End => break,
            }
        }
        Ok(())
    }

    /// The log offset before which no record belongs to a hole; None without holes.
    fn start_of_search(
        &self,
        queues: &ConsumeQueues,
        holes: &NewHoles,
    ) -> Result<Option<u64>, StoreError> {
        let mut from: Option<u64> = None;
        for (topic, of_topic) in &holes.0 {
            for (queue_id, (first, _)) in of_topic {
                if let Some(queue) = queues.get(topic, *queue_id) {
                    let end = self.end_before(&queue, *first)?;
                    from = Some(from.map_or(end, |from| from.min(end)));
                }
            }
        }
        Ok(from)
    }

    /// End of the record of the last right entry before a queue offset.
    fn end_before(&self, queue: &ConsumeQueue, offset: i64) -> Result<u64, StoreError> {
        let lowest = queue.written().0.max(offset - NEIGHBOURS_MAX);
        for at in (lowest..offset).rev() {
            let entry = queue.stored_entry(at).filter(QueueEntry::is_used);
            if let Some(entry) = entry.filter(|entry| !entry.is_hole())
                && self.is_record_of(queue, at, &entry)?
            {
                return Ok(entry.end_offset().cast_unsigned());
            }
        }
        Ok(self.log.min_offset())
    }

    /// Replaces the holes in all queues of a record.
    fn fill_holes_of(
        &self,
        queues: &ConsumeQueues,
        holes: &NewHoles,
        (at, bytes): (u64, &[u8]),
        levels: &DelayLevels,
    ) -> Result<(), StoreError> {
        let Ok(record) = Outline::parse(bytes) else {
            return Ok(());
        };
        let own = (record.topic, record.queue_id, record.queue_offset);
        let multi = self.settings.multi_dispatch;
        let further = multi.further_queues(record.properties, record.queue_id);
        for (topic, queue_id, offset) in std::iter::once(own).chain(further) {
            if !holes.may_have(topic, queue_id, offset) {
                continue;
            }
            let queue = queues.get(topic, queue_id).filter(|queue| {
                let entry = queue.stored_entry(offset);
                let is_open = offset < queue.max_offset();
                is_open && entry.is_some_and(|entry| entry.is_hole())
            });
            let is_sound = sys_flag::is_queued(record.sys_flag) && good_record(at, bytes).is_some();
            let Some(queue) = queue.filter(|_| is_sound) else {
                continue;
            };
            let entry = QueueEntry {
                physical_offset: at.cast_signed(),
                size_bytes: i32::try_from(bytes.len()).unwrap_or(i32::MAX),
                tags_code: record.tags_code(levels),
            };
            queue.write_pending()?;
            queue.overwrite(offset, &entry)?;
            queues.flush_later(&queue);
            tracing::warn!(
                topic,
                queue_id,
                queue_offset = offset,
                "repaired a damaged consume-queue entry from the commit log"
            );
        }
        Ok(())
    }
}
