//! All consume queues of a store, by topic and queue id.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::ext::Extension;
use super::kept::{Kept, KeptBytes};
use super::open_files::OpenFiles;
use super::progress::QueueProgress;
use super::queue::ConsumeQueue;
use super::queue_files::{QueueFiles, SharedQueueFiles};
use crate::directory::deleted::Deletions;
use crate::directory::queue_ends::{EndOfQueue, QueueEnds};
use crate::files::{io_error, list_directories, offset_files};
use crate::settings::{MultiDispatch, QueueExt, Settings};
use crate::types::StoreError;
use crate::write::queue_offsets::{LightQueues, QueueOffsets};
use mq_base::clock::SystemClock;
use mq_format::consume_queue::ENTRY_BYTES;
use mq_log::Access;
use mq_log::fs::File;

/// Directories of the queues and of their extensions in a store.
const DIRECTORY: &str = "consumequeue";
const EXT_DIRECTORY: &str = "consumequeue_ext";
/// `mappedFileSizeConsumeQueue` of a new store, bytes.
const DEFAULT_FILE_BYTES: u64 = 6_000_000;
/// `mappedFileSizeConsumeQueueExt` of a new store, bytes.
const DEFAULT_EXT_FILE_BYTES: u64 = 50_331_648;
/// Most consume-queue files open at once.
const OPEN_FILES_MAX: usize = 16_384;
/// Most queues that are checked for the length of their files.
const LOOKED_AT_MAX: usize = 256;
/// Longest name of a directory, bytes.
const NAME_BYTES_MAX: usize = 255;

type ByTopic = HashMap<Arc<str>, BTreeMap<i32, Arc<ConsumeQueue>>>;

/// The consume queues, each under `consumequeue/{topic}/{queueId}`.
#[derive(Debug)]
pub struct ConsumeQueues {
    pub(crate) shared: Arc<SharedQueueFiles>,
    /// The store's directory. Opened before any write, because a file system reports errors since
    /// then.
    pub(crate) root: File,
    file_bytes: u64,
    ext: Ext,
    queues: RwLock<ByTopic>,
    light: Arc<LightQueues>,
    numbers: AtomicU64,
    removals: AtomicU64,
    pub(crate) deletions: Deletions,
    /// Queues that must be written or synced.
    pub(crate) noted: Mutex<Vec<Arc<ConsumeQueue>>>,
    /// Held during a flush. Holds the failure of an earlier flush: its pages may be lost, and a
    /// later flush must not report them as durable.
    pub(crate) flushing: Mutex<Option<String>>,
    /// Log offset at which dispatch must start because queues lost entries at load.
    lost_from: AtomicI64,
    lost_ends: Vec<LostEnd>,
}

/// The former end of a queue with damaged files. Needed once its records have expired with the log.
#[derive(Debug, Clone)]
pub(crate) struct LostEnd {
    pub topic: String,
    pub queue_id: i32,
    /// One past the last entry.
    pub end: i64,
    /// End of the last record in the log.
    pub end_physical: i64,
}

/// The extensions of a store.
#[derive(Debug, Clone, Copy)]
struct Ext {
    /// Whether new messages get units in an extension.
    is_written: bool,
    /// Whether extensions exist.
    is_there: bool,
    file_bytes: u64,
}

impl ConsumeQueues {
    /// Loads the queues of a store for writing. A length that is not set is taken from the files.
    /// `sequential` scans the last files entry by entry, as needed after an unclean stop. Damaged
    /// files are removed, so that dispatch rebuilds them.
    pub fn open(root: &Path, settings: &Settings, sequential: bool) -> Result<Self, StoreError> {
        let directories = queue_directories(&root.join(DIRECTORY))?;
        let unit = ENTRY_BYTES as u64;
        // RocketMQ rounds the setting up to whole entries.
        let wanted = settings.consume_queue_file_bytes;
        let wanted = wanted.map(|bytes| bytes.max(1).div_ceil(unit) * unit);
        let found = FoundBytes::of(&directories, unit)?;
        found.check(root, wanted, "mappedFileSizeConsumeQueue")?;
        let file_bytes = wanted.or(found.usual).unwrap_or(DEFAULT_FILE_BYTES);
        let ext = Ext::of(root, settings.queue_ext)?;
        let mut queues = Self::empty(root, file_bytes, ext, Access::Append)?;
        queues.light = Arc::new(LightQueues::new(settings.multi_dispatch));
        let clock = SystemClock::shared();
        let mut progress = QueueProgress::new(&clock, "loading consume queues", directories.len());
        for (topic, queue_id, _) in directories {
            progress.step();
            queues.load(&topic, queue_id, sequential)?;
        }
        Ok(queues)
    }

    /// Sets the log offset up to which the entries in the files are durable.
    pub(crate) fn set_durable_to(&self, offset: u64) {
        let offset = offset.cast_signed();
        self.shared.durable_to.store(offset, Ordering::Relaxed);
    }

    /// Zeroes, durably, entries that the start cut off and that were not derived again.
    pub(crate) fn clear_stale(&self) -> Result<(), StoreError> {
        for queue in self.all() {
            if queue.clear_stale()? {
                self.flush_later(&queue);
            }
        }
        self.flush()
    }

    fn load(&mut self, topic: &str, queue_id: i32, sequential: bool) -> Result<(), StoreError> {
        let queue = self.new_queue(topic, queue_id);
        let loaded = queue.load(sequential)?;
        if !loaded.is_whole {
            self.lost_entries(&queue);
        }
        if let Some((end, end_physical)) = loaded.before {
            self.lost_ends.push(LostEnd {
                topic: topic.to_owned(),
                queue_id,
                end,
                end_physical,
            });
        }
        self.insert(queue);
        Ok(())
    }

    /// Notes that entries at the end of a queue are lost and must be derived again.
    pub(crate) fn lost_entries(&self, queue: &ConsumeQueue) {
        let end = queue.end_physical();
        self.lost_from.fetch_min(end, Ordering::Relaxed);
    }

    /// The former ends of queues with damaged files.
    pub(crate) fn lost_ends(&self) -> &[LostEnd] {
        &self.lost_ends
    }

    /// Loads the queues that can be loaded, for reading. Returns the directories and errors of the
    /// others.
    pub fn load_sound(
        root: &Path,
        file_bytes: Option<u64>,
    ) -> Result<(Self, Vec<(PathBuf, StoreError)>), StoreError> {
        let ext = Ext::of(root, QueueExt::default())?;
        let file_bytes = file_bytes.unwrap_or(DEFAULT_FILE_BYTES);
        let queues = Self::empty(root, file_bytes, ext, Access::Read)?;
        let mut unsound = Vec::new();
        for (topic, queue_id, path) in queue_directories(&root.join(DIRECTORY))? {
            let queue = queues.new_queue(&topic, queue_id);
            match queue.load(false) {
                Ok(_) => drop(queues.insert(queue)),
                Err(error) => unsound.push((path, error)),
            }
        }
        Ok((queues, unsound))
    }

    /// Loads one queue for reading; None if it is not on disk.
    pub fn load_one(
        root: &Path,
        file_bytes: Option<u64>,
        topic: &str,
        queue_id: i32,
    ) -> Result<Option<Arc<ConsumeQueue>>, StoreError> {
        let Some(file_bytes) = file_bytes.filter(|_| is_directory_name(topic)) else {
            return Ok(None);
        };
        let ext = Ext::of(root, QueueExt::default())?;
        let queues = Self::empty(root, file_bytes, ext, Access::Read)?;
        let queue = queues.new_queue(topic, queue_id);
        if !queue.files.directory.is_dir() {
            return Ok(None);
        }
        queue.load(false)?;
        Ok(Some(Arc::new(queue)))
    }

    fn empty(root: &Path, file_bytes: u64, ext: Ext, access: Access) -> Result<Self, StoreError> {
        let shared = SharedQueueFiles {
            root: root.to_owned(),
            access,
            open: OpenFiles::new(open_files_max()),
            pending: AtomicI64::new(0),
            kept: KeptBytes::default(),
            durable_to: AtomicI64::new(i64::MAX),
        };
        Ok(Self {
            shared: Arc::new(shared),
            root: File::open_directory(root).map_err(io_error(root))?,
            file_bytes,
            ext,
            queues: RwLock::default(),
            light: Arc::new(LightQueues::new(MultiDispatch::default())),
            numbers: AtomicU64::new(0),
            removals: AtomicU64::new(0),
            deletions: Deletions::read(root)?,
            noted: Mutex::default(),
            flushing: Mutex::default(),
            lost_from: AtomicI64::new(i64::MAX),
            lost_ends: Vec::new(),
        })
    }

    fn new_queue(&self, topic: &str, queue_id: i32) -> ConsumeQueue {
        let files = self.files(DIRECTORY, topic, queue_id, self.file_bytes);
        let ext = self.files(EXT_DIRECTORY, topic, queue_id, self.ext.file_bytes);
        let has_ext = self.ext.is_written || (self.ext.is_there && ext.directory.is_dir());
        let ext = has_ext.then(|| Extension::new(ext, self.ext.is_written));
        let known = self.queues.read();
        let known = known.get_key_value(topic).map(|(topic, _)| topic);
        let topic = known.map_or_else(|| topic.into(), Arc::clone);
        let queue = ConsumeQueue::empty(topic, queue_id, files, ext);
        self.obey_deletion(&queue);
        queue
    }

    fn files(&self, of: &str, topic: &str, queue_id: i32, file_bytes: u64) -> QueueFiles {
        let directory = self.shared.root.join(of).join(topic);
        QueueFiles {
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            directory: directory.join(queue_id.to_string()),
            file_bytes,
            shared: Arc::clone(&self.shared),
            kept: Kept::default(),
        }
    }

    /// Log offset at which dispatch must start because entries were lost at load; None if none
    /// were.
    pub(crate) fn lost_from(&self) -> Option<u64> {
        u64::try_from(self.lost_from.load(Ordering::Relaxed))
            .ok()
            .filter(|from| *from < i64::MAX as u64)
    }

    fn insert(&self, queue: ConsumeQueue) -> Arc<ConsumeQueue> {
        let queue = Arc::new(queue);
        let mut queues = self.queues.write();
        let of_topic = queues.entry(Arc::clone(&queue.topic)).or_default();
        let before = of_topic.insert(queue.queue_id(), Arc::clone(&queue));
        if before.is_none() {
            self.light.added(queue.topic());
        }
        queue
    }

    /// The count of light queues.
    pub(crate) fn light(&self) -> Arc<LightQueues> {
        Arc::clone(&self.light)
    }

    /// The queue, if it has ever had a message.
    pub fn get(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        let queues = self.queues.read();
        queues.get(topic)?.get(&queue_id).map(Arc::clone)
    }

    /// All queues, in no order.
    pub fn all(&self) -> Vec<Arc<ConsumeQueue>> {
        let queues = self.queues.read();
        queues
            .values()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// The next offset of every queue, for the puts after the last record that is in its queue.
    pub(crate) fn next_offsets(&self) -> QueueOffsets {
        let mut next = QueueOffsets::default();
        for queue in self.all() {
            *next.entry(queue.topic(), queue.queue_id()) = queue.max_offset();
        }
        next
    }

    /// The ends of all queues with entries. The log ends at `log_end`, or later if messages arrive
    /// meanwhile.
    pub(crate) fn ends(&self, log_end: u64) -> QueueEnds {
        let mut ends = QueueEnds::at(log_end);
        let mut all = self.all();
        all.sort_unstable_by(|a, b| (a.topic(), a.queue_id).cmp(&(b.topic(), b.queue_id)));
        for queue in all.iter().filter(|queue| queue.max_offset() > 0) {
            let end_physical = queue.end_physical();
            ends.log_end = ends.log_end.max(end_physical.cast_unsigned());
            ends.push(EndOfQueue {
                topic: queue.topic(),
                queue_id: queue.queue_id,
                end: queue.max_offset(),
                end_physical,
            });
        }
        ends
    }

    /// Whether a queue can have this name.
    pub(crate) fn is_possible(topic: &str, queue_id: i32) -> bool {
        is_directory_name(topic) && queue_id >= 0
    }

    /// The queue of a record, created if needed; None if no queue can have this name. Only the
    /// dispatcher calls this.
    pub fn for_record(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        if let Some(queue) = self.get(topic, queue_id) {
            return Some(queue);
        }
        // Record headers have no checksum, so a damaged topic could be a path out of the directory.
        Self::is_possible(topic, queue_id).then(|| self.insert(self.new_queue(topic, queue_id)))
    }

    /// Whether new messages get units in an extension.
    #[inline]
    pub(crate) fn writes_ext(&self) -> bool {
        self.ext.is_written
    }

    /// Number of queues removed since the store was opened.
    #[inline]
    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Removes a queue from memory and disk, so that it is rebuilt.
    pub(crate) fn remove(&self, queue: &ConsumeQueue) -> Result<(), StoreError> {
        let mut queues = self.queues.write();
        let of_topic = queues.get_mut(queue.topic());
        if of_topic.is_some_and(|ids| ids.remove(&queue.queue_id()).is_some()) {
            self.light.removed(queue.topic());
        }
        self.removals.fetch_add(1, Ordering::AcqRel);
        queue.destroy()
    }
}

/// Most queue files open at once; sockets and the log need descriptors, too.
fn open_files_max() -> usize {
    let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let allowed = usize::try_from(allowed.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    OPEN_FILES_MAX.min(allowed / 4).max(1)
}

impl Ext {
    /// Takes the length of the existing files if none is set.
    fn of(root: &Path, settings: QueueExt) -> Result<Self, StoreError> {
        let directories = queue_directories(&root.join(EXT_DIRECTORY))?;
        let found = FoundBytes::of(&directories, 1)?;
        found.check(root, settings.file_bytes, "mappedFileSizeConsumeQueueExt")?;
        let file_bytes = settings.file_bytes.or(found.usual);
        Ok(Self {
            is_written: settings.enabled,
            is_there: !directories.is_empty(),
            file_bytes: file_bytes.unwrap_or(DEFAULT_EXT_FILE_BYTES),
        })
    }
}

/// Whether a topic can be the name of a directory in `consumequeue`.
fn is_directory_name(topic: &str) -> bool {
    let is_reserved = topic.is_empty() || topic == "." || topic == "..";
    !is_reserved && topic.len() <= NAME_BYTES_MAX && !topic.contains(['/', '\0'])
}

/// Topic, queue id and directory of all queues on disk; other directories are not RocketMQ's.
pub fn queue_directories(directory: &Path) -> Result<Vec<(String, i32, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for (topic, path) in list_directories(directory)? {
        for (name, path) in list_directories(&path)? {
            if let Ok(queue_id) = name.parse() {
                found.push((topic.clone(), queue_id, path));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The length that most files have; it must be a multiple of `unit`.
pub fn adopted_file_bytes(
    directories: &[(String, i32, PathBuf)],
    unit: u64,
) -> Result<Option<u64>, StoreError> {
    Ok(FoundBytes::of(directories, unit)?.usual)
}

/// The lengths of the existing files.
#[derive(Debug, Default)]
struct FoundBytes {
    /// Number of files with a length, and the path of one of them.
    counts: BTreeMap<u64, (usize, PathBuf)>,
    /// The most frequent length; of two equally frequent ones, the larger.
    usual: Option<u64>,
}

impl FoundBytes {
    /// Samples some queues: one truncated file must not decide the length, and a store may have
    /// very many queues.
    fn of(directories: &[(String, i32, PathBuf)], unit: u64) -> Result<Self, StoreError> {
        let mut found = Self::default();
        let step = directories.len().div_ceil(LOOKED_AT_MAX).max(1);
        for (_, _, path) in directories.iter().step_by(step) {
            for file in offset_files(path)? {
                if file.bytes > 0 && file.bytes.is_multiple_of(unit) {
                    let count = found.counts.entry(file.bytes);
                    count.or_insert((0, file.path)).0 += 1;
                }
            }
        }
        let most = found.counts.iter().max_by_key(|(_, (count, _))| *count);
        found.usual = most.map(|(bytes, _)| *bytes);
        Ok(found)
    }

    /// Refuses a setting that no file matches, if several files have the same other length.
    fn check(&self, root: &Path, wanted: Option<u64>, key: &str) -> Result<(), StoreError> {
        let (Some(wanted), Some(usual)) = (wanted, self.usual) else {
            return Ok(());
        };
        let Some((count, path)) = self.counts.get(&usual) else {
            return Ok(());
        };
        if usual == wanted || *count < 2 || self.counts.contains_key(&wanted) {
            return Ok(());
        }
        Err(StoreError::UnknownLayout {
            root: root.display().to_string(),
            what: format!(
                "{} has {usual} bytes, but {key} is {wanted}; set it to {usual} or leave it out",
                path.display(),
            ),
        })
    }
}
