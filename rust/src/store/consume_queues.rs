//! All consume queues of a store, by topic and queue id.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::consume_queue::{ConsumeQueue, QueueFiles};
use super::files::{list, offset_files};
use super::open_files::OpenFiles;
use super::types::StoreError;
use crate::format::consume_queue::ENTRY_BYTES;
use crate::log::Access;

/// `mappedFileSizeConsumeQueue` of a new store, bytes.
const DEFAULT_FILE_BYTES: u64 = 6_000_000;
/// Most consume-queue files open at once.
const OPEN_FILES_MAX: usize = 4_096;
/// Longest name of a directory, bytes.
const NAME_BYTES_MAX: usize = 255;

type ByTopic = HashMap<String, BTreeMap<i32, Arc<ConsumeQueue>>>;

/// The consume queues, each under `consumequeue/{topic}/{queueId}`.
#[derive(Debug)]
pub(crate) struct ConsumeQueues {
    directory: PathBuf,
    files: Arc<QueueFiles>,
    queues: RwLock<ByTopic>,
    numbers: AtomicU64,
    /// Queues with units written since the last flush, by number.
    dirty: Mutex<HashMap<u64, Arc<ConsumeQueue>>>,
}

impl ConsumeQueues {
    /// Loads the queues on disk. `file_bytes` None adopts the length of the files found.
    /// `sequential` walks the last files unit by unit, as after an unclean stop.
    pub(crate) fn load(
        root: &Path,
        file_bytes: Option<u64>,
        access: Access,
        sequential: bool,
    ) -> Result<Self, StoreError> {
        let directories = queue_directories(&root.join("consumequeue"))?;
        let unit = ENTRY_BYTES as u64;
        // RocketMQ rounds the setting up to whole units.
        let wanted = file_bytes.map(|bytes| bytes.max(1).div_ceil(unit) * unit);
        let found = adopted_file_bytes(&directories)?;
        let queues = Self::empty(root, wanted.or(found).unwrap_or(DEFAULT_FILE_BYTES), access);
        for (topic, queue_id, _) in directories {
            let queue = queues.new_queue(&topic, queue_id);
            queue.load(sequential)?;
            queues.insert(queue);
        }
        Ok(queues)
    }

    /// Loads one queue for reading; None if it is not on disk.
    pub(super) fn load_one(
        root: &Path,
        file_bytes: Option<u64>,
        topic: &str,
        queue_id: i32,
    ) -> Result<Option<Arc<ConsumeQueue>>, StoreError> {
        let Some(file_bytes) = file_bytes.filter(|_| is_directory_name(topic)) else {
            return Ok(None);
        };
        let queue = Self::empty(root, file_bytes, Access::Read).new_queue(topic, queue_id);
        if !queue.directory.is_dir() {
            return Ok(None);
        }
        queue.load(false)?;
        Ok(Some(Arc::new(queue)))
    }

    fn empty(root: &Path, file_bytes: u64, access: Access) -> Self {
        let files = QueueFiles {
            root: root.to_owned(),
            file_bytes,
            access,
            open: OpenFiles::new(OPEN_FILES_MAX),
        };
        Self {
            directory: root.join("consumequeue"),
            files: Arc::new(files),
            queues: RwLock::default(),
            numbers: AtomicU64::new(0),
            dirty: Mutex::default(),
        }
    }

    fn new_queue(&self, topic: &str, queue_id: i32) -> ConsumeQueue {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let directory = self.directory.join(topic).join(queue_id.to_string());
        ConsumeQueue::empty(number, topic, queue_id, directory, Arc::clone(&self.files))
    }

    fn insert(&self, queue: ConsumeQueue) -> Arc<ConsumeQueue> {
        let queue = Arc::new(queue);
        let mut queues = self.queues.write();
        let of_topic = queues.entry(queue.topic().to_owned()).or_default();
        of_topic.insert(queue.queue_id(), Arc::clone(&queue));
        queue
    }

    /// The queue, if it has ever had a message.
    pub(crate) fn get(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        let queues = self.queues.read();
        queues.get(topic)?.get(&queue_id).map(Arc::clone)
    }

    /// Every queue, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<ConsumeQueue>> {
        let queues = self.queues.read();
        queues
            .values()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// The queue of a record, made if needed; None where no queue can have that name. Called by
    /// the dispatcher alone.
    pub(crate) fn for_record(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        if let Some(queue) = self.get(topic, queue_id) {
            return Some(queue);
        }
        // Record headers have no checksum: a damaged topic must not leave the directory.
        let is_possible = is_directory_name(topic) && queue_id >= 0;
        is_possible.then(|| self.insert(self.new_queue(topic, queue_id)))
    }

    /// Writes what was appended to these queues and lets readers see it.
    pub(crate) fn write_pending(
        &self,
        queues: impl Iterator<Item = Arc<ConsumeQueue>>,
    ) -> Result<(), StoreError> {
        let mut dirty = self.dirty.lock();
        for queue in queues {
            queue.write_pending()?;
            dirty.insert(queue.number(), queue);
        }
        Ok(())
    }

    /// One pass that makes everything written so far durable.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let dirty = std::mem::take(&mut *self.dirty.lock());
        dirty.into_values().try_for_each(|queue| queue.flush())
    }

    /// Removes a queue from memory and disk, so that it is built anew.
    pub(crate) fn remove(&self, queue: &ConsumeQueue) -> Result<(), StoreError> {
        let mut queues = self.queues.write();
        if let Some(of_topic) = queues.get_mut(queue.topic()) {
            of_topic.remove(&queue.queue_id());
        }
        self.dirty.lock().remove(&queue.number());
        queue.destroy()
    }
}

/// Whether a topic can be the name of a directory below `consumequeue`.
fn is_directory_name(topic: &str) -> bool {
    let is_reserved = topic.is_empty() || topic == "." || topic == "..";
    !is_reserved && topic.len() <= NAME_BYTES_MAX && !topic.contains(['/', '\0'])
}

/// Topic, queue id and directory of every queue on disk; other directories are not RocketMQ's.
pub(super) fn queue_directories(
    directory: &Path,
) -> Result<Vec<(String, i32, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for (topic, path) in list(directory)? {
        if !path.is_dir() {
            continue;
        }
        for (name, path) in list(&path)? {
            if let Some(queue_id) = name.parse().ok().filter(|_| path.is_dir()) {
                found.push((topic.clone(), queue_id, path));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The length of the first file found; queues check the others against it.
pub(super) fn adopted_file_bytes(
    directories: &[(String, i32, PathBuf)],
) -> Result<Option<u64>, StoreError> {
    for (_, _, path) in directories {
        let first = offset_files(path)?.into_iter().find(|file| file.bytes > 0);
        if let Some(file) = first {
            return Ok(Some(file.bytes));
        }
    }
    Ok(None)
}
