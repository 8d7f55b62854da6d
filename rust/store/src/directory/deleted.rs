//! Topics with deleted messages, in `{root}/mqstack/deleted.json`. The log keeps the records until
//! its files expire, so every start, rebuild and check must know which records are deleted.
//!
//! A record of such a topic is deleted if it starts before the end of the log at the time of the
//! deletion. The queues keep their next offsets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::types::StoreError;
use mq_format::message::SCHEDULE_TOPIC;
use mq_format::multi_dispatch;
use mq_statefile::own_json;

/// Prefix of the broker's own topics, such as those of half messages and of their ends. Their
/// messages are still needed, even if the broker does not know the topic yet. RocketMQ protects
/// fewer topics.
const SYSTEM_PREFIX: &str = "RMQ_SYS_";
/// Topic of half messages that the broker gave up.
const GIVEN_UP_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";

/// The deletion of a topic's messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deletion {
    /// End of the log at the deletion, bytes.
    pub(crate) log_end: i64,
    /// The next queue offset of each queue.
    pub(crate) next_offsets: BTreeMap<i32, i64>,
}

/// The deletions of a store whose records may still be in the log.
#[derive(Debug)]
pub struct Deletions {
    path: PathBuf,
    topics: RwLock<BTreeMap<String, Deletion>>,
}

impl Deletions {
    /// Reads the deletions of the store at `root`.
    pub fn read(root: &Path) -> Result<Self, StoreError> {
        let path = path_of(root);
        let topics = own_json::read(&path)?.unwrap_or_default();
        Ok(Self {
            path,
            topics: RwLock::new(topics),
        })
    }

    /// Whether the store at `root` has a file of deletions that cannot be read.
    pub fn is_damaged(root: &Path) -> Result<bool, StoreError> {
        let path = path_of(root);
        Ok(path.exists() && own_json::read::<BTreeMap<String, Deletion>>(&path)?.is_none())
    }

    /// Writes the deletions to a copy of the store.
    pub fn copy_to(&self, root: &Path) -> Result<(), StoreError> {
        let all = self.all();
        if all.is_empty() {
            return Ok(());
        }
        Ok(own_json::write(&path_of(root), &all)?)
    }

    /// Log offset before which this topic's records are deleted; 0 if none are.
    pub fn log_end_of(&self, topic: &str) -> i64 {
        let topics = self.topics.read();
        topics.get(topic).map_or(0, |deletion| deletion.log_end)
    }

    /// The next offset of a queue when its messages were deleted; 0 if they were not.
    pub(crate) fn next_offset(&self, topic: &str, queue_id: i32) -> i64 {
        let topics = self.topics.read();
        let deletion = topics.get(topic);
        let next = deletion.and_then(|deletion| deletion.next_offsets.get(&queue_id));
        next.copied().unwrap_or(0)
    }

    /// All deletions, by topic.
    pub(crate) fn all(&self) -> BTreeMap<String, Deletion> {
        self.topics.read().clone()
    }

    /// Saves deletions durably, and drops those whose records have expired.
    pub(crate) fn add(
        &self,
        added: BTreeMap<String, Deletion>,
        log_start: i64,
    ) -> Result<(), StoreError> {
        self.change(|topics| {
            topics.retain(|_, deletion| deletion.log_end > log_start);
            for (topic, deletion) in added {
                let known = topics.entry(topic).or_default();
                known.log_end = known.log_end.max(deletion.log_end);
                for (queue_id, next) in deletion.next_offsets {
                    let known = known.next_offsets.entry(queue_id).or_default();
                    *known = next.max(*known);
                }
            }
        })
    }

    /// Limits deletions to the end of the log: records appended from there on are not deleted.
    pub(crate) fn end_at(&self, log_end: i64) -> Result<(), StoreError> {
        let is_beyond = |deletion: &Deletion| deletion.log_end > log_end;
        if !self.topics.read().values().any(is_beyond) {
            return Ok(());
        }
        self.change(|topics| {
            for deletion in topics.values_mut() {
                deletion.log_end = deletion.log_end.min(log_end);
            }
        })
    }

    /// Applies a change. Readers see it when it is durable.
    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Deletion>),
    ) -> Result<(), StoreError> {
        let mut changed = self.all();
        change(&mut changed);
        own_json::write(&self.path, &changed)?;
        *self.topics.write() = changed;
        Ok(())
    }
}

/// Whether a topic can be deleted. The store needs its own topics, and light topics are in no
/// table.
pub(crate) fn is_deletable(topic: &str) -> bool {
    let is_named = [SCHEDULE_TOPIC, GIVEN_UP_TOPIC].contains(&topic);
    let is_system = is_named || topic.starts_with(SYSTEM_PREFIX);
    !is_system && !multi_dispatch::is_lmq(topic)
}

fn path_of(root: &Path) -> PathBuf {
    root.join("mqstack").join("deleted.json")
}
