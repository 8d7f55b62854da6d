//! Cuts the log of a closed store, for a slave whose log differs from its master's from some offset
//! on.

use std::path::Path;

use crate::directory::layout;
use crate::directory::lock::StoreLock;
use crate::directory::log_files::open_log;
use crate::directory::queue_ends;
use crate::files::io_error;
use crate::recover::CleanStop;
use crate::scan::damage::{LastSeen, next_record};
use crate::scan::log_scanner::{LogScanner, Step};
use crate::scan::repair::quarantine;
use crate::settings::Settings;
use crate::types::StoreError;
use mq_log::Segments;

/// Ends the log of the closed store at `root` with the last record that ends at `offset` or before
/// it. The cut bytes are kept in `mqstack/quarantine`, in a file named after their first and last
/// offset. Queues and index must be rebuilt before the store is opened. Returns the range that was
/// cut.
///
/// # Errors
/// [`StoreError::Locked`] while a broker runs on the store, [`StoreError::Setting`] if `offset` is
/// not within the log, [`StoreError::Damaged`] if the log has no records up to there.
pub fn cut_log(root: &Path, offset: u64) -> Result<(u64, u64), StoreError> {
    let lock = StoreLock::acquire(root)?;
    let log = open_log(root, &Settings::default())?;
    let io = |source| io_error(&root.join("commitlog"))(source);
    let (at, end) = place(root, &log, offset)?;
    // From here on the store counts as one that was killed.
    layout::mark_open(root)?;
    CleanStop::remove(root)?;
    // The recorded ends may be after the cut, and their offsets will be given again.
    queue_ends::remove(root)?;
    quarantine(root, &log, at, end)?;
    log.truncate_to(at).map_err(io)?;
    drop(lock);
    Ok((at, end))
}

/// The start of the record at `offset`, or its end if it ends there, and the end of the log.
fn place(root: &Path, log: &Segments, offset: u64) -> Result<(u64, u64), StoreError> {
    let outside = || StoreError::Setting {
        key: "offset",
        value: offset.to_string(),
        what: "an offset within the log",
    };
    let start = offset - offset % log.file_size();
    if offset < log.min_offset() || offset >= log.max_offset() {
        return Err(outside());
    }
    let mut scanner = LogScanner::from(start);
    let mut at = start;
    loop {
        let here = scanner.offset();
        if here <= offset {
            at = here;
        }
        let step = scanner.step(log, log.max_offset());
        match step.map_err(io_error(&root.join("commitlog")))? {
            Step::Record(_) | Step::Blank => {}
            Step::Invalid | Step::End if here >= offset => {
                let limit = log.max_offset();
                let next = next_record(log, here, limit, &LastSeen::default())?;
                // Records behind damage are cut, and saved, too.
                let end = next.map_or(here, |_| limit);
                return if end > offset {
                    Ok((at, end))
                } else {
                    Err(outside())
                };
            }
            Step::Invalid | Step::End => {
                return Err(StoreError::Damaged {
                    root: root.display().to_string(),
                    what: format!("its log has no record at {here}, before {offset}"),
                });
            }
        }
    }
}
