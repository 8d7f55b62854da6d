//! Small things the derived files share: errors that name the file, synced directories, names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::types::StoreError;
use mq_log::fs::is_full;
use mq_log::fs::{self, File, FileType, OpenOptions};

/// Turns an IO error into one that names the file.
pub fn io_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io {
        path: path.display().to_string(),
        source,
    }
}

/// As [`io_error`], for a write that may be tried again if all it lacks is room or a file
/// descriptor: who calls it again writes the same bytes to the same place.
pub(crate) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| match is_full(&source) || is_out_of_descriptors(&source) {
        true => StoreError::Full {
            path: path.display().to_string(),
            source,
        },
        false => io_error(path)(source),
    }
}

/// Whether the process (EMFILE) or the system (ENFILE) has no file descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// As [`io_error`], for opening what is to be synced: without a descriptor nothing was synced yet,
/// so nothing failed for good.
pub(crate) fn open_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| match is_out_of_descriptors(&source) {
        true => write_error(path)(source),
        false => io_error(path)(source),
    }
}

/// Makes creations, renames and removals in a directory durable.
pub fn sync_directory(path: &Path) -> Result<(), StoreError> {
    let directory = File::open_directory(path).map_err(open_error(path))?;
    directory.sync_all().map_err(io_error(path))
}

/// Creates a directory and its parents, durably.
pub fn create_directory(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    if parent.as_os_str().is_empty() {
        // A relative name of one part lies in the working directory.
        fs::create_dir(path).map_err(io_error(path))?;
        return sync_directory(Path::new("."));
    }
    create_directory(parent)?;
    // Opened first: a retry after a failed open would find the new directory and never sync it.
    let above = File::open_directory(parent).map_err(write_error(parent))?;
    match fs::create_dir(path) {
        // Somebody else was faster.
        Err(_) if path.is_dir() => Ok(()),
        made => made.map_err(write_error(path)),
    }?;
    above.sync_all().map_err(io_error(parent))
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
    /// Where it is.
    pub path: PathBuf,
}

/// The files of a directory whose names are 20-digit offsets, in order; a missing directory has
/// none. Other names are not RocketMQ's and are left alone; a link is an error, not followed.
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
            // It expired in between.
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

/// Names and paths in a directory; a missing directory has none, names that are not UTF-8 are
/// not RocketMQ's.
pub fn list(directory: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let found = list_kinds(directory)?.into_iter();
    Ok(found.map(|(name, path, _)| (name, path)).collect())
}

/// Names and paths of the directories in a directory; a link to one counts.
pub(crate) fn list_directories(directory: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let found = list_kinds(directory)?.into_iter();
    let is_directory =
        |kind: FileType, path: &Path| kind.is_dir() || (kind.is_symlink() && path.is_dir());
    let directories = found.filter(|(_, path, kind)| is_directory(*kind, path));
    Ok(directories.map(|(name, path, _)| (name, path)).collect())
}

/// As [`list`], with what each entry is: the listing tells, so it costs no call for each.
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
            // It went in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            kind => kind.map_err(io_error(directory))?,
        };
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path(), kind));
        }
    }
    Ok(found)
}

/// Creates a file of `bytes` zeros that take no blocks, and has `begin` write its beginning.
///
/// It gets its length under `{root}/mqstack` and is moved into place then: a crash in between
/// must not leave a file of the wrong length where RocketMQ would refuse it. Nor does a failure
/// leave anything: on a full disk it is tried again and again.
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
        // The next open clears the directory, should this fail.
        let _ = fs::remove_file(&unfinished);
        write_error(path)(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_without_a_descriptor_may_be_tried_again_and_a_failed_one_may_not() {
        let error = |errno| write_error(Path::new("queue"))(io::Error::from_raw_os_error(errno));
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOSPC] {
            assert!(matches!(error(errno), StoreError::Full { .. }), "{errno}");
        }
        assert!(matches!(error(libc::EIO), StoreError::Io { .. }));
        let open = |errno| open_error(Path::new("queue"))(io::Error::from_raw_os_error(errno));
        assert!(matches!(open(libc::EMFILE), StoreError::Full { .. }));
        assert!(matches!(open(libc::ENOSPC), StoreError::Io { .. }));
    }
}
