//! Ends of the consume queues, in `{root}/mqstack/queue_ends.json`, written by a clean stop and
//! after each recovery. A queue with fewer entries lost some to damage. It must not reuse their
//! offsets, even if the log has no record of them any more.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::io_error;
use crate::state::own_json;
use crate::types::StoreError;
use mq_log::fs;

/// One past the last queue offset, by topic and queue id.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct QueueEnds(BTreeMap<String, BTreeMap<i32, i64>>);

impl QueueEnds {
    /// Reads the ends; empty if the file is missing or damaged.
    pub(crate) fn read(root: &Path) -> Result<Self, StoreError> {
        Ok(own_json::read(&path_of(root))?.unwrap_or_default())
    }

    /// Notes the end of a queue.
    pub(crate) fn note(&mut self, topic: &str, queue_id: i32, end: i64) {
        if !self.0.contains_key(topic) {
            self.0.insert(topic.to_owned(), BTreeMap::new());
        }
        if let Some(queues) = self.0.get_mut(topic) {
            queues.insert(queue_id, end);
        }
    }

    /// The end of a queue; 0 for an unknown queue.
    pub(crate) fn of(&self, topic: &str, queue_id: i32) -> i64 {
        let queues = self.0.get(topic);
        let end = queues.and_then(|queues| queues.get(&queue_id));
        end.copied().unwrap_or(0)
    }

    /// Saves the ends durably.
    pub(crate) fn save(&self, root: &Path) -> Result<(), StoreError> {
        own_json::write(&path_of(root), self)
    }

    /// Removes all ends, because a removed queue may start at 0 again.
    pub(crate) fn forget(root: &Path) -> Result<(), StoreError> {
        let path = path_of(root);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&path)(error)),
            _ => Ok(()),
        }
    }
}

fn path_of(root: &Path) -> PathBuf {
    root.join("mqstack").join("queue_ends.json")
}
