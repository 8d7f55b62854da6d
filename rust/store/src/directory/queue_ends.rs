//! Where the consume queues ended, in `{root}/mqstack/queue_ends.json`: written by a clean stop and
//! after each recovery. A queue that has fewer entries lost some to damage, and gives none of their
//! offsets again, even if no record of them is left in the log.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::io_error;
use crate::state::own_json;
use crate::types::StoreError;
use mq_log::fs;

/// Ends by topic and queue id: one past the last queue offset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct QueueEnds(BTreeMap<String, BTreeMap<i32, i64>>);

impl QueueEnds {
    /// What was recorded; nothing where the file is missing or damaged.
    pub(crate) fn read(root: &Path) -> Result<Self, StoreError> {
        Ok(own_json::read(&path_of(root))?.unwrap_or_default())
    }

    /// Notes where a queue ends.
    pub(crate) fn note(&mut self, topic: &str, queue_id: i32, end: i64) {
        if !self.0.contains_key(topic) {
            self.0.insert(topic.to_owned(), BTreeMap::new());
        }
        if let Some(queues) = self.0.get_mut(topic) {
            queues.insert(queue_id, end);
        }
    }

    /// Where a queue ended, 0 for one that was not there.
    pub(crate) fn of(&self, topic: &str, queue_id: i32) -> i64 {
        let queues = self.0.get(topic);
        let end = queues.and_then(|queues| queues.get(&queue_id));
        end.copied().unwrap_or(0)
    }

    /// Records the ends, durably.
    pub(crate) fn save(&self, root: &Path) -> Result<(), StoreError> {
        own_json::write(&path_of(root), self)
    }

    /// Forgets all ends, because a queue was removed that may begin anew.
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
