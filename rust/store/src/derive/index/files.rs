//! The index: files with hash slots in `index/`; only the newest one grows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::file::IndexName;
use super::file::{ALLOCATE_BYTES, IndexFile, Wanted};
use super::geometry::{Geometry, SetSizes, geometry, usual_bytes};
use crate::files::{create_directory, create_sparse, io_error, list, sync_directory, write_error};
use crate::state::checkpoint::Checkpoint;
use crate::types::StoreError;
use mq_format::index::{IndexHeader, IndexLayout, key_hash};
use mq_log::fs::File;
use mq_log::{Access, fs};

/// `maxHashSlotNum` and `maxIndexNum` of a new store.
const DEFAULT_LAYOUT: IndexLayout = IndexLayout {
    slots: 5_000_000,
    entries: 20_000_000,
};

/// All index files, oldest first.
#[derive(Debug)]
pub struct IndexFiles {
    root: PathBuf,
    layout: IndexLayout,
    files: RwLock<Vec<Arc<IndexFile>>>,
    /// Full files that are not synced yet.
    unsynced: Mutex<Vec<Arc<IndexFile>>>,
    /// Files were removed at load.
    is_cut: bool,
}

/// The result of a look-up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hits {
    /// Physical offsets, newest first.
    pub physical_offsets: Vec<i64>,
    /// End timestamp of the newest file, milliseconds since the epoch.
    pub last_update_timestamp_ms: i64,
    /// End physical offset of the newest file.
    pub last_update_physical_offset: i64,
}

impl IndexFiles {
    /// Opens all files. If `slots` or `entries` is None, the files determine it. With `Append`
    /// access, damaged files are removed, so that they are rebuilt from the log.
    pub fn load(
        root: &Path,
        slots: Option<u32>,
        entries: Option<u32>,
        access: Access,
    ) -> Result<Self, StoreError> {
        let mut found = index_paths(root)?;
        let set = SetSizes { slots, entries };
        let layout = match geometry(&found, set)? {
            Geometry::Known(layout) | Geometry::Set(layout) => Some(layout),
            Geometry::Contradicted(path, has) => return Err(contradicted(root, &path, has)),
            Geometry::Unwritten => None,
            Geometry::Unknown(path) if access == Access::Read => {
                return Err(unreadable(root, &path));
            }
            Geometry::Unknown(path) => {
                let path = path.display();
                tracing::warn!(%path, "no maxHashSlotNum and maxIndexNum match this index file");
                None
            }
        };
        let new = IndexLayout {
            slots: slots.unwrap_or(DEFAULT_LAYOUT.slots),
            entries: entries.unwrap_or(DEFAULT_LAYOUT.entries),
        };
        let (layout, is_known) = (layout.unwrap_or(new), layout.is_some());
        let is_cut = drop_unsound(&mut found, layout, is_known, access)?;
        let open = |(_, path): &(IndexName, PathBuf)| {
            let file = IndexFile::open(path, layout, access);
            file.map(Arc::new).map_err(io_error(path))
        };
        let files = found.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self {
            root: root.to_owned(),
            layout,
            files: RwLock::new(files),
            unsynced: Mutex::default(),
            is_cut,
        })
    }

    /// The store's directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Replaces a file by its rebuilt version; does nothing if the file has expired meanwhile.
    pub(super) fn replace(&self, old: &Arc<IndexFile>, new: Arc<IndexFile>) {
        let mut files = self.files.write();
        let place = files.iter_mut().find(|file| Arc::ptr_eq(file, old));
        if let Some(place) = place {
            *place = new;
        }
    }

    /// Whether no file was removed at load and the ends of all files match their headers.
    pub(crate) fn is_whole(&self) -> Result<bool, StoreError> {
        for file in self.files() {
            if !file.ends_match().map_err(io_error(file.path()))? {
                return Ok(false);
            }
        }
        Ok(!self.is_cut)
    }

    /// Whether files were removed at load, so that their keys must be indexed again from the log.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The files, oldest first.
    pub fn files(&self) -> Vec<Arc<IndexFile>> {
        self.files.read().clone()
    }

    /// Name and entries of the newest file.
    pub(crate) fn newest(&self) -> Option<(String, i32)> {
        let file = self.files.read().last().cloned()?;
        let name = IndexName::of_path(file.path())?;
        Some((name.to_string(), file.header().ok()?.index_count))
    }

    /// Removes the files from number `first` on, so that they are rebuilt.
    pub(crate) fn remove_from(&self, first: usize) -> Result<(), StoreError> {
        let mut files = self.files.write();
        for file in files.drain(first..) {
            tracing::info!(path = %file.path().display(), "removed an index file to rebuild it");
            fs::remove_file(file.path()).map_err(io_error(file.path()))?;
        }
        sync_directory(&self.root.join("index"))
    }

    /// Removes leading files whose messages are all before `log_start`, but never the last file.
    /// Returns their number. Running look-ups keep reading from removed files.
    pub(crate) fn delete_before(&self, log_start: i64) -> Result<usize, StoreError> {
        let mut removed = 0;
        loop {
            let files = self.files();
            let [first, _, ..] = files.as_slice() else {
                break;
            };
            let header = first.header().map_err(io_error(first.path()))?;
            if header.end_physical_offset >= log_start {
                break;
            }
            fs::remove_file(first.path()).map_err(io_error(first.path()))?;
            self.files.write().remove(0);
            removed += 1;
        }
        if removed > 0 {
            sync_directory(&self.root.join("index"))?;
        }
        Ok(removed)
    }

    /// Physical offsets of messages with this key. Messages with other keys of the same hash may be
    /// among them.
    pub fn look_up(
        &self,
        topic: &str,
        key: &str,
        max_count: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> Hits {
        let files = self.files();
        let mut hits = Hits::default();
        if let Some(header) = files.last().and_then(|file| file.header().ok()) {
            hits.last_update_timestamp_ms = header.end_timestamp_ms;
            hits.last_update_physical_offset = header.end_physical_offset;
        }
        let wanted = Wanted {
            key_hash: key_hash(topic, key),
            begin_ms,
            end_ms,
            max_count,
        };
        for file in files.iter().rev() {
            if let Err(error) = look_up_in(file, &wanted, &mut hits.physical_offsets) {
                tracing::warn!(path = %file.path().display(), %error, "cannot read an index file");
            }
            let begins_before = |file: &IndexFile| {
                file.header()
                    .is_ok_and(|found| found.begin_timestamp_ms < begin_ms)
            };
            if hits.physical_offsets.len() >= wanted.max_count || begins_before(file) {
                break;
            }
        }
        hits
    }

    /// Syncs full files and updates the checkpoint.
    pub(crate) fn flush(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let full = std::mem::take(&mut *self.unsynced.lock());
        for file in full {
            file.sync()?;
            let header = file.header().map_err(io_error(file.path()))?;
            checkpoint.set_index_timestamp(header.end_timestamp_ms);
        }
        Ok(())
    }

    /// Syncs all files, for a clean stop.
    pub fn flush_all(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        self.flush(checkpoint)?;
        self.files.read().last().map_or(Ok(()), |last| last.sync())
    }

    /// Notes a full file, which the next flush syncs.
    pub(crate) fn note_full(&self, full: &Arc<IndexFile>) {
        self.unsynced.lock().push(Arc::clone(full));
    }

    /// Creates a file whose header continues `previous`, as in RocketMQ. Allocates blocks for its
    /// first entries; on a full disk no file is created, and the caller may try again.
    pub(crate) fn create(
        &self,
        now_ms: i64,
        previous: IndexHeader,
    ) -> Result<Arc<IndexFile>, StoreError> {
        let directory = self.root.join("index");
        create_directory(&directory)?;
        // Open the directory before creating the file. If this open failed later, the file would
        // exist, but its name would never be synced.
        let above = File::open_directory(&directory).map_err(write_error(&directory))?;
        let mut files = self.files.write();
        let last = files
            .last()
            .and_then(|file| IndexName::of_path(file.path()));
        let path = directory.join(IndexName::at(now_ms).after(last).to_string());
        let header = IndexHeader {
            begin_timestamp_ms: previous.end_timestamp_ms,
            begin_physical_offset: previous.end_physical_offset,
            hash_slot_count: 0,
            index_count: 0,
            ..previous
        };
        let file_bytes = self.layout.file_bytes();
        let first_bytes = self.layout.entry_position(1) + ALLOCATE_BYTES;
        let file = create_sparse(&self.root, &path, file_bytes, |file| {
            file.allocate(0, first_bytes.min(file_bytes))?;
            file.write_all_at(&header.encode(), 0)
        })?;
        if let Err(error) = above.sync_all() {
            // A retry makes another file and syncs its name, so without this one nothing is lost.
            fs::remove_file(&path).map_err(io_error(&path))?;
            return Err(write_error(&directory)(error));
        }
        let file = Arc::new(IndexFile::of(path, file, self.layout));
        files.push(Arc::clone(&file));
        Ok(file)
    }
}

/// Leaves out files of another length, and files with entries if the layout is unknown. Their keys
/// are missing, and the index must be in log order, so with `Append` access later files are
/// removed, too. True if any file was removed.
fn drop_unsound(
    found: &mut Vec<(IndexName, PathBuf)>,
    layout: IndexLayout,
    is_known: bool,
    access: Access,
) -> Result<bool, StoreError> {
    let (mut sound, mut before) = (Vec::new(), None);
    for (_, path) in found.iter() {
        let header = header_of(path, layout)?;
        let is_unwritten = |header: &IndexHeader| (0..=1).contains(&header.index_count);
        sound.push(header.is_some_and(|header| match is_unwritten(&header) {
            true => access == Access::Read || continues(&header, before.as_ref()),
            false => is_known,
        }));
        before = header;
    }
    if access != Access::Append {
        let mut keep = sound.into_iter();
        found.retain(|_| keep.next().unwrap_or(false));
        return Ok(false);
    }
    let Some(first) = sound.iter().position(|is_sound| !is_sound) else {
        return Ok(false);
    };
    if let Some((_, path)) = found.get(first) {
        let (path, later) = (path.display(), found.len() - first - 1);
        tracing::warn!(%path, later, "rebuilding a damaged index file and all later ones");
    }
    for (_, path) in found.drain(first..) {
        fs::remove_file(&path).map_err(io_error(&path))?;
    }
    Ok(true)
}

/// The header of a file of this layout; None if the file has another length.
fn header_of(path: &Path, layout: IndexLayout) -> Result<Option<IndexHeader>, StoreError> {
    match IndexFile::open(path, layout, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(io_error(path)(error)),
        Ok(file) => file.header().map(Some).map_err(io_error(path)),
    }
}

/// Whether a header without entries begins where the previous file ended. The zero header of a
/// store's first file does not count: the file may have lost its header.
fn continues(header: &IndexHeader, before: Option<&IndexHeader>) -> bool {
    let begin = (header.begin_physical_offset, header.begin_timestamp_ms);
    let end = (header.end_physical_offset, header.end_timestamp_ms);
    let is_after =
        |before: &IndexHeader| (before.end_physical_offset, before.end_timestamp_ms) == begin;
    begin == end && begin != (0, 0) && before.is_none_or(is_after)
}

fn look_up_in(file: &IndexFile, wanted: &Wanted, hits: &mut Vec<i64>) -> std::io::Result<()> {
    let header = file.header()?;
    let overlaps =
        header.begin_timestamp_ms <= wanted.end_ms && header.end_timestamp_ms >= wanted.begin_ms;
    if overlaps {
        file.look_up(wanted, hits)?;
    }
    Ok(())
}

/// Index files by name. Files with other names are ignored.
pub fn index_paths(root: &Path) -> Result<Vec<(IndexName, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for (name, path) in list(&root.join("index"))? {
        if let Some(name) = IndexName::parse(&name).filter(|_| !path.is_dir()) {
            fs::own_metadata(&path).map_err(io_error(&path))?;
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The sizes of index files that replace those at `root`: the sizes of the old files, or the set
/// ones. RocketMQ's defaults apply if there are no files, or if the files have the default length.
pub fn sizes_of_new_files(root: &Path, set: SetSizes) -> Result<SetSizes, StoreError> {
    let paths = index_paths(root)?;
    match geometry(&paths, set)? {
        Geometry::Known(layout) | Geometry::Set(layout) => Ok(SetSizes {
            slots: Some(layout.slots),
            entries: Some(layout.entries),
        }),
        Geometry::Contradicted(path, has) => Err(contradicted(root, &path, has)),
        Geometry::Unwritten | Geometry::Unknown(_) => match usual_bytes(&paths)? {
            Some(bytes) if bytes != DEFAULT_LAYOUT.file_bytes() => Err(untold(root, bytes)),
            _ => Ok(set),
        },
    }
}

fn untold(root: &Path, bytes: u64) -> StoreError {
    StoreError::UnknownLayout {
        root: root.display().to_string(),
        what: format!(
            "the content of the {bytes}-byte index files does not show how many slots and entries \
             they have; set the broker's maxHashSlotNum and maxIndexNum: \
             --max-hash-slots and --max-index-num"
        ),
    }
}

/// The settings contradict the files.
fn contradicted(root: &Path, path: &Path, has: IndexLayout) -> StoreError {
    let (slots, entries) = (has.slots, has.entries);
    StoreError::UnknownLayout {
        root: root.display().to_string(),
        what: format!(
            "{} has {slots} slots and {entries} entries, but the settings differ; set \
             maxHashSlotNum={slots} and maxIndexNum={entries}, or leave both keys out",
            path.display(),
        ),
    }
}

/// A damaged index, which only the owner of the store may rebuild.
fn unreadable(root: &Path, path: &Path) -> StoreError {
    StoreError::UnknownLayout {
        root: root.display().to_string(),
        what: format!(
            "no maxHashSlotNum and maxIndexNum match the content of {}: it is damaged; to rebuild \
             the index: mqstore rebuild {} --in-place",
            path.display(),
            root.display(),
        ),
    }
}
