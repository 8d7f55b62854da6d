//! Helpers for derived files: errors with the file's path, synced directories, names of files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::types::StoreError;
use mq_log::fs::{self, File, FileType, OpenOptions};

/// Adds the file's path to an IO error.
pub fn io_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| mq_statefile::io_error(path)(source).into()
}

/// See [`mq_statefile::write_error`].
pub(crate) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| mq_statefile::write_error(path)(source).into()
}

/// See [`mq_statefile::open_error`].
pub(crate) fn open_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| mq_statefile::open_error(path)(source).into()
}

/// See [`mq_statefile::sync_directory`].
pub fn sync_directory(path: &Path) -> Result<(), StoreError> {
    Ok(mq_statefile::sync_directory(path)?)
}

/// See [`mq_statefile::create_directory`].
pub fn create_directory(path: &Path) -> Result<(), StoreError> {
    Ok(mq_statefile::create_directory(path)?)
}

/// RocketMQ's name of the file that starts at `offset`: 20 decimal digits.
pub fn offset_name(offset: u64) -> String {
    format!("{offset:020}")
}

/// A file whose name is an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetFile {
    /// Offset of the first byte, from the name.
    pub offset: u64,
    /// Length on disk, bytes.
    pub bytes: u64,
    /// Path of the file.
    pub path: PathBuf,
}

/// The files of a directory with 20-digit offsets as names, in order; empty if the directory is
/// missing. Other names are not RocketMQ's and are ignored. A link is an error and is not followed.
pub fn offset_files(directory: &Path) -> Result<Vec<OffsetFile>, StoreError> {
    let mut found = Vec::new();
    for (name, path, kind) in list_kinds(directory)? {
        let is_offset = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
        let Some(offset) = name.parse().ok().filter(|_| is_offset) else {
            continue;
        };
        if kind.is_dir() {
            continue;
        }
        let bytes = match fs::own_metadata(&path) {
            // It expired meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata.map_err(io_error(&path))?.len(),
        };
        found.push(OffsetFile {
            offset,
            bytes,
            path,
        });
    }
    found.sort_by_key(|file| file.offset);
    Ok(found)
}

/// Names and paths in a directory; empty if it is missing. Ignores names that are not UTF-8,
/// because RocketMQ uses none.
pub fn list(directory: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let found = list_kinds(directory)?.into_iter();
    Ok(found.map(|(name, path, _)| (name, path)).collect())
}

/// Names and paths of the subdirectories; a link to a directory counts.
pub(crate) fn list_directories(directory: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let found = list_kinds(directory)?.into_iter();
    let is_directory =
        |kind: FileType, path: &Path| kind.is_dir() || (kind.is_symlink() && path.is_dir());
    let directories = found.filter(|(_, path, kind)| is_directory(*kind, path));
    Ok(directories.map(|(name, path, _)| (name, path)).collect())
}

/// Like [`list`], with the type of each entry, which the listing contains.
fn list_kinds(directory: &Path) -> Result<Vec<(String, PathBuf, FileType)>, StoreError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(directory)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_error(directory))?;
        let kind = match entry.file_type() {
            // It was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            kind => kind.map_err(io_error(directory))?,
        };
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path(), kind));
        }
    }
    Ok(found)
}

/// Creates a sparse file of `bytes` zeros and lets `begin` write its beginning.
///
/// The file gets its length in `{root}/mqstack` and is then renamed, so that a crash never leaves a
/// file of a wrong length, which RocketMQ would refuse. A failure leaves no file behind, because
/// callers retry on a full disk.
pub(crate) fn create_sparse(
    root: &Path,
    path: &Path,
    bytes: u64,
    begin: impl FnOnce(&File) -> io::Result<()>,
) -> Result<File, StoreError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let workshop = root.join("mqstack");
    create_directory(&workshop)?;
    let unfinished = workshop.join(format!("new-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = fs::open_own(&unfinished, &mut options).map_err(write_error(&unfinished))?;
    let begun = file.set_len(bytes).and_then(|()| begin(&file));
    let named = begun.and_then(|()| fs::rename(&unfinished, path));
    named.map(|()| file).map_err(|error| {
        // If this fails, the next open removes the file.
        let _ = fs::remove_file(&unfinished);
        write_error(path)(error)
    })
}
