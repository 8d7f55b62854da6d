//! Checks whether a log is whole. Reads only.

use super::log::LogDirectory;
use super::scan::log_error;
use mq_format::message::{BLANK_BYTES, Head, RecordView};
use mq_store::StoreError;
use mq_store::inspect::scan::{
    LastSeen, LogRead, LogScanner, Neighbours, Step, good_record, next_record,
};

/// Bytes read at once after the end of the log.
const READ_BYTES: usize = 1 << 20;

/// The result of reading a log.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The first damage that has records after it.
    pub damaged: Option<String>,
    /// End of the last record.
    pub log_end: u64,
    /// Store time of the last record, milliseconds since the epoch; 0 if there is no record.
    pub last_store_timestamp_ms: i64,
    /// The first record with a store time after `safe_ms`: it may not be on disk.
    pub unsafe_from: Option<u64>,
}

/// How the last owner left a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastStop {
    /// The store was closed cleanly.
    pub is_clean: bool,
    /// Store time up to which all records were flushed, milliseconds since the epoch.
    pub safe_ms: i64,
}

impl Plan {
    /// Reads the log up to `limit`.
    pub(super) fn of(log: &impl LogRead, limit: u64, left: LastStop) -> Result<Self, StoreError> {
        let mut plan = Self::default();
        let mut last_seen = LastSeen::default();
        let mut doubts = 0;
        let mut scanner = LogScanner::from(log.min_offset());
        plan.log_end = loop {
            let offset = scanner.offset();
            let failed = log_error(offset.cast_signed());
            let is_good = match scanner.step(log, limit).map_err(failed)? {
                Step::End => break offset,
                // A blank record with no file after it: the log ends here.
                Step::Blank if log.next_file_start(offset) >= limit => break offset,
                Step::Blank => true,
                Step::Record(bytes) => match good_record(offset, bytes) {
                    Some(record) if left.is_clean || !record.properties.ends_with(&[0]) => {
                        let end = offset + bytes.len() as u64;
                        let mut neighbours = Neighbours::new(log, limit, &mut doubts);
                        if neighbours.contradict(&last_seen, &record, end)? {
                            plan.damaged = Some(describe_contradiction(&record));
                            break end;
                        }
                        // The checksum covers only the body. Properties that did not reach the disk
                        // are zeros, and no properties text ends in a zero.
                        last_seen.note(&record);
                        if plan.unsafe_from.is_none() && record.store_timestamp_ms > left.safe_ms {
                            plan.unsafe_from = Some(offset);
                        }
                        true
                    }
                    _ => false,
                },
                Step::Invalid => false,
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

/// Describes a record header that contradicts the records around it.
fn describe_contradiction(record: &RecordView<'_>) -> String {
    format!(
        "the record at offset {} of the commit log says queue offset {} of {}/{}, which the \
         records around it contradict",
        record.physical_offset, record.queue_offset, record.topic, record.queue_id
    )
}

/// The range of non-zero bytes after the end of the log.
pub(super) fn bytes_after(
    log: &LogDirectory,
    log_end: u64,
) -> Result<Option<(u64, u64)>, StoreError> {
    let mut bytes = vec![0; READ_BYTES];
    let (mut at, mut last) = (log_end, None);
    let limit = log.max_offset();
    while at < limit {
        let read = log.read_at(at, &mut bytes);
        let read = read.map_err(log_error(at.cast_signed()))?;
        let mut found = &bytes[..read];
        if at == log_end && Head::parse(found) == Head::Blank {
            // The blank record, which the next append overwrites.
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
