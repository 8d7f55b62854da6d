//! Consume queues and index, derived from the commit log.
//!
//! The two functions here build one of them for a store that is not open. Benches use them to
//! measure each alone; opening a store builds missing files without them.

pub(crate) mod arrivals;
pub(crate) mod derived_files;
pub(crate) mod dispatch;
pub(crate) mod dispatch_thread;
pub(crate) mod index;
pub(crate) mod queues;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use crate::derive::dispatch::Dispatch;
use crate::derive::index::files::IndexFiles;
use crate::derive::index::writer::IndexWriter;
use crate::derive::queues::table::ConsumeQueues;
use crate::directory::log_files;
use crate::files::io_error;
use crate::scan::log_scanner::{LogScanner, Step};
use crate::settings::Settings;
use crate::types::StoreError;
use mq_base::clock::Clock;
use mq_format::message::Outline;
use mq_log::Access;

/// Adds every record to the consume queues and their extensions; returns the end of the log.
pub fn queues(root: &Path, settings: &Settings) -> Result<u64, StoreError> {
    let log = log_files::open_log(root, settings)?;
    let queues = Arc::new(ConsumeQueues::open(root, settings, false)?);
    let derived = Dispatch::new(Arc::clone(&queues), None, settings.levels()?);
    let mut derived = derived.with_multi_dispatch(settings.multi_dispatch);
    let mut scanner = LogScanner::from(log.min_offset());
    match derived.follow(&log, &mut scanner, log.max_offset(), None) {
        // The unwritten rest of the last file ended the scan. Publish the records before it.
        Err(StoreError::Damaged { .. }) => {
            let end = scanner.offset();
            derived.follow(&log, &mut scanner, end, None)?;
        }
        other => other?,
    }
    queues.write_pending()?;
    Ok(scanner.offset())
}

/// Adds every record to the index; returns the end of the log.
pub fn index(root: &Path, settings: &Settings, clock: Arc<dyn Clock>) -> Result<u64, StoreError> {
    let log = log_files::open_log(root, settings)?;
    let files = IndexFiles::load(
        root,
        settings.index_slots,
        settings.index_entries,
        Access::Append,
    )?;
    let mut index = IndexWriter::resume(Arc::new(files), clock)?;
    let mut scanner = LogScanner::from(log.min_offset());
    loop {
        let steps = scanner.steps(&log, log.max_offset());
        match steps.map_err(io_error(root))? {
            Step::Record(records) => {
                for (offset, bytes) in records.iter() {
                    if let Ok(record) = Outline::parse(bytes) {
                        index.add_record(offset.cast_signed(), &record)?;
                    }
                }
            }
            Step::Blank => {}
            Step::Invalid | Step::End => break,
        }
    }
    index.write()?;
    Ok(scanner.offset())
}
