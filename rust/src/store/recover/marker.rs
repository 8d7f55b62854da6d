//! What a clean close leaves for the next open, so that it need not read the log: a store whose
//! marker fits what is on disk was not touched since.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::format::message::BLANK_BYTES;
use crate::log::fs;
use crate::store::consume_queue::ConsumeQueue;
use crate::store::consume_queues::ConsumeQueues;
use crate::store::files::{create_directory, io_error};
use crate::store::index::IndexFiles;
use crate::store::types::StoreError;
use crate::store::walk::LogRead;

/// Figures of a closed store, in `{root}/mqstack/closed.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::store) struct Marker {
    /// End of the log, bytes.
    pub log_end: u64,
    /// Store time of the last record, milliseconds since the epoch.
    pub last_store_timestamp_ms: i64,
    /// Consume queues, and the sum of their maximum offsets.
    pub queues: usize,
    pub queue_offsets: i64,
    /// Entries of the newest index file, by its name; None without index.
    pub index: Option<(String, i32)>,
}

impl Marker {
    /// The figures of a store that is about to be closed.
    pub(in crate::store) fn of(
        log_end: u64,
        last_store_timestamp_ms: i64,
        queues: &ConsumeQueues,
        index: Option<&IndexFiles>,
    ) -> Self {
        let all = queues.all();
        Self {
            log_end,
            last_store_timestamp_ms,
            queues: all.len(),
            queue_offsets: all.iter().map(|queue| queue.max_offset()).sum(),
            index: index.and_then(IndexFiles::newest),
        }
    }

    /// Writes the marker. It is not synced: without it the next open takes longer, and a store
    /// that was opened since is not believed to be clean.
    pub(in crate::store) fn save(&self, root: &Path) -> Result<(), StoreError> {
        let path = path_of(root);
        create_directory(&root.join("mqstack"))?;
        let text = serde_json::to_vec(self).map_err(io::Error::other);
        text.and_then(|text| fs::write(&path, text))
            .map_err(io_error(&path))
    }

    /// Takes the marker away; it describes nothing that is open. None where it is missing or torn.
    pub(in crate::store) fn take(root: &Path) -> Result<Option<Self>, StoreError> {
        let path = path_of(root);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(&path)(error)),
        };
        fs::remove_file(&path).map_err(io_error(&path))?;
        Ok(serde_json::from_slice(&text).ok())
    }

    /// Whether queues, index and the end of the log are as the marker says.
    pub(super) fn fits(
        &self,
        log: &impl LogRead,
        queues: &ConsumeQueues,
        index: Option<&IndexFiles>,
    ) -> io::Result<bool> {
        let now = Self::of(self.log_end, self.last_store_timestamp_ms, queues, index);
        if now != *self || self.log_end < log.min_offset() || self.log_end > log.max_offset() {
            return Ok(false);
        }
        let beyond = |queue: &ConsumeQueue| queue.end_physical() > self.log_end.cast_signed();
        if queues.all().iter().any(|queue| beyond(queue)) {
            return Ok(false);
        }
        // RocketMQ may have appended since; where the log ends nothing is written.
        let mut next = [0; BLANK_BYTES];
        let read = log.read_at(self.log_end, &mut next)?;
        Ok(next[..read].iter().all(|byte| *byte == 0))
    }

    /// Whether queues that there were are gone.
    pub(super) fn misses_queues(&self, queues: &ConsumeQueues) -> bool {
        queues.all().len() < self.queues
    }
}

fn path_of(root: &Path) -> PathBuf {
    root.join("mqstack").join("closed.json")
}
