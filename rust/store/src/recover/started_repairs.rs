//! Repairs that an earlier start began. If that start was killed, the log may be whole while the
//! queues do not match it yet: finds the changes that the queues lack.

use super::recovery::Recovery;
use crate::directory::log_facts::StartedRepair;
use crate::scan::log_io;
use crate::scan::log_scanner::{LogScanner, Step};
use crate::scan::record::good_record;
use crate::scan::repair::Change;
use crate::types::StoreError;
use mq_format::message::sys_flag;

impl Recovery<'_> {
    /// The changes that queues must follow for ranges that an earlier start repaired. The log is
    /// checked.
    pub(super) fn unfinished(&self, repairs: &[StartedRepair]) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::new();
        for repair in repairs {
            let StartedRepair { from, to, last } = *repair;
            let mut change = Change {
                from,
                to,
                grown: None,
            };
            let mut scanner = LogScanner::from(last.unwrap_or(from));
            match scanner.step(self.log, to).map_err(log_io)? {
                Step::Blank => change.from = last.unwrap_or(from),
                Step::Record(bytes) if scan_end(last, bytes) == Some(to) => {
                    change.grown = last.map(|last| (last, bytes.len()));
                }
                _ => {}
            }
            if change.grown.is_some() || !self.has_message(change.from, to)? {
                changes.push(change);
            }
        }
        Ok(changes)
    }

    /// Whether a message starts in a range.
    fn has_message(&self, from: u64, to: u64) -> Result<bool, StoreError> {
        let mut scanner = LogScanner::from(from);
        while scanner.offset() < to {
            let offset = scanner.offset();
            match scanner.step(self.log, to).map_err(log_io)? {
                Step::Record(bytes) => {
                    let record = good_record(offset, bytes);
                    if record.is_some_and(|record| sys_flag::is_queued(record.sys_flag)) {
                        return Ok(true);
                    }
                }
                Step::Blank => {}
                Step::Invalid | Step::End => break,
            }
        }
        Ok(false)
    }
}

/// End of the record that starts at `last`.
fn scan_end(last: Option<u64>, bytes: &[u8]) -> Option<u64> {
    Some(last? + bytes.len() as u64)
}
