//! Finds messages by physical offset, by key and by time; returns the bounds of queues.

use super::is_within;
use super::reader::Reader;
use crate::scan::record::{self, RecordFault};
use crate::types::{QueryResult, ReadMode, WouldBlock};
use mq_format::consume_queue::QueueEntry;
use mq_format::message::{self, BLANK_BYTES, CheckCrc, Head, RecordView, STATED_BYTES, sys_flag};
use mq_format::properties;
use std::ops::Range;

/// Bytes read for a record of unknown size.
const GUESS_BYTES: usize = 4_096;
/// Extra index entries per query, for other keys with the same hash code.
const COLLISIONS: usize = 64;
/// Most bytes of records that a query by key returns, unless the newest record alone is larger.
/// RocketMQ's clients accept fewer records than they asked for.
const QUERY_BYTES_MAX: usize = 4 << 20;
/// Look-ups per query, each with an earlier end time.
const QUERY_ROUNDS: usize = 3;

impl Reader {
    /// See [`crate::Store::get_at`]. No queue entry says that a record starts here, so bytes with a
    /// damaged size or magic count as no record.
    pub(crate) fn get_at(
        &self,
        physical_offset: i64,
        mode: ReadMode,
    ) -> Result<Option<Vec<u8>>, WouldBlock> {
        // As in RocketMQ, 0 means the first record, even if the log starts later.
        let offset = match physical_offset {
            0 => self.log.min_offset().cast_signed(),
            other => other,
        };
        let mut wrong = None;
        for _ in 0..2 {
            match self.record_at(offset, mode)? {
                None => return Ok(None),
                Some(Ok(bytes)) => return Ok(Some(bytes)),
                // Read again on a thread that may wait for the disk.
                Some(Err(_)) if mode == ReadMode::NoWait => return Err(WouldBlock),
                Some(Err(found)) => wrong = Some(found),
            }
        }
        if let Some(wrong) = wrong {
            self.damaged.note(offset, None, wrong);
        }
        Ok(None)
    }

    /// The record at an offset or its fault; None if there is no record.
    fn record_at(
        &self,
        offset: i64,
        mode: ReadMode,
    ) -> Result<Option<Result<Vec<u8>, RecordFault>>, WouldBlock> {
        let mut bytes = vec![0; GUESS_BYTES];
        let read = self.read_log(offset, mode, &mut bytes)?.unwrap_or(0);
        let Head::Record(size) = Head::parse(&bytes[..read.min(BLANK_BYTES)]) else {
            return Ok(None);
        };
        let room = self
            .log
            .next_file_start(offset.cast_unsigned())
            .cast_signed()
            - offset;
        if size as u64 > room.cast_unsigned() {
            return Ok(None);
        }
        bytes.resize(size, 0);
        if size > read {
            let rest = self.read_log(offset + read as i64, mode, &mut bytes[read..])?;
            if rest.is_none_or(|rest| rest < size - read) {
                return Ok(None);
            }
        }
        let checked = record::check(&bytes, offset).map(drop);
        // A client may ask for any offset, and bytes in a body may look like a record.
        Ok(match checked {
            Err(RecordFault::Position { .. }) => None,
            checked => Some(checked.map(|()| bytes)),
        })
    }

    /// See [`crate::Store::query`].
    pub(crate) fn query(
        &self,
        topic: &str,
        key: &str,
        max_count: i32,
        begin_ms: i64,
        end_ms: i64,
        out: &mut Vec<u8>,
    ) -> QueryResult {
        let mut result = QueryResult {
            message_count: 0,
            index_last_update_timestamp_ms: 0,
            index_last_update_physical_offset: 0,
        };
        let Some(index) = &self.index else {
            return result;
        };
        let max_count = usize::try_from(max_count)
            .unwrap_or(0)
            .min(self.limits.query_count);
        let mut round_end_ms = end_ms;
        for _ in 0..QUERY_ROUNDS {
            let with_spare = max_count + COLLISIONS;
            let mut hits = index.look_up(topic, key, with_spare, begin_ms, round_end_ms);
            result.index_last_update_timestamp_ms = hits.last_update_timestamp_ms;
            result.index_last_update_physical_offset = hits.last_update_physical_offset;
            let deleted_to = self.queues.deletions.log_end_of(topic);
            hits.physical_offsets.retain(|offset| *offset >= deleted_to);
            hits.physical_offsets.sort_unstable();
            let (mut newest_first, mut bytes) = (Vec::new(), 0);
            for (at, offset) in hits.physical_offsets.iter().enumerate().rev() {
                if newest_first.len() == max_count {
                    break;
                }
                let Ok(Some(record)) = self.get_at(*offset, ReadMode::Wait) else {
                    continue;
                };
                if message::stated_sys_flag(&record).is_some_and(sys_flag::is_rollback) {
                    continue;
                }
                let Ok(view) = RecordView::parse(&record, CheckCrc::No) else {
                    continue;
                };
                if at == 0 {
                    round_end_ms = view.store_timestamp_ms;
                }
                if view.topic != topic || !has_key(view.properties, key) {
                    continue;
                }
                bytes += record.len();
                if bytes > QUERY_BYTES_MAX && !newest_first.is_empty() {
                    break;
                }
                newest_first.push(record);
            }
            for record in newest_first.iter().rev() {
                out.extend_from_slice(record);
                result.message_count += 1;
            }
            let is_done = result.message_count > 0 || round_end_ms < begin_ms;
            if is_done || hits.physical_offsets.is_empty() {
                break;
            }
        }
        result
    }

    /// The entries of a queue from `offset` on, at most `count`; ends at an unreadable entry.
    pub(crate) fn entries(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        count: usize,
    ) -> Vec<QueueEntry> {
        let Some(queue) = self.queues.get(topic, queue_id) else {
            return Vec::new();
        };
        let offsets = (offset..).take(count);
        let entries = offsets.map_while(|offset| queue.entry(offset));
        entries.filter(|entry| !entry.is_hole()).collect()
    }

    /// Whether the message at a queue offset counts as on disk only.
    pub(crate) fn is_on_disk(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        let queue = self.queues.get(topic, queue_id);
        let entry = queue.and_then(|queue| queue.entry(offset));
        entry.is_some_and(|entry| self.is_cold(&entry))
    }

    /// First readable offset of a queue; 0 if the queue is unknown.
    pub(crate) fn min_offset(&self, topic: &str, queue_id: i32) -> i64 {
        let queue = self.queues.get(topic, queue_id);
        queue.map_or(0, |queue| queue.min_offset())
    }

    /// One past the last offset of a queue; 0 if the queue is unknown.
    pub(crate) fn max_offset(&self, topic: &str, queue_id: i32) -> i64 {
        let queue = self.queues.get(topic, queue_id);
        queue.map_or(0, |queue| queue.max_offset())
    }

    /// Store time of the message at a queue offset; -1 if there is none.
    pub(crate) fn store_time_at(&self, topic: &str, queue_id: i32, offset: i64) -> i64 {
        let queue = self.queues.get(topic, queue_id);
        let entry = queue.and_then(|queue| queue.entry(offset));
        entry
            .and_then(|entry| self.store_time(&entry))
            .unwrap_or(-1)
    }

    /// See [`crate::Store::offset_by_time`].
    pub(crate) fn offset_by_time(&self, topic: &str, queue_id: i32, timestamp_ms: i64) -> i64 {
        let Some(queue) = self.queues.get(topic, queue_id) else {
            return 0;
        };
        let store_time = |offset| self.store_time(&queue.entry(offset)?);
        let range = queue.min_offset()..queue.max_offset();
        nearest_offset(range, timestamp_ms, store_time)
    }

    fn store_time(&self, entry: &QueueEntry) -> Option<i64> {
        if entry.is_hole() || !is_within(entry, self.log_bounds()) {
            return None;
        }
        self.stored_ms(entry.physical_offset)
    }

    /// Store time of the record at a physical offset, milliseconds since the epoch. Reads only the
    /// head.
    pub(crate) fn stored_ms(&self, physical_offset: i64) -> Option<i64> {
        let mut head = [0; STATED_BYTES];
        let read = self.read_log(physical_offset, ReadMode::Wait, &mut head);
        let head = &head[..read.ok()??];
        let is_record = matches!(Head::parse(head), Head::Record(_))
            && message::stated_offset(head) == Some(physical_offset);
        is_record
            .then(|| message::stated_store_timestamp(head))
            .flatten()
    }
}

/// Whether a message has this unique key or user key.
fn has_key(text: &[u8], key: &str) -> bool {
    let key = key.as_bytes();
    properties::get(text, properties::UNIQ_KEY) == Some(key)
        || properties::get(text, properties::KEYS)
            .is_some_and(|keys| keys.split(|byte| *byte == b' ').any(|word| word == key))
}

/// The queue offset for a time, as in RocketMQ 4.9: the first message stored at that time (RocketMQ
/// returns any of them), else the nearer neighbour, the earlier one at a tie. If all messages are
/// later (earlier), the first (last) one; 0 for an empty range. `store_time` is None for a hole.
///
/// RocketMQ first selects a queue file by its modification time, which a rebuilt or copied queue
/// has lost. We search the whole queue.
fn nearest_offset(
    range: Range<i64>,
    timestamp_ms: i64,
    store_time: impl Fn(i64) -> Option<i64>,
) -> i64 {
    let Range { mut start, mut end } = range;
    let (mut earlier, mut later) = (None, None);
    while start < end {
        let middle = i64::midpoint(start, end);
        match store_time(middle) {
            Some(time) if time >= timestamp_ms => {
                later = Some((middle, time));
                end = middle;
            }
            Some(time) => {
                earlier = Some((middle, time));
                start = middle + 1;
            }
            None => start = middle + 1,
        }
    }
    match (earlier, later) {
        (Some((left, before)), Some((right, after))) => {
            if timestamp_ms - before > after - timestamp_ms {
                right
            } else {
                left
            }
        }
        (Some((only, _)), None) | (None, Some((only, _))) => only,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: [i64; 5] = [100, 200, 200, 300, 500];

    fn at(timestamp_ms: i64) -> i64 {
        nearest_offset(10..15, timestamp_ms, |offset| {
            TIMES.get(usize::try_from(offset - 10).ok()?).copied()
        })
    }

    #[test]
    fn the_offset_of_a_time_is_the_exact_or_the_nearest_one() {
        assert_eq!(at(300), 13);
        assert_eq!(at(200), 11, "the first of several");
        assert_eq!(at(390), 13);
        assert_eq!(at(400), 13, "the earlier one at a tie");
        assert_eq!(at(401), 14);
        assert_eq!(at(0), 10);
        assert_eq!(at(9_999), 14);
        assert_eq!(nearest_offset(0..0, 1, |_| None), 0);
        assert_eq!(nearest_offset(0..3, 1, |_| None), 0);
    }
}
