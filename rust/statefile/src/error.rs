//! Errors of file operations, with the file's path.

use std::io;
use std::path::Path;

use thiserror::Error;

use mq_log::fs::is_full;

/// The reason why a file cannot be read or replaced. The text names the file and the remedy.
#[derive(Debug, Error)]
pub enum FileError {
    /// A file operation failed.
    #[error("{path}: {source}")]
    Io {
        /// File or directory.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The disk is full, a quota is used up, or no file descriptor is free. Nothing is lost, and
    /// the same write can be tried again. Never the result of a sync, except of a new name that was
    /// removed again.
    #[error("{path}: {source}")]
    Full {
        /// File or directory.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A state file is damaged, and its previous copy is damaged or missing.
    #[error(
        "{path}: {reason}, and no previous copy can be used; put a good copy there, \
         or begin without it: {command}"
    )]
    Unusable {
        /// The file.
        path: String,
        /// The fault, with its byte position if that is known.
        reason: String,
        /// The command that lets the next start begin without the file.
        command: String,
    },
    /// The name of a state file has a directory in it, or is empty.
    #[error("state file name = {name}: a file name without a directory")]
    Name {
        /// The given name.
        name: String,
    },
}

/// Adds the file's path to an IO error.
pub fn io_error(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError::Io {
        path: path.display().to_string(),
        source,
    }
}

/// Like [`io_error`], for a write that may be tried again if only disk space or a file descriptor
/// is missing. The caller then writes the same bytes to the same place.
pub fn write_error(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| match is_full(&source) || is_out_of_descriptors(&source) {
        true => FileError::Full {
            path: path.display().to_string(),
            source,
        },
        false => io_error(path)(source),
    }
}

/// Like [`io_error`], for an open before a sync. If only a descriptor is missing, no sync was lost,
/// so the caller may try again.
pub fn open_error(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| match is_out_of_descriptors(&source) {
        true => write_error(path)(source),
        false => io_error(path)(source),
    }
}

/// Whether the process (EMFILE) or the system (ENFILE) has no free file descriptor.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_without_a_descriptor_may_be_retried() {
        let error = |errno| write_error(Path::new("queue"))(io::Error::from_raw_os_error(errno));
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOSPC] {
            assert!(matches!(error(errno), FileError::Full { .. }), "{errno}");
        }
        assert!(matches!(error(libc::EIO), FileError::Io { .. }));
        let open = |errno| open_error(Path::new("queue"))(io::Error::from_raw_os_error(errno));
        assert!(matches!(open(libc::EMFILE), FileError::Full { .. }));
        assert!(matches!(open(libc::ENOSPC), FileError::Io { .. }));
    }
}
