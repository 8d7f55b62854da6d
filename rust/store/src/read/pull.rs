//! Reads messages of a queue for a pull.

use super::is_within;
use super::reader::Reader;
use super::records::{Records, Run, Selection};
use crate::derive::queues::ext::ExtReader;
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::entry_repair::EntryRepair;
use crate::filter::MessageFilter;
use crate::scan::record::{Place, RecordFault};
use crate::types::{GetRequest, GetResult, GetStatus, ReadMode, WouldBlock};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};

/// RocketMQ scans this many bytes of queue entries per pull, or `max_count` entries if that is
/// more.
const SCAN_BYTES: usize = 16_000;

impl Reader {
    /// See [`crate::Store::get`]. A caller that may wait for the disk still tries memory first,
    /// because reads from disk have lower limits.
    pub(crate) fn get(
        &self,
        request: &GetRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<GetResult, WouldBlock> {
        let from_memory = GetRequest {
            mode: ReadMode::NoWait,
            ..request.clone()
        };
        match (self.get_once(&from_memory, out), request.mode) {
            (Err(WouldBlock), ReadMode::Wait) => self.get_once(request, out),
            (got, _) => got,
        }
    }

    fn get_once(
        &self,
        request: &GetRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<GetResult, WouldBlock> {
        let Some(queue) = self.queues.get(request.topic, request.queue_id) else {
            // RocketMQ creates queues on demand, so an unknown queue is an empty one.
            let status = match ConsumeQueues::is_possible(request.topic, request.queue_id) {
                true => GetStatus::NoMessageInQueue,
                false => GetStatus::NoMatchedLogicQueue,
            };
            return Ok(answer(status, 0, (0, 0)));
        };
        let bounds = (queue.min_offset(), queue.max_offset());
        if let Some((status, next)) = outside(request.offset, bounds) {
            return Ok(answer(status, next, bounds));
        }
        let start = out.len();
        let found = self.find(&queue, request, out);
        let found = found.inspect_err(|WouldBlock| out.truncate(start))?;
        let Some((selection, read)) = found else {
            return Ok(without_entries(&queue, request.offset));
        };
        let mut scanned = selection.scanned;
        let status = match read.count {
            0 if read.failed_at.is_some() => GetStatus::OffsetFoundNull,
            0 if selection.was_removing || !selection.entries.is_empty() => {
                GetStatus::MessageWasRemoving
            }
            0 => GetStatus::NoMatchedMessage,
            _ => GetStatus::Found,
        };
        if let Some(failed_at) = read.failed_at {
            // The next pull starts with the message that could not be read.
            scanned = selection.places[failed_at];
        }
        let behind = self
            .max_physical_offset()
            .saturating_sub(selection.last_physical_offset);
        Ok(GetResult {
            message_count: read.count,
            suggest_slave: behind > self.limits.hot_bytes,
            behind_bytes: behind,
            ..answer(status, request.offset + scanned, bounds)
        })
    }

    /// The reply to a pull of a group that was reset to `offset`.
    pub(crate) fn reset_to(&self, topic: &str, queue_id: i32, offset: i64) -> GetResult {
        let bounds = (
            self.min_offset(topic, queue_id),
            self.max_offset(topic, queue_id),
        );
        answer(GetStatus::OffsetReset, offset, bounds)
    }

    /// Selects messages and appends them to `out`; None if the entries cannot be read.
    fn find(
        &self,
        queue: &ConsumeQueue,
        request: &GetRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Selection, Records)>, WouldBlock> {
        if request.filter.reads_properties() {
            return self.select_matching(queue, request, out);
        }
        let Some(selection) = self.select(queue, request)? else {
            return Ok(None);
        };
        if request.mode == ReadMode::Wait {
            self.ahead.read(&self.log, &selection.entries);
        }
        let read = self.read_records(Run::of(request, &selection), request.mode, out)?;
        Ok(Some((selection, read)))
    }

    /// Bytes of entries that one pull scans.
    pub(crate) fn scan_bytes(max_count: usize) -> usize {
        SCAN_BYTES.max(max_count * ENTRY_BYTES)
    }

    /// Scans the queue's entries; None if they cannot be read.
    fn select(
        &self,
        queue: &ConsumeQueue,
        request: &GetRequest<'_>,
    ) -> Result<Option<Selection>, WouldBlock> {
        let max_count = usize::try_from(request.max_count).unwrap_or(0);
        let mut left = Self::scan_bytes(max_count);
        // Most pulls want every entry. The last entry only shows that the batch is full.
        let mut wanted = left.min((max_count + 1) * ENTRY_BYTES);
        let mut entry_bytes = Vec::new();
        let mut selection = Selection::default();
        let mut codes = queue.tags_codes(request.mode);
        while left > 0 {
            entry_bytes.clear();
            let from = request.offset + selection.scanned;
            let is_read = queue.read(from, wanted, request.mode, &mut entry_bytes)?
                && self.repair_entries(queue, from, request.mode, &mut entry_bytes)?;
            if !is_read {
                return Ok((selection.scanned > 0).then_some(selection));
            }
            let is_done = self.choose(&entry_bytes, request, &mut codes, &mut selection)?;
            if is_done || entry_bytes.len() < wanted {
                break;
            }
            left -= wanted;
            wanted = left;
        }
        Ok(Some(selection))
    }

    /// Repairs invalid entries: unused ones, and those that point outside of the log. If the repair
    /// of an entry takes longer, `entry_bytes` is cut before it; false if none is left.
    pub(super) fn repair_entries(
        &self,
        queue: &ConsumeQueue,
        from: i64,
        mode: ReadMode,
        entry_bytes: &mut Vec<u8>,
    ) -> Result<bool, WouldBlock> {
        let log_bounds = self.log_bounds();
        let is_wrong = |entry: QueueEntry| {
            !(entry.is_hole() || entry.is_used() && is_within(&entry, log_bounds))
        };
        let first_wrong =
            |entry_bytes: &[u8]| QueueEntry::decode_all(entry_bytes).position(is_wrong);
        if first_wrong(entry_bytes).is_none() {
            return Ok(true);
        }
        // Entries whose records were in log files deleted a moment ago are valid.
        let gone = match mode {
            ReadMode::Wait => queue.min_for(log_bounds.0) - from,
            ReadMode::NoWait => 0,
        };
        let mut at = usize::try_from(gone)
            .unwrap_or(0)
            .min(entry_bytes.len() / ENTRY_BYTES);
        while let Some(more) = first_wrong(&entry_bytes[at * ENTRY_BYTES..]) {
            at += more;
            let place = at * ENTRY_BYTES..(at + 1) * ENTRY_BYTES;
            match self.repaired(queue, from + at as i64, mode)? {
                EntryRepair::Entry(entry) => entry_bytes[place].copy_from_slice(&entry.encode()),
                EntryRepair::Later => {
                    entry_bytes.truncate(place.start);
                    return Ok(at > 0);
                }
                EntryRepair::No => {}
            }
            at += 1;
        }
        Ok(true)
    }

    fn repaired(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        mode: ReadMode,
    ) -> Result<EntryRepair, WouldBlock> {
        let (topic, queue_id) = (queue.topic(), queue.queue_id());
        match mode {
            ReadMode::Wait => Ok(self.repairer.repair(topic, queue_id, offset)),
            ReadMode::NoWait if self.repairer.is_in_vain(topic, queue_id, offset) => {
                Ok(EntryRepair::No)
            }
            ReadMode::NoWait => Err(WouldBlock),
        }
    }

    /// Adds the entries that match; true when the batch is full.
    fn choose(
        &self,
        entry_bytes: &[u8],
        request: &GetRequest<'_>,
        codes: &mut ExtReader<'_>,
        selection: &mut Selection,
    ) -> Result<bool, WouldBlock> {
        let log_bounds = self.log_bounds();
        for entry in QueueEntry::decode_all(entry_bytes) {
            selection.last_physical_offset = entry.physical_offset;
            if self.is_full(selection, &entry, request) {
                return Ok(true);
            }
            selection.scanned += 1;
            // An entry whose extension is lost passes; the client filters again.
            let is_wanted = matches!(request.filter, MessageFilter::All)
                || codes
                    .tags_code(&entry)?
                    .is_none_or(|code| request.filter.matches(code));
            if !is_wanted {
                // RocketMQ's status is about the last entry that gave no message.
                selection.was_removing = false;
                continue;
            }
            // RocketMQ gives the same status for a hole and for a deleted record.
            if entry.is_hole() || !is_within(&entry, log_bounds) {
                selection.was_removing = true;
                if entry.physical_offset >= log_bounds.1 {
                    self.note_beyond(&entry, request, selection.scanned - 1);
                }
                continue;
            }
            selection.bytes += usize::try_from(entry.size_bytes).unwrap_or(0);
            selection.places.push(selection.scanned - 1);
            selection.entries.push(entry);
        }
        Ok(false)
    }

    /// Notes a damaged entry that points beyond the end of the log.
    #[cold]
    fn note_beyond(&self, entry: &QueueEntry, request: &GetRequest<'_>, place: i64) {
        let place = Place {
            topic: request.topic,
            queue_id: request.queue_id,
            queue_offset: request.offset + place,
        };
        let wrong = RecordFault::Beyond;
        self.damaged.note(entry.physical_offset, Some(place), wrong);
    }

    /// RocketMQ's limits, which do not apply to the first message. RocketMQ guesses from the
    /// distance to the end of the log what is on disk. Here it must also be a read that may wait
    /// for the disk.
    pub(crate) fn is_full(
        &self,
        selection: &Selection,
        next: &QueueEntry,
        request: &GetRequest<'_>,
    ) -> bool {
        let count = selection.entries.len();
        if count == 0 {
            return false;
        }
        let is_on_disk = request.mode == ReadMode::Wait && self.is_cold(next);
        let (count_max, bytes_max) = match is_on_disk {
            true => self.limits.disk,
            false => self.limits.memory,
        };
        let max_count = usize::try_from(request.max_count).unwrap_or(0);
        let size = usize::try_from(next.size_bytes).unwrap_or(0);
        count >= max_count
            || selection.bytes + size > bytes_max
            || count >= usize::try_from(count_max).unwrap_or(0)
    }
}

/// The result if the entries of a readable offset cannot be read. RocketMQ continues with the next
/// file. That is right only if this file is gone; otherwise it would skip messages.
fn without_entries(queue: &ConsumeQueue, offset: i64) -> GetResult {
    // Files may have been deleted since.
    let bounds = (queue.min_offset(), queue.max_offset());
    if let Some((status, next)) = outside(offset, bounds) {
        return answer(status, next, bounds);
    }
    let next = match queue.has_file(offset) {
        true => offset,
        false => queue.next_file_offset(offset),
    };
    answer(GetStatus::OffsetFoundNull, next, bounds)
}

/// RocketMQ's results for offsets at or outside a queue's bounds.
fn outside(offset: i64, (min, max): (i64, i64)) -> Option<(GetStatus, i64)> {
    if max == 0 {
        Some((GetStatus::NoMessageInQueue, 0))
    } else if offset < min {
        Some((GetStatus::OffsetTooSmall, min))
    } else if offset == max {
        Some((GetStatus::OffsetOverflowOne, offset))
    } else if offset > max {
        Some((GetStatus::OffsetOverflowBadly, max))
    } else {
        None
    }
}

fn answer(status: GetStatus, next_begin_offset: i64, (min, max): (i64, i64)) -> GetResult {
    GetResult {
        status,
        next_begin_offset,
        min_offset: min,
        max_offset: max,
        message_count: 0,
        suggest_slave: false,
        behind_bytes: 0,
    }
}
