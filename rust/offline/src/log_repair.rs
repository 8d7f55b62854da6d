//! Repairs the log of a store.

use std::path::Path;

use super::plan::{Plan, bytes_after};
use super::progress::{ProgressReporter, Step, stopped};
use super::scan::{Scan, log_error};
use mq_log::Segments;
use mq_store::Settings;
use mq_store::StoreError;
use mq_store::inspect::log_files;
use mq_store::inspect::scan::{Left, LogCheck};

/// Bytes rewritten at once.
const REWRITE_BYTES: usize = 4 << 20;

/// The log that the derived files are built from.
pub(super) struct Source {
    /// End of the last record.
    pub log_end: u64,
    /// Store time of its last record, milliseconds since the epoch.
    pub last_store_timestamp_ms: i64,
    /// Damaged ranges that were overwritten.
    pub repaired: Vec<(u64, u64)>,
    /// Bytes after the end that held no record and were removed.
    pub cut: Option<(u64, u64)>,
}

/// Repairs the log as recovery does, from its first byte, and truncates it after its last record.
pub(super) fn repair_log(
    scan: &Scan,
    root: &Path,
    settings: &Settings,
    left: Left,
    reporter: &ProgressReporter<'_>,
) -> Result<Source, StoreError> {
    let log = log_files::open_log(root, settings)?;
    let all = log.max_offset() - log.min_offset();
    reporter.report(Step::Check, 0, all).map_err(stopped)?;
    let check = LogCheck::new(root, &log, true, left);
    let mut check = check.with_multi_dispatch(settings.multi_dispatch);
    let log_end = check.run(log.min_offset(), None, |_| ())?;
    reporter.report(Step::Check, all, all).map_err(stopped)?;
    // Look now: if `root` is the source itself, truncation removes these bytes.
    let cut = bytes_after(&scan.log, log_end)?;
    let failed = || log_error(log_end.cast_signed());
    log.truncate_to(log_end).map_err(failed())?;
    if let Left::Unclean(safe_ms) = left
        && root == scan.root
        && let Some(from) = check.first_after(safe_ms)
    {
        rewrite(&log, from, log_end).map_err(failed())?;
    }
    Ok(Source {
        log_end,
        last_store_timestamp_ms: check.last_store_timestamp_ms(),
        repaired: check.repaired_ranges().to_vec(),
        cut,
    })
}

impl Plan {
    /// The source of a log that needs no repair.
    pub(super) fn into_source(self) -> Source {
        Source {
            log_end: self.log_end,
            last_store_timestamp_ms: self.last_store_timestamp_ms,
            repaired: Vec::new(),
            cut: None,
        }
    }
}

/// Writes and syncs a range again: after a failed fsync the page cache may hold pages that are
/// marked clean but never reached the disk.
pub(super) fn rewrite(log: &Segments, from: u64, to: u64) -> std::io::Result<()> {
    let mut bytes = vec![0; REWRITE_BYTES];
    let mut at = from;
    while at < to {
        let count = log.read_at(at, &mut bytes)?;
        if count == 0 {
            break;
        }
        log.overwrite(at, &bytes[..count])?;
        at += count as u64;
    }
    Ok(())
}
