//! Telling damage from a torn tail: does a valid record follow the bad bytes?

use std::collections::HashMap;

use super::log_check::good_record;
use super::log_io;
use crate::format::message::{MAGIC, MAGIC_V2, RecordView, sys_flag};
use crate::store::types::StoreError;
use crate::store::walk::{LogRead, Step, Walk};

/// Bytes searched at once.
const SEARCH_BYTES: usize = 1 << 20;
/// Offset of the magic in a record.
const MAGIC_AT: u64 = 4;

/// What the last good records were, to tell their successors from left-overs.
#[derive(Debug, Default)]
pub(in crate::store) struct LastSeen {
    /// Store time of the last good record, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
    queue_offsets: HashMap<String, HashMap<i32, i64>>,
}

impl LastSeen {
    /// Takes a good record into account.
    pub(in crate::store) fn note(&mut self, record: &RecordView<'_>) {
        self.store_timestamp_ms = record.store_timestamp_ms;
        if !sys_flag::is_queued(record.sys_flag) {
            return;
        }
        if !self.queue_offsets.contains_key(record.topic) {
            self.queue_offsets
                .insert(record.topic.to_owned(), HashMap::new());
        }
        if let Some(of_topic) = self.queue_offsets.get_mut(record.topic) {
            of_topic.insert(record.queue_id, record.queue_offset);
        }
    }

    /// Whether a record can come after those seen. RocketMQ leaves old records behind the end
    /// of a log it cut; they are older than what was written over their beginning.
    fn precedes(&self, record: &RecordView<'_>) -> bool {
        let of_topic = self.queue_offsets.get(record.topic);
        let seen = of_topic.and_then(|queues| queues.get(&record.queue_id));
        let is_new = !sys_flag::is_queued(record.sys_flag)
            || seen.is_none_or(|seen| record.queue_offset > *seen);
        record.store_timestamp_ms >= self.store_timestamp_ms && is_new
    }
}

/// The first record behind the bad bytes at `from` that belongs to the log; None where the log
/// just ends.
pub(in crate::store) fn next_record(
    log: &impl LogRead,
    from: u64,
    limit: u64,
    last_seen: &LastSeen,
) -> Result<Option<u64>, StoreError> {
    let mut at = from + 1;
    while at < limit {
        let file_end = log.next_file_start(at).min(limit);
        if let Some(found) = search_file(log, at, file_end, last_seen)? {
            return Ok(Some(found));
        }
        at = file_end;
    }
    Ok(None)
}

/// Searches the rest of one file.
fn search_file(
    log: &impl LogRead,
    from: u64,
    file_end: u64,
    last_seen: &LastSeen,
) -> Result<Option<u64>, StoreError> {
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = from;
    while at < file_end {
        // Blocks ahead of the writer are zeros; there may be a GiB of them.
        let read = log.read_at(at, &mut buffer).map_err(log_io)?;
        if read <= MAGIC_AT as usize {
            return Ok(None);
        }
        if is_zero(&buffer[..read]) {
            at += (read - MAGIC_AT as usize) as u64;
            continue;
        }
        for place in magic_places(&buffer[..read]) {
            let candidate = at + place as u64;
            if candidate < file_end && belongs(log, candidate, file_end, last_seen)? {
                return Ok(Some(candidate));
            }
        }
        // A magic may lie across two reads.
        at += (read - (MAGIC_AT as usize + 3).min(read - 1)) as u64;
    }
    Ok(None)
}

/// Whether there is nothing at all; compares words, not bytes.
fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// Places in `bytes` where a record may start: those with a magic behind.
fn magic_places(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let magics = [MAGIC.to_be_bytes(), MAGIC_V2.to_be_bytes()];
    let size = MAGIC_AT as usize;
    let places = bytes.windows(size + 4).enumerate();
    places
        .filter(move |(_, window)| window[size] == magics[0][0])
        .filter(move |(_, window)| magics.iter().any(|magic| window[size..] == magic[..]))
        .map(|(place, _)| place)
}

fn belongs(
    log: &impl LogRead,
    offset: u64,
    limit: u64,
    last_seen: &LastSeen,
) -> Result<bool, StoreError> {
    let mut walk = Walk::from(offset);
    let Step::Record(bytes) = walk.step(log, limit).map_err(log_io)? else {
        return Ok(false);
    };
    Ok(good_record(offset, bytes).is_some_and(|record| last_seen.precedes(&record)))
}
