//! Facts about the commit log that its files do not show, in `{root}/mqstack/log.json`: the file
//! length, and the damage that a start has begun to repair. If that start is killed, the log looks
//! whole to the next one, but the queues do not match it yet.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::types::StoreError;
use mq_statefile::own_json;

/// Most recorded damaged ranges. With more damage, some queue entries may become holes that readers
/// handle themselves.
const REPAIRS_MAX: usize = 1_000;

/// Facts about a commit log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogFacts {
    /// Length of each log file, bytes.
    pub file_bytes: u64,
    /// Start offsets of files that were too short and were extended. They hold zeros instead of
    /// records until recovery has repaired them.
    pub extended: Vec<u64>,
    /// Damage that recovery has begun to overwrite.
    pub repairs: Vec<StartedRepair>,
    /// Queues that are truncated and rebuilt, with the offset that they must reach again.
    pub queue_ends: Vec<QueueEnd>,
}

/// A range of the log that recovery overwrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedRepair {
    pub from: u64,
    pub to: u64,
    /// Start of the good record that ends at `from`, if known; the repair may extend or overwrite
    /// it.
    pub last: Option<u64>,
}

/// The former end of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueEnd {
    pub topic: String,
    pub queue_id: i32,
    /// One past the last queue offset.
    pub end: i64,
}

impl LogFacts {
    /// Reads the facts; empty for a store that only RocketMQ has opened.
    pub fn read(root: &Path) -> Result<Self, StoreError> {
        Ok(own_json::read(&path_of(root))?.unwrap_or_default())
    }

    /// Whether the store at `root` has a file of facts that cannot be read.
    pub fn is_damaged(root: &Path) -> Result<bool, StoreError> {
        let path = path_of(root);
        Ok(path.exists() && own_json::read::<Self>(&path)?.is_none())
    }

    /// Whether mqstack has opened the store.
    pub(crate) fn is_there(root: &Path) -> bool {
        path_of(root).exists()
    }

    /// Saves the facts durably.
    pub(crate) fn save(&self, root: &Path) -> Result<(), StoreError> {
        Ok(own_json::write(&path_of(root), self)?)
    }

    /// Whether the last recovery was finished.
    pub fn is_complete(&self) -> bool {
        self.extended.is_empty() && self.repairs.is_empty() && self.queue_ends.is_empty()
    }

    /// Records durably that a range is about to be overwritten.
    pub(crate) fn note_repair(root: &Path, repair: StartedRepair) -> Result<(), StoreError> {
        let mut facts = Self::read(root)?;
        if facts.repairs.len() >= REPAIRS_MAX || facts.repairs.contains(&repair) {
            return Ok(());
        }
        facts.repairs.push(repair);
        facts.save(root)
    }

    /// Records durably the ends of queues that are about to be truncated.
    pub(crate) fn note_ends(root: &Path, ends: &[QueueEnd]) -> Result<(), StoreError> {
        let mut facts = Self::read(root)?;
        if facts.queue_ends == ends {
            return Ok(());
        }
        facts.queue_ends = ends.to_vec();
        facts.save(root)
    }

    /// Records durably that queues and index match the log.
    pub fn complete(root: &Path) -> Result<(), StoreError> {
        let facts = Self::read(root)?;
        if facts.is_complete() {
            return Ok(());
        }
        let file_bytes = facts.file_bytes;
        let completed = Self {
            file_bytes,
            ..Self::default()
        };
        completed.save(root)
    }
}

fn path_of(root: &Path) -> PathBuf {
    root.join("mqstack").join("log.json")
}
