//! Repairs consume-queue entries that contradict the log. The log counts: their records are
//! searched between the records of the nearest valid entries, and the entries are rebuilt.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::scan::damage::{LastSeen, next_record};
use crate::scan::log_scanner::{LogScanner, RECORD_BYTES_MAX, Step};
use crate::scan::record::{self, Place};
use crate::types::StoreError;
use mq_format::consume_queue::QueueEntry;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{Outline, sys_flag};
use mq_format::multi_dispatch;
use mq_log::Segments;

/// Bytes of the log that one read searches. The next read of the same entry continues the search.
const SEARCH_BYTES: u64 = 256 << 20;
/// Entries checked on either side for a valid one.
const NEIGHBOURS_MAX: i64 = 4_096;
/// Most remembered unfinished searches, and most remembered entries without a record. Beyond that,
/// some are searched again.
const REMEMBERED_MAX: usize = 4_096;

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryRepair {
    /// The valid entry.
    Entry(QueueEntry),
    /// The search is not finished; the next read continues it.
    Later,
    /// The log has no valid record for the entry.
    No,
}

/// Topic, queue id and queue offset of an entry.
type Key = (String, i32, i64);

/// Repairs queue entries, and counts them.
#[derive(Debug)]
pub(crate) struct EntryRepairer {
    log: Arc<Segments>,
    queues: Arc<ConsumeQueues>,
    levels: DelayLevels,
    multi_dispatch: bool,
    repaired: AtomicU64,
    searches: Mutex<Searches>,
}

#[derive(Debug, Default)]
struct Searches {
    /// Log offset at which each search continues.
    next: BTreeMap<Key, u64>,
    in_vain: BTreeSet<Key>,
}

/// The entries between two valid ones, and the log range of their records.
struct Gap {
    offsets: Range<i64>,
    log: Range<u64>,
}

impl EntryRepairer {
    /// A repairer for the queues of a store.
    pub(crate) fn new(
        log: Arc<Segments>,
        queues: Arc<ConsumeQueues>,
        levels: DelayLevels,
        multi_dispatch: bool,
    ) -> Self {
        Self {
            log,
            queues,
            levels,
            multi_dispatch,
            repaired: AtomicU64::new(0),
            searches: Mutex::default(),
        }
    }

    /// Entries repaired since the start.
    pub(crate) fn repaired(&self) -> u64 {
        self.repaired.load(Ordering::Relaxed)
    }

    /// Whether a search for the entry ended without a result.
    pub(crate) fn is_in_vain(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        let searches = self.searches.lock();
        !searches.in_vain.is_empty()
            && searches
                .in_vain
                .contains(&(topic.to_owned(), queue_id, offset))
    }

    /// Repairs the entry at an offset and all entries up to the nearest valid ones. Blocks on disk
    /// reads.
    #[cold]
    pub(crate) fn repair(&self, topic: &str, queue_id: i32, offset: i64) -> EntryRepair {
        let Some(queue) = self.queues.get(topic, queue_id) else {
            return EntryRepair::No;
        };
        let min = queue.min_for(self.log.min_offset().cast_signed());
        let is_there = (min..queue.max_offset()).contains(&offset);
        if !is_there || self.is_in_vain(topic, queue_id, offset) {
            return EntryRepair::No;
        }
        let key = (topic.to_owned(), queue_id, offset);
        match self.search(&queue, offset, &key) {
            Ok(repaired) => repaired,
            Err(error) => {
                tracing::error!(topic, queue_id, offset, %error, "cannot repair a consume queue");
                EntryRepair::No
            }
        }
    }

    fn search(
        &self,
        queue: &Arc<ConsumeQueue>,
        offset: i64,
        key: &Key,
    ) -> Result<EntryRepair, StoreError> {
        let gap = self.gap(queue, offset);
        let started = self.searches.lock().next.remove(key);
        let from = started.unwrap_or(gap.log.start);
        let (found, reached) = self.records(queue, &gap, from)?;
        self.write(queue, &found)?;
        if let Some(entry) = found.get(&offset) {
            return Ok(EntryRepair::Entry(*entry));
        }
        let mut searches = self.searches.lock();
        if reached < gap.log.end {
            if searches.next.len() >= REMEMBERED_MAX {
                searches.next.pop_first();
            }
            searches.next.insert(key.clone(), reached);
            return Ok(EntryRepair::Later);
        }
        if searches.in_vain.len() >= REMEMBERED_MAX {
            searches.in_vain.pop_first();
        }
        searches.in_vain.insert(key.clone());
        Ok(EntryRepair::No)
    }

    /// The invalid entries around an offset, and the log range that may hold their records.
    fn gap(&self, queue: &ConsumeQueue, offset: i64) -> Gap {
        let right = |at: i64| {
            let entry = queue
                .stored_entry(at)
                .filter(|entry| self.is_right(queue, at, entry));
            entry.map(|entry| (at, entry))
        };
        let (first, end) = (queue.min_offset(), queue.max_offset());
        let lowest = first.max(offset - NEIGHBOURS_MAX);
        let highest = end.min(offset + NEIGHBOURS_MAX);
        let before = (lowest..offset).rev().find_map(right);
        let after = (offset + 1..highest).find_map(right);
        let from = before.map_or(self.log.min_offset(), |(_, entry)| {
            entry.end_offset().cast_unsigned()
        });
        let to = after.map_or(self.log.max_offset(), |(_, entry)| {
            entry.physical_offset.cast_unsigned()
        });
        Gap {
            offsets: before.map_or(lowest, |(at, _)| at + 1)..after.map_or(highest, |(at, _)| at),
            log: from..to,
        }
    }

    /// Whether an entry points to its record, and the record is valid.
    fn is_right(&self, queue: &ConsumeQueue, offset: i64, entry: &QueueEntry) -> bool {
        if !entry.is_used() || entry.is_hole() {
            return false;
        }
        let start = entry.physical_offset.cast_unsigned();
        let room = self.log.next_file_start(start).saturating_sub(start);
        let size = usize::try_from(entry.size_bytes).unwrap_or(0);
        if size as u64 > room.min(RECORD_BYTES_MAX as u64) {
            return false;
        }
        let mut bytes = vec![0; size];
        let read = self.log.read_at(start, &mut bytes);
        read.is_ok_and(|read| read == size)
            && record::check_queued(&bytes, entry.physical_offset, place(queue, offset)).is_ok()
    }

    /// Entries of the valid records of a gap from a log offset on, and the offset where the search
    /// ended.
    fn records(
        &self,
        queue: &ConsumeQueue,
        gap: &Gap,
        from: u64,
    ) -> Result<(BTreeMap<i64, QueueEntry>, u64), StoreError> {
        let mut found = BTreeMap::new();
        let (limit, last) = (gap.log.end, from.saturating_add(SEARCH_BYTES));
        let mut scanner = LogScanner::from(from);
        while scanner.offset() < limit.min(last) {
            let start = scanner.offset();
            let step = scanner.step(&*self.log, limit);
            let step = step.map_err(crate::files::io_error("commit log".as_ref()))?;
            match step {
                Step::Record(bytes) => {
                    if let Some((offset, entry)) = self.entry(queue, start, bytes)
                        && gap.offsets.contains(&offset)
                    {
                        found.entry(offset).or_insert(entry);
                    }
                }
                Step::Blank => {}
                Step::Invalid => {
                    let next = next_record(&*self.log, start, limit, &LastSeen::default())?;
                    scanner = LogScanner::from(next.unwrap_or(limit));
                }
                Step::End => break,
            }
        }
        Ok((found, scanner.offset()))
    }

    /// The entry of a record in a queue, and its queue offset; None if the record is damaged or not
    /// in this queue.
    fn entry(&self, queue: &ConsumeQueue, start: u64, bytes: &[u8]) -> Option<(i64, QueueEntry)> {
        let record = Outline::parse(bytes).ok()?;
        let is_own = record.topic == queue.topic() && record.queue_id == queue.queue_id();
        let offset = match is_own {
            true => Some(record.queue_offset),
            false if self.multi_dispatch => multi_dispatch::dispatches(record.properties)
                .find(|(name, _)| *name == queue.topic())
                .map(|(_, offset)| offset),
            false => None,
        }?;
        let physical_offset = start.cast_signed();
        let checked = record::check_queued(bytes, physical_offset, place(queue, offset));
        let entry = QueueEntry {
            physical_offset,
            size_bytes: i32::try_from(bytes.len()).ok()?,
            tags_code: record.tags_code(&self.levels),
        };
        let is_sound = checked.is_ok() && sys_flag::is_queued(record.sys_flag);
        is_sound.then_some((offset, entry))
    }

    /// Overwrites the invalid entries and schedules their flush.
    fn write(
        &self,
        queue: &Arc<ConsumeQueue>,
        found: &BTreeMap<i64, QueueEntry>,
    ) -> Result<(), StoreError> {
        let mut written = 0_u64;
        for (offset, entry) in found {
            let old = queue.stored_entry(*offset).filter(|old| !old.is_hole());
            if old.is_some_and(|old| !self.is_right(queue, *offset, &old)) {
                queue.overwrite(*offset, entry)?;
                written += 1;
            }
        }
        let ends = found.first_key_value().zip(found.last_key_value());
        if let Some(((first, _), (last, _))) = ends.filter(|_| written > 0) {
            self.repaired.fetch_add(written, Ordering::Relaxed);
            self.queues.flush_later(queue);
            tracing::warn!(
                topic = queue.topic(),
                queue_id = queue.queue_id(),
                first,
                last,
                entries = written,
                "repaired damaged consume-queue entries from the commit log"
            );
        }
        Ok(())
    }
}

fn place(queue: &ConsumeQueue, queue_offset: i64) -> Place<'_> {
    Place {
        topic: queue.topic(),
        queue_id: queue.queue_id(),
        queue_offset,
    }
}
