//! Finding messages by physical offset, by key and by time; and the bounds of queues.

use super::is_within;
use super::reader::Reader;
use crate::records::record::{self, Wrong};
use crate::types::{QueryResult, ReadMode, WouldBlock};
use mq_format::consume_queue::QueueEntry;
use mq_format::message::{self, BLANK_BYTES, CheckCrc, Head, RecordView, STATED_BYTES, sys_flag};
use mq_format::properties;
use std::ops::Range;

/// Bytes read for a record whose size is not known.
const GUESS_BYTES: usize = 4_096;
/// Index entries of other keys with the same hash code that a query may pass over.
const COLLISIONS: usize = 64;
/// Bytes of the records that a query by key finds, beyond the newest one: RocketMQ's clients take
/// fewer records than they ask for.
const QUERY_BYTES_MAX: usize = 4 << 20;
/// Rounds of a query, each with an earlier end.
const QUERY_ROUNDS: usize = 3;

impl Reader {
    /// See [`crate::Store::get_at`]. No queue entry says what should be there, so a record
    /// that is damaged in its size or its magic is none.
    pub(crate) fn get_at(
        &self,
        physical_offset: i64,
        mode: ReadMode,
    ) -> Result<Option<Vec<u8>>, WouldBlock> {
        // RocketMQ takes 0 for the first record, even if the log starts later.
        let offset = match physical_offset {
            0 => self.log.min_offset().cast_signed(),
            other => other,
        };
        let mut wrong = None;
        for _ in 0..2 {
            match self.record_at(offset, mode)? {
                None => return Ok(None),
                Some(Ok(bytes)) => return Ok(Some(bytes)),
                // Once more, by the threads that may wait for the disk.
                Some(Err(_)) if mode == ReadMode::NoWait => return Err(WouldBlock),
                Some(Err(found)) => wrong = Some(found),
            }
        }
        if let Some(wrong) = wrong {
            self.damaged.note(offset, None, wrong);
        }
        Ok(None)
    }

    /// The record at an offset, or what is wrong with it; None for no record at all.
    fn record_at(
        &self,
        offset: i64,
        mode: ReadMode,
    ) -> Result<Option<Result<Vec<u8>, Wrong>>, WouldBlock> {
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
        // What lies in a body may look like a record, and anybody may ask for any offset.
        Ok(match checked {
            Err(Wrong::Position { .. }) => None,
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

    /// The entries of a queue from `offset` on, at most `count`, until one cannot be read.
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
        entries.filter(|entry| !entry.is_filler()).collect()
    }

    /// Whether the message at a queue offset is deemed on disk.
    pub(crate) fn is_on_disk(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        let queue = self.queues.get(topic, queue_id);
        let entry = queue.and_then(|queue| queue.entry(offset));
        entry.is_some_and(|entry| self.is_cold(&entry))
    }

    /// First readable offset of a queue, 0 when unknown.
    pub(crate) fn min_offset(&self, topic: &str, queue_id: i32) -> i64 {
        let queue = self.queues.get(topic, queue_id);
        queue.map_or(0, |queue| queue.min_offset())
    }

    /// One past the last offset of a queue, 0 when unknown.
    pub(crate) fn max_offset(&self, topic: &str, queue_id: i32) -> i64 {
        let queue = self.queues.get(topic, queue_id);
        queue.map_or(0, |queue| queue.max_offset())
    }

    /// Store time of the message at a queue offset, -1 if there is none.
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
        if entry.is_filler() || !is_within(entry, self.log_bounds()) {
            return None;
        }
        self.stored_ms(entry.physical_offset)
    }

    /// When the record that starts at a physical offset was stored, milliseconds since the epoch;
    /// reads no more than its head.
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

/// Whether a message has a key: its unique one, or one that its producer gave.
fn has_key(text: &[u8], key: &str) -> bool {
    let key = key.as_bytes();
    properties::get(text, properties::UNIQ_KEY) == Some(key)
        || properties::get(text, properties::KEYS)
            .is_some_and(|keys| keys.split(|byte| *byte == b' ').any(|word| word == key))
}

/// RocketMQ 4.9's answer: the first offset stored at that time (RocketMQ gives any of them), else
/// of the two around it the nearer one, the earlier at a tie; the first or last where all are later
/// or earlier. 0 for an empty range. `store_time` is None where a unit has no record.
///
/// RocketMQ picks a queue file by its modification time first, which a rebuilt or copied queue
/// has lost; this searches the whole queue.
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
    fn exact_nearest_first_and_last() {
        assert_eq!(at(300), 13);
        assert_eq!(at(200), 11, "the first of several");
        assert_eq!(at(390), 13);
        assert_eq!(at(400), 13, "a tie goes to the earlier");
        assert_eq!(at(401), 14);
        assert_eq!(at(0), 10);
        assert_eq!(at(9_999), 14);
        assert_eq!(nearest_offset(0..0, 1, |_| None), 0);
        assert_eq!(nearest_offset(0..3, 1, |_| None), 0);
    }
}
