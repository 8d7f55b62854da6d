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

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use mq_log::{IoHook, Operation, Target};

    /// Fails the syncs of one directory, and its removals too if they are given.
    #[derive(Debug)]
    struct Failing {
        parent: PathBuf,
        sync: i32,
        removal: Option<i32>,
    }

    impl IoHook for Failing {
        fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
            let errno = match operation {
                Operation::SyncDirectory if target.path == self.parent => Some(self.sync),
                Operation::Remove => self.removal,
                _ => None,
            };
            errno.map_or(Ok(0), |errno| Err(io::Error::from_raw_os_error(errno)))
        }

        fn after(&self, _: Target<'_>, _: &Operation<'_>, _: u64) {}
    }

    /// The result of the creation of `a/b` in `root` if the sync of `a` fails.
    fn created(root: &Path, sync: i32, removal: Option<i32>) -> Result<(), FileError> {
        let parent = root.join("a");
        create_directory(&parent)?;
        let failing = Failing {
            parent: parent.clone(),
            sync,
            removal,
        };
        let _watch = mq_log::watch(root, Arc::new(failing));
        create_directory(&parent.join("b"))
    }

    #[test]
    fn a_name_that_was_not_synced_for_room_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        for _ in 0..2 {
            let error = created(root.path(), libc::ENOSPC, None).unwrap_err();
            assert!(matches!(error, FileError::Full { .. }), "{error}");
            assert!(!path.exists(), "a retry would not sync its name");
        }
        create_directory(&path).unwrap();
        assert!(path.is_dir());
    }

    #[test]
    fn a_name_that_stays_without_its_sync_is_not_tried_again() {
        for (sync, removal) in [(libc::EIO, None), (libc::ENOSPC, Some(libc::EIO))] {
            let root = tempfile::tempdir().unwrap();
            let error = created(root.path(), sync, removal).unwrap_err();
            assert!(matches!(error, FileError::Io { .. }), "{error}");
            assert!(error.to_string().contains("/a: "), "{error}");
        }
    }
}
