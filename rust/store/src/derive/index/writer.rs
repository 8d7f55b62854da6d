//! Adds records to the index, in batches.

use std::sync::Arc;

use super::file::{ActiveIndexFile, IndexFile, Key};
use super::files::IndexFiles;
use crate::files::io_error;
use crate::types::StoreError;
use mq_base::clock::Clock;
use mq_format::index::{KeyHasher, indexed_keys};
use mq_format::message::{Outline, sys_flag};

/// Keys per batch; few enough that their slots fit the L1 cache.
const BATCH_KEYS: usize = 512;

/// Adds records to the index. The dispatcher owns it.
pub struct IndexWriter {
    files: Arc<IndexFiles>,
    active: Option<ActiveIndexFile>,
    clock: Arc<dyn Clock>,
    /// Keys that are not written yet.
    pending: Vec<Key>,
    /// The last write found the disk full. Until a write succeeds, only [`Self::write`] tries
    /// again.
    is_short: bool,
    hasher: KeyHasher,
    /// Physical offset of the last message added; None if there is none.
    end: Option<i64>,
    /// The last message in the files, and its hashes there. After a restart this message is
    /// dispatched again, and these hashes are not added a second time.
    resumed_at: Option<i64>,
    seen_again: Vec<i32>,
}

impl IndexWriter {
    /// Continues the newest file.
    pub fn resume(files: Arc<IndexFiles>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let all = files.files();
        let active = match all.last() {
            Some(file) => {
                let active = ActiveIndexFile::new(Arc::clone(file));
                Some(active.map_err(io_error(file.path()))?)
            }
            None => None,
        };
        let end = active
            .as_ref()
            .map(|active| active.header().end_physical_offset);
        let mut seen_again = Vec::new();
        for file in all.iter().rev() {
            let end = end.unwrap_or(0);
            if !trailing_hashes(file, end, &mut seen_again).map_err(io_error(file.path()))? {
                break;
            }
        }
        Ok(Self {
            files,
            active,
            clock,
            pending: Vec::with_capacity(BATCH_KEYS),
            is_short: false,
            hasher: KeyHasher::default(),
            end,
            resumed_at: end,
            seen_again,
        })
    }

    /// Physical offset of the last message added; None if there is none.
    pub(crate) fn end_physical_offset(&self) -> Option<i64> {
        self.end
    }

    /// Adds the keys of a record; ignores records before the last indexed one. Readers see the keys
    /// after [`Self::write`] at the latest. On a full disk the keys stay in memory.
    pub(crate) fn add_record(
        &mut self,
        physical_offset: i64,
        record: &Outline<'_>,
    ) -> Result<(), StoreError> {
        let is_rollback = record.sys_flag & sys_flag::TRANSACTION_MASK == sys_flag::ROLLBACK;
        if is_rollback || self.end.is_some_and(|end| physical_offset < end) {
            return Ok(());
        }
        self.hasher.set_topic(record.topic);
        for key in indexed_keys(record.properties) {
            let hash = self.hasher.hash(key);
            if !self.was_seen(hash, physical_offset) {
                self.pending.push(Key {
                    hash,
                    physical_offset,
                    store_timestamp_ms: record.store_timestamp_ms,
                });
                self.end = Some(physical_offset);
            }
        }
        if self.pending.len() >= BATCH_KEYS && !self.is_short {
            self.write()?;
        }
        Ok(())
    }

    /// Whether this key was written before the restart. Each such key is reported once.
    fn was_seen(&mut self, key_hash: i32, physical_offset: i64) -> bool {
        if self.seen_again.is_empty() {
            return false;
        }
        if self.resumed_at != Some(physical_offset) {
            self.seen_again.clear();
            return false;
        }
        let found = self.seen_again.iter().position(|seen| *seen == key_hash);
        found.map(|at| self.seen_again.swap_remove(at)).is_some()
    }

    /// Writes the keys added so far. On a full disk the rest stays in memory for the next call.
    pub(crate) fn write(&mut self) -> Result<(), StoreError> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut done = 0;
        let mut written = Ok(());
        while done < pending.len() && written.is_ok() {
            let added = self.active_with_room();
            let added = added.and_then(|active| active.add(&pending[done..]));
            written = added.map(|added| done += added);
        }
        pending.drain(..done);
        self.pending = pending;
        self.is_short = written.is_err();
        written
    }

    fn active_with_room(&mut self) -> Result<&mut ActiveIndexFile, StoreError> {
        let is_full = self.active.as_ref().is_none_or(ActiveIndexFile::is_full);
        if is_full {
            let previous = self.active.as_ref().map(|active| *active.header());
            let now_ms = self.clock.wall_ms();
            let file = self.files.create(now_ms, previous.unwrap_or_default())?;
            let active = ActiveIndexFile::new(Arc::clone(&file));
            let active = active.map_err(io_error(file.path()))?;
            if let Some(full) = self.active.replace(active) {
                self.files.note_full(full.file());
            }
        }
        Ok(self.active.as_mut().expect("made above when missing"))
    }
}

/// Collects the hashes of the last entries that point to `end`; true if all entries of the file do.
fn trailing_hashes(file: &IndexFile, end: i64, hashes: &mut Vec<i32>) -> std::io::Result<bool> {
    for index in (1..file.header()?.index_count).rev() {
        let entry = file.entry(index)?;
        if entry.physical_offset != end {
            return Ok(false);
        }
        hashes.push(entry.key_hash);
    }
    Ok(true)
}
