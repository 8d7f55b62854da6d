//! Directories whose changes survive a power loss.

use std::path::Path;

use crate::error::{FileError, io_error, open_error, write_error};
use mq_log::fs::{self, File};

/// Makes creations, renames and removals in a directory durable.
pub fn sync_directory(path: &Path) -> Result<(), FileError> {
    let directory = File::open_directory(path).map_err(open_error(path))?;
    directory.sync_all().map_err(io_error(path))
}

/// Creates a directory and its parents, durably.
pub fn create_directory(path: &Path) -> Result<(), FileError> {
    if path.is_dir() {
        return Ok(());
    }
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    if parent.as_os_str().is_empty() {
        // A relative path with one part is in the working directory.
        fs::create_dir(path).map_err(io_error(path))?;
        return sync_directory(Path::new("."));
    }
    create_directory(parent)?;
    // Open the parent first. If this open failed later, a retry would find the new directory and
    // never sync its name.
    let above = File::open_directory(parent).map_err(write_error(parent))?;
    match fs::create_dir(path) {
        // Another thread created it.
        Err(_) if path.is_dir() => Ok(()),
        made => made.map_err(write_error(path)),
    }?;
    above.sync_all().map_err(|error| {
        // A retry creates the directory again and syncs its name. If the removal fails, the retry
        // would find the directory, and must not run.
        match fs::remove_dir(path) {
            Ok(()) => write_error(parent)(error),
            Err(_) => io_error(parent)(error),
        }
    })
}
