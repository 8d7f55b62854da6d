//! Deleted topics of a master, for its slaves: the log shows a slave the records of a deleted
//! topic, but not that they are deleted.

use std::collections::BTreeMap;

use crate::directory::deleted::{Deletion, is_deletable};
use crate::store::Store;
use crate::types::{Cleaned, StoreError};

impl Store {
    /// The topics whose messages were deleted while their records may still be in the log, as JSON
    /// for [`Store::take_deletions`].
    pub fn deletions(&self) -> String {
        let all = self.reader.queues.deletions.all();
        serde_json::to_string(&all).unwrap_or_default()
    }

    /// Deletes what the master of this slave deleted, durably. `of_master` is its
    /// [`Store::deletions`]; one of records that this log does not have yet is left for a later
    /// call. Blocks on the disk.
    ///
    /// # Errors
    /// [`StoreError::Setting`] for a text of another form; [`StoreError::Io`] if the deletions
    /// cannot be saved.
    pub fn take_deletions(&self, of_master: &str) -> Result<Cleaned, StoreError> {
        let unfit = |value: String| StoreError::Setting {
            key: "deletions",
            value,
            what: "a table of deleted topics",
        };
        let mut topics: BTreeMap<String, Deletion> =
            serde_json::from_str(of_master).map_err(|error| unfit(error.to_string()))?;
        let end = self.max_physical_offset();
        let known = &self.reader.queues.deletions;
        topics.retain(|topic, deletion| {
            let is_new = deletion.log_end > known.log_end_of(topic) && deletion.log_end <= end;
            is_new && is_deletable(topic) && deletion.next_offsets.values().all(|next| *next >= 0)
        });
        if topics.is_empty() {
            return Ok(Cleaned::default());
        }
        self.flush_log()?;
        self.cleaner.delete(topics)
    }
}
