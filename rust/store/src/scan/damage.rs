//! Distinguishes damage from a torn tail: does a valid record follow the bad bytes?

use std::collections::HashMap;
use std::io;

use super::log_io;
use crate::scan::log_scanner::{LogRead, LogScanner, Step};
use crate::scan::record::good_record;
use crate::types::StoreError;
use mq_format::message::{MAGIC, MAGIC_V2, RecordView, sys_flag};

/// Bytes searched at once.
const SEARCH_BYTES: usize = 1 << 20;
/// Positions of two fields in a record, and the end of the second.
const MAGIC_AT: usize = 4;
const PHYSICAL_OFFSET_AT: usize = 28;
const HEAD_BYTES: usize = 36;

/// Facts about the last valid records, to distinguish later records from left-overs.
#[derive(Debug, Default)]
pub struct LastSeen {
    /// Store time of the last good record, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
    queue_offsets: HashMap<String, HashMap<i32, i64>>,
}

impl LastSeen {
    /// Adds a valid record.
    pub fn note(&mut self, record: &RecordView<'_>) {
        self.store_timestamp_ms = record.store_timestamp_ms;
        if sys_flag::is_queued(record.sys_flag) {
            self.note_queue(record.topic, record.queue_id, record.queue_offset);
        }
    }

    /// Adds the newest offset of a queue.
    pub(crate) fn note_queue(&mut self, topic: &str, queue_id: i32, queue_offset: i64) {
        if !self.queue_offsets.contains_key(topic) {
            self.queue_offsets.insert(topic.to_owned(), HashMap::new());
        }
        if let Some(of_topic) = self.queue_offsets.get_mut(topic) {
            of_topic.insert(queue_id, queue_offset);
        }
    }

    /// The last queue offset seen in a queue.
    pub(crate) fn queue_offset(&self, topic: &str, queue_id: i32) -> Option<i64> {
        self.queue_offsets.get(topic)?.get(&queue_id).copied()
    }

    /// Whether a record can follow those seen. RocketMQ leaves old records after the end of a log
    /// that it truncated. They are older than the records written over their start.
    fn precedes(&self, record: &RecordView<'_>) -> bool {
        let seen = self.queue_offset(record.topic, record.queue_id);
        let is_new = !sys_flag::is_queued(record.sys_flag)
            || seen.is_none_or(|seen| record.queue_offset > seen);
        record.store_timestamp_ms >= self.store_timestamp_ms && is_new
    }
}

/// The first record after the bad bytes at `from` that belongs to the log; None if the log ends
/// there.
pub fn next_record(
    log: &impl LogRead,
    from: u64,
    limit: u64,
    last_seen: &LastSeen,
) -> Result<Option<u64>, StoreError> {
    let mut at = from + 1;
    while at < limit {
        let file_end = log.next_file_start(at).min(limit);
        let belongs = |offset| belongs(log, offset, file_end, last_seen);
        if let Some(found) = find(log, at, file_end, belongs).map_err(log_io)? {
            return Ok(Some(found));
        }
        at = file_end;
    }
    Ok(None)
}

/// The first offset in `[from, to)`, a range in one file, that looks like the start of a record (it
/// has a magic and states its own offset) and that `accept` accepts.
pub(crate) fn find(
    log: &impl LogRead,
    from: u64,
    to: u64,
    accept: impl Fn(u64) -> io::Result<bool>,
) -> io::Result<Option<u64>> {
    let file_end = log.next_file_start(from);
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = from;
    while at < to {
        // Skip holes, because there may be a GiB of zeros. A record may start in a hole if its
        // first bytes are zeros.
        let data = log.next_data(at)?;
        at = at.max(data.saturating_sub(HEAD_BYTES as u64));
        let room = usize::try_from(file_end.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = room.min(SEARCH_BYTES);
        let read = log.read_at(at, &mut buffer[..wanted])?;
        if read < HEAD_BYTES {
            return Ok(None);
        }
        let bytes = &buffer[..read];
        if !is_zero(bytes) {
            for place in places(bytes, at) {
                let candidate = at + place as u64;
                if candidate < to && accept(candidate)? {
                    return Ok(Some(candidate));
                }
            }
        }
        // A head may be split over two reads.
        at += (read - (HEAD_BYTES - 1)) as u64;
    }
    Ok(None)
}

/// Whether all bytes are zero; compares words instead of bytes.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// Positions in `bytes`, which start at log offset `offset`, where a record may start.
fn places(bytes: &[u8], offset: u64) -> impl Iterator<Item = usize> + '_ {
    let magics = [MAGIC.to_be_bytes(), MAGIC_V2.to_be_bytes()];
    let last = bytes.len().saturating_sub(HEAD_BYTES - 1);
    let first_bytes = bytes[MAGIC_AT.min(bytes.len())..].iter().take(last);
    let places = first_bytes.enumerate();
    places
        .filter(move |(_, byte)| **byte == magics[0][0])
        .map(|(place, _)| place)
        .filter(move |place| {
            let magic = &bytes[place + MAGIC_AT..place + MAGIC_AT + 4];
            let stated = &bytes[place + PHYSICAL_OFFSET_AT..place + HEAD_BYTES];
            let own = (offset + *place as u64).to_be_bytes();
            magics.iter().any(|known| magic == known) && stated == own
        })
}

fn belongs(log: &impl LogRead, offset: u64, limit: u64, last_seen: &LastSeen) -> io::Result<bool> {
    let mut scanner = LogScanner::from(offset);
    let Step::Record(bytes) = scanner.step(log, limit)? else {
        return Ok(false);
    };
    Ok(good_record(offset, bytes).is_some_and(|record| last_seen.precedes(&record)))
}
