//! Reads messages by queue, by offset, by key and by time.

pub(crate) mod lookup;
mod pull;
pub(crate) mod read_ahead;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod sql;
#[cfg(test)]
mod tests;

use mq_format::consume_queue::QueueEntry;

/// Whether the record of an entry is within these bounds of the log.
fn is_within(entry: &QueueEntry, (start, end): (i64, i64)) -> bool {
    entry.physical_offset >= start && entry.end_offset() <= end
}
