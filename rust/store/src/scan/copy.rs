//! The check of a slave's log. It must be its master's up to its end, so nothing in it is
//! overwritten: it ends before what a power loss took, and other damage is refused.

use super::log_check::LogCheck;
use super::log_io;
use super::repair::quarantine;
use crate::scan::log_scanner::{LogScanner, Step};
use crate::types::StoreError;
use mq_format::message::{CheckCrc, RecordView};

impl LogCheck<'_> {
    /// Whether the log is a copy in which the record at `next`, and so what is missing before it,
    /// may have been stored after the last flush.
    pub(super) fn copy_ends_before(&self, next: u64) -> Result<bool, StoreError> {
        if !self.is_copy {
            return Ok(false);
        }
        let mut scanner = LogScanner::from(next);
        let Step::Record(bytes) = scanner.step(self.log, u64::MAX).map_err(log_io)? else {
            return Ok(false);
        };
        let record = RecordView::parse(bytes, CheckCrc::No).ok();
        Ok(record.is_some_and(|record| record.store_timestamp_ms > self.belief.durable_ms))
    }

    /// Saves the bytes up to `limit` of a copy that ends at `from`.
    pub(super) fn end_copy(&self, from: u64, limit: u64) -> Result<(), StoreError> {
        tracing::warn!(
            "{}: the bytes there did not reach the disk before the crash. This slave's log ends \
             there, and the rest is copied from the master again; what the disk has of it is saved \
             to mqstack/quarantine",
            self.place(from)
        );
        quarantine(self.root, self.log, from, limit)
    }

    /// The error for damage of a copy that begins at `from`.
    pub(super) fn damaged_copy(&self, from: u64, what: &str) -> StoreError {
        let root = self.root.display().to_string();
        let what = format!(
            "{what}. A slave's log is not repaired, because it would differ from its master's. Cut \
             it there with `mqstore cut {root} {from}`, which keeps the cut bytes; the slave then \
             copies them again. If the master is lost, promote this broker: a master repairs its \
             log"
        );
        StoreError::Damaged { root, what }
    }
}
