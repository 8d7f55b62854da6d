//! What a store directory must look like, and the sizes its files have.

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use super::files::{create_directory, io_error, sync_directory};
use super::settings::Settings;
use super::types::StoreError;
use crate::log::fs::File;
use crate::log::{Directory, FileInfo, Files, Segments, WriteMode};

/// `mappedFileSizeCommitLog` of a new store, bytes.
const DEFAULT_FILE_BYTES: u64 = 1 << 30;
/// Shortest and longest commit-log file: the filler states the rest of a file as an int.
const FILE_BYTES: RangeInclusive<u64> = 4096..=i32::MAX as u64;
/// Present while a store is open, and after it was not closed.
pub(super) const ABORT: &str = "abort";

/// Makes the root directory, or without `create` demands that it is a store.
pub(super) fn prepare_root(root: &Path, create: bool) -> Result<(), StoreError> {
    if create {
        return create_directory(root);
    }
    let metadata = root.metadata().map_err(io_error(root))?;
    if metadata.is_dir() && root.join("commitlog").is_dir() {
        return Ok(());
    }
    Err(StoreError::UnknownLayout {
        root: root.display().to_string(),
        what: "there is no commitlog directory; create=True makes a new store here".into(),
    })
}

/// Opens the commit log's files with the size they have, else with the size that is set.
pub(super) fn open_log(
    root: &Path,
    settings: &Settings,
) -> Result<Segments<Directory>, StoreError> {
    let path = root.join("commitlog");
    let mode = if settings.sync_flush {
        WriteMode::Write
    } else {
        WriteMode::Map
    };
    let files = Directory::open(&path, &root.join("mqstack"), mode).map_err(io_error(&path))?;
    let found = list_without_stray(&files)
        .map_err(io_error(&path))?
        .first()
        .map(|file| file.length);
    let unknown = |what| StoreError::UnknownLayout {
        root: root.display().to_string(),
        what,
    };
    let file_bytes = match (settings.commit_log_file_bytes, found) {
        (Some(set), Some(found)) if set != found => {
            let what = format!(
                "its commit-log files have {found} bytes, mappedFileSizeCommitLog is {set}; \
                 leave the key out to go on with {found}"
            );
            return Err(unknown(what));
        }
        (set, found) => found.or(set).unwrap_or(DEFAULT_FILE_BYTES),
    };
    if !FILE_BYTES.contains(&file_bytes) {
        return Err(StoreError::Setting {
            key: "mappedFileSizeCommitLog",
            value: file_bytes.to_string(),
            what: "4096 to 2147483647 bytes",
        });
    }
    Segments::open(files, file_bytes).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => unknown(error.to_string()),
        _ => io_error(&path)(error),
    })
}

/// Lists the log's files, removing an empty last one: a file that never got its length.
fn list_without_stray(files: &Directory) -> io::Result<Vec<FileInfo>> {
    let mut found = files.list()?;
    if let Some(stray) = found.pop_if(|last| last.length == 0) {
        tracing::warn!(
            start = stray.start,
            "removing an empty last commit-log file"
        );
        files.remove(stray.start)?;
    }
    Ok(found)
}

/// Creates `abort`, durably: from now on the store may change.
pub(super) fn mark_open(root: &Path) -> Result<(), StoreError> {
    let path = root.join(ABORT);
    File::create(&path).map_err(io_error(&path))?;
    sync_directory(root)
}
