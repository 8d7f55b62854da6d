//! Rebuilds an index file from the log after a look-up found damage in it. A damaged entry ends its
//! chain, and a slot that reads zero has none; both hide keys.

use std::io;
use std::sync::Arc;

use super::file::{ActiveIndexFile, IndexFile, Key};
use super::files::IndexFiles;
use crate::files::{create_sparse, io_error, sync_directory};
use crate::scan::log_scanner::{LogRead, LogScanner, Step};
use crate::types::StoreError;
use mq_format::index::{IndexHeader, KeyHasher, indexed_keys};
use mq_format::message::{Outline, sys_flag};
use mq_log::fs;

/// Keys added at once.
const BATCH_KEYS: usize = 4_096;

impl IndexFiles {
    /// Rebuilds the files in which look-ups found damage. The dispatcher owns the newest file, so
    /// that one is rebuilt only when the dispatcher `has_ended`.
    pub(crate) fn repair(&self, log: &impl LogRead, has_ended: bool) -> Result<(), StoreError> {
        let files = self.files();
        let free = files.len().saturating_sub(usize::from(!has_ended));
        let doubted = files[..free].iter().filter(|file| file.is_doubted());
        doubted
            .into_iter()
            .try_for_each(|file| self.make_anew(file, log))
    }

    fn make_anew(&self, old: &Arc<IndexFile>, log: &impl LogRead) -> Result<(), StoreError> {
        let path = old.path();
        let shown = path.display();
        old.believe();
        let header = old.header().map_err(io_error(path))?;
        if !(1..=old.layout().entries.cast_signed()).contains(&header.index_count) {
            tracing::error!(path = %shown, "cannot rebuild an index file: its header is damaged");
            return Ok(());
        }
        tracing::warn!(path = %shown, "rebuilding a damaged index file from the log");
        let begun = IndexHeader::default().encode();
        let name = path.file_name().unwrap_or_default();
        // If this rebuild is interrupted, the next open removes the file.
        let beside = self.root().join("mqstack").join(name).with_extension("new");
        let bytes = old.layout().file_bytes();
        let file = create_sparse(self.root(), &beside, bytes, |file| {
            file.write_all_at(&begun, 0)
        })?;
        let file = Arc::new(IndexFile::of(path.to_owned(), file, old.layout()));
        let mut active = ActiveIndexFile::new(Arc::clone(&file)).map_err(io_error(path))?;
        fill(&mut active, old, &header, log)?;
        file.sync()?;
        fs::rename(&beside, path).map_err(io_error(path))?;
        sync_directory(&self.root().join("index"))?;
        self.replace(old, file);
        Ok(())
    }
}

/// Adds the keys of the old file's records. The first and the last record may have some of their
/// keys in the neighbouring files.
fn fill(
    active: &mut ActiveIndexFile,
    old: &IndexFile,
    header: &IndexHeader,
    log: &impl LogRead,
) -> Result<(), StoreError> {
    let failed = || io_error(old.path());
    let [of_first, of_last] = at_ends(old, header).map_err(failed())?;
    let (begin, end) = (header.begin_physical_offset, header.end_physical_offset);
    let mut scanner = LogScanner::from(begin.max(log.min_offset().cast_signed()).cast_unsigned());
    let (mut hasher, mut keys) = (KeyHasher::default(), Vec::with_capacity(BATCH_KEYS));
    while scanner.offset().cast_signed() <= end {
        let physical_offset = scanner.offset().cast_signed();
        match scanner.step(log, u64::MAX).map_err(failed())? {
            Step::Record(bytes) => {
                let Ok(record) = Outline::parse(bytes) else {
                    continue;
                };
                if sys_flag::is_rollback(record.sys_flag) {
                    continue;
                }
                hasher.set_topic(record.topic);
                let count = indexed_keys(record.properties).count();
                let before = match physical_offset == begin && of_first > 0 {
                    true => count.saturating_sub(of_first),
                    false => 0,
                };
                let most = match physical_offset == end && of_last > 0 {
                    true => of_last,
                    false => count,
                };
                let wanted = indexed_keys(record.properties).skip(before).take(most);
                keys.extend(wanted.map(|key| Key {
                    hash: hasher.hash(key),
                    physical_offset,
                    store_timestamp_ms: record.store_timestamp_ms,
                }));
            }
            Step::Blank => {}
            Step::Invalid | Step::End => break,
        }
        if keys.len() >= BATCH_KEYS {
            active.add(&keys)?;
            keys.clear();
        }
    }
    active.add(&keys).map(drop)
}

/// Number of entries that a file has of its first and of its last record.
fn at_ends(file: &IndexFile, header: &IndexHeader) -> io::Result<[usize; 2]> {
    let count = |numbers: &mut dyn Iterator<Item = i32>, offset: i64| {
        let mut found = 0;
        for number in numbers {
            if file.entry(number)?.physical_offset != offset {
                break;
            }
            found += 1;
        }
        Ok::<_, io::Error>(found)
    };
    Ok([
        count(&mut (1..header.index_count), header.begin_physical_offset)?,
        count(
            &mut (1..header.index_count).rev(),
            header.end_physical_offset,
        )?,
    ])
}
