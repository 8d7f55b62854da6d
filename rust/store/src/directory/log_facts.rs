//! What is known of the commit log beside its files, in `{root}/mqstack/log.json`: the length that
//! a file had before it was cut, and what a start has begun to heal. Should that start be killed,
//! the log looks whole to the next one, but the queues do not follow it yet.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::state::own_json;
use crate::types::StoreError;

/// Damaged ranges that are noted; a log with more loses units of queues to no more than holes that
/// readers find by themselves.
const HEALING_MAX: usize = 1_000;

/// Facts about a commit log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogFacts {
    /// Length of each file, bytes.
    pub file_bytes: u64,
    /// Files, by the offset of their first byte, that were too short and got their length back.
    /// They hold zeros instead of records until recovery has healed them.
    pub extended: Vec<u64>,
    /// Damage that recovery has begun to overwrite.
    pub healing: Vec<Healing>,
    /// Queues that are cut and built anew, but must not end before.
    pub queue_ends: Vec<QueueEnd>,
}

/// A range of the log that recovery overwrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Healing {
    pub from: u64,
    pub to: u64,
    /// Where the good record starts that ends at `from`, if it is known: it may have to go or grow.
    pub last: Option<u64>,
}

/// The end that a queue had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueEnd {
    pub topic: String,
    pub queue_id: i32,
    /// Queue offset behind the last.
    pub end: i64,
}

impl LogFacts {
    /// What was recorded; nothing of a store that only RocketMQ has opened.
    pub fn read(root: &Path) -> Result<Self, StoreError> {
        Ok(own_json::read(&path_of(root))?.unwrap_or_default())
    }

    /// Whether mqstack has opened the store.
    pub(crate) fn is_there(root: &Path) -> bool {
        path_of(root).exists()
    }

    /// Records the facts, durably.
    pub(crate) fn save(&self, root: &Path) -> Result<(), StoreError> {
        own_json::write(&path_of(root), self)
    }

    /// Whether the last recovery came to its end.
    pub fn is_settled(&self) -> bool {
        self.extended.is_empty() && self.healing.is_empty() && self.queue_ends.is_empty()
    }

    /// Notes, durably, that a range is about to be overwritten.
    pub(crate) fn note_healing(root: &Path, healing: Healing) -> Result<(), StoreError> {
        let mut facts = Self::read(root)?;
        if facts.healing.len() >= HEALING_MAX || facts.healing.contains(&healing) {
            return Ok(());
        }
        facts.healing.push(healing);
        facts.save(root)
    }

    /// Notes, durably, where queues ended that are about to be cut.
    pub(crate) fn note_ends(root: &Path, ends: &[QueueEnd]) -> Result<(), StoreError> {
        let mut facts = Self::read(root)?;
        if facts.queue_ends == ends {
            return Ok(());
        }
        facts.queue_ends = ends.to_vec();
        facts.save(root)
    }

    /// Says, durably, that queues and index follow the log.
    pub fn settle(root: &Path) -> Result<(), StoreError> {
        let facts = Self::read(root)?;
        if facts.is_settled() {
            return Ok(());
        }
        let file_bytes = facts.file_bytes;
        let settled = Self {
            file_bytes,
            ..Self::default()
        };
        settled.save(root)
    }
}

fn path_of(root: &Path) -> PathBuf {
    root.join("mqstack").join("log.json")
}
