//! Whether a log is whole, found by reading it and changing nothing.

use super::log::LogDirectory;
use super::scan::log_error;
use mq_format::message::{BLANK_BYTES, Head, RecordView};
use mq_store::StoreError;
use mq_store::inspect::Neighbours;
use mq_store::inspect::good_record;
use mq_store::inspect::{LastSeen, next_record};
use mq_store::inspect::{LogRead, Step, Walk};

/// Bytes looked at at once behind the end of the log.
const LOOK_BYTES: usize = 1 << 20;

/// What is known of a log that was read.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The first damage that records follow.
    pub damaged: Option<String>,
    /// Where the last record ends.
    pub log_end: u64,
    /// Store time of the last one, milliseconds since the epoch, 0 for none.
    pub last_store_timestamp_ms: i64,
    /// The first record stored after the time up to which all was on disk.
    pub unsafe_from: Option<u64>,
}

/// How a store was left.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeftAs {
    /// It was closed.
    pub is_clean: bool,
    /// Store time up to which the log was on disk, milliseconds since the epoch.
    pub safe_ms: i64,
}

impl Plan {
    /// Reads the log up to `limit`.
    pub(super) fn of(log: &impl LogRead, limit: u64, left: LeftAs) -> Result<Self, StoreError> {
        let mut plan = Self::default();
        let mut last_seen = LastSeen::default();
        let mut doubts = 0;
        let mut walk = Walk::from(log.min_offset());
        plan.log_end = loop {
            let offset = walk.offset();
            let failed = log_error(offset.cast_signed());
            let is_good = match walk.step(log, limit).map_err(failed)? {
                Step::End => break offset,
                // The log ends at a filler that nothing follows.
                Step::Blank if log.next_file_start(offset) >= limit => break offset,
                Step::Blank => true,
                Step::Record(bytes) => match good_record(offset, bytes) {
                    Some(record) if left.is_clean || !record.properties.ends_with(&[0]) => {
                        let end = offset + bytes.len() as u64;
                        let mut neighbours = Neighbours::new(log, limit, &mut doubts);
                        if neighbours.contradict(&last_seen, &record, end)? {
                            plan.damaged = Some(contradicted(&record));
                            break end;
                        }
                        // The checksum covers the body alone: properties that did not reach the
                        // disk are zeros, which no text ends in.
                        last_seen.note(&record);
                        if plan.unsafe_from.is_none() && record.store_timestamp_ms > left.safe_ms {
                            plan.unsafe_from = Some(offset);
                        }
                        true
                    }
                    _ => false,
                },
                Step::Neither => false,
            };
            if is_good {
                continue;
            }
            let Some(to) = next_record(log, offset, limit, &last_seen)? else {
                break offset;
            };
            plan.damaged = Some(format!(
                "bytes {offset} to {to} of the commit log are no records"
            ));
            break to;
        };
        plan.last_store_timestamp_ms = last_seen.store_timestamp_ms;
        Ok(plan)
    }
}

/// The damage of a header, whose neighbours tell what it must have said.
fn contradicted(record: &RecordView<'_>) -> String {
    format!(
        "the record at offset {} of the commit log says queue offset {} of {}/{}, which the \
         records around it contradict",
        record.physical_offset, record.queue_offset, record.topic, record.queue_id
    )
}

/// The bytes behind the end of a log that are no zeros.
pub(super) fn bytes_behind(
    log: &LogDirectory,
    log_end: u64,
) -> Result<Option<(u64, u64)>, StoreError> {
    let mut bytes = vec![0; LOOK_BYTES];
    let (mut at, mut last) = (log_end, None);
    let limit = log.max_offset();
    while at < limit {
        let read = log.read_at(at, &mut bytes);
        let read = read.map_err(log_error(at.cast_signed()))?;
        let mut found = &bytes[..read];
        if at == log_end && Head::parse(found) == Head::Blank {
            // The filler that the next record will overwrite.
            found = &found[BLANK_BYTES..];
        }
        if let Some(place) = found.iter().rposition(|byte| *byte != 0) {
            last = Some(at + (read - found.len() + place) as u64 + 1);
        }
        at = if read == 0 {
            log.next_file_start(at)
        } else {
            at + read as u64
        };
    }
    Ok(last.map(|last| (log_end, last)))
}
