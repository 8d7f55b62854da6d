//! A directory of log files whose names are 20-digit offsets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_disk::{FileDisk, WriteMode};
use super::fs::{self, File, OpenOptions};

const NAME_DIGITS: usize = 20;

/// The purpose for which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only. Such a file is mapped with its first read, not when it is opened.
    Read,
    /// Appending at the end of the log: a write may fill the rest of its page with zeros.
    Append,
    /// Overwriting bytes in place: the bytes around them stay as they are.
    Repair,
}

/// A file of the log: the offset in its name, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Offset of the file's first byte, bytes from the start of the log.
    pub start: u64,
    /// Length, bytes.
    pub length: u64,
}

/// A directory of log files. A new file is created in `workshop`, our own directory on the same
/// file system, so that RocketMQ never opens a file that is only half prepared.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    handle: Arc<File>,
    workshop: PathBuf,
    mode: WriteMode,
}

impl Directory {
    /// Opens the directory `path`. Creates `path` and `workshop` if they are missing, and removes
    /// files from `workshop` that were never published.
    pub fn open(path: &Path, workshop: &Path, mode: WriteMode) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        fs::create_dir_all(workshop)?;
        let handle = Arc::new(File::open_directory(path)?);
        let directory = Self {
            path: path.into(),
            handle,
            workshop: workshop.into(),
            mode,
        };
        for entry in fs::read_dir(workshop)? {
            let left_over = entry?.path();
            if left_over
                .extension()
                .is_some_and(|extension| extension == "new")
            {
                fs::remove_file(left_over)?;
            }
        }
        Ok(directory)
    }

    /// Returns every file, lowest offset first.
    pub fn list(&self) -> io::Result<Vec<FileInfo>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Some(start) = entry.file_name().to_str().and_then(parse_name) else {
                continue;
            };
            if entry.file_type()?.is_dir() {
                continue;
            }
            let length = fs::own_metadata(entry.path())?.len();
            files.push(FileInfo { start, length });
        }
        files.sort_unstable_by_key(|file| file.start);
        Ok(files)
    }

    /// Opens an existing file.
    pub(super) fn open_file(&self, start: u64, access: Access) -> io::Result<FileDisk> {
        let writable = access != Access::Read;
        let path = self.path_of(start);
        let file = fs::open_own(&path, OpenOptions::new().read(true).write(writable))?;
        let directory = Arc::clone(&self.handle);
        match access {
            Access::Read | Access::Repair => Ok(FileDisk::plain(file, directory)),
            Access::Append => FileDisk::for_appending(file, &path, directory, self.mode, false),
        }
    }

    /// Creates a file of `length` zeros without blocks. It has no final name yet.
    pub(super) fn prepare(&self, start: u64, length: u64) -> io::Result<FileDisk> {
        let path = self.prepared_path_of(start);
        let mut options = OpenOptions::new();
        // Truncates a file that an earlier, failed attempt left.
        options.read(true).write(true).create(true).truncate(true);
        let file = fs::open_own(&path, &mut options)?;
        file.set_len(length)?;
        FileDisk::for_appending(file, &path, Arc::clone(&self.handle), self.mode, true)
    }

    /// Gives a prepared file its final name.
    pub(super) fn publish(&self, start: u64) -> io::Result<()> {
        fs::rename(self.prepared_path_of(start), self.path_of(start))
    }

    /// Removes a prepared file.
    pub(super) fn discard(&self, start: u64) -> io::Result<()> {
        fs::remove_file(self.prepared_path_of(start))
    }

    /// Removes a file; durable on return.
    pub fn remove(&self, start: u64) -> io::Result<()> {
        fs::remove_file(self.path_of(start))?;
        self.handle.sync_all()
    }

    fn path_of(&self, start: u64) -> PathBuf {
        self.path.join(file_name(start))
    }

    fn prepared_path_of(&self, start: u64) -> PathBuf {
        self.workshop.join(format!("{}.new", file_name(start)))
    }
}

/// Returns RocketMQ's name for the file whose first byte is at `start`.
pub(super) fn file_name(start: u64) -> String {
    format!("{start:0NAME_DIGITS$}")
}

/// Returns the offset in a file name, or None if the name is not one of a log file.
fn parse_name(name: &str) -> Option<u64> {
    let is_offset = name.len() == NAME_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
    is_offset.then(|| name.parse().ok()).flatten()
}

/// Returns the start of the file at `path`, which may be in the log or still in the workshop.
#[cfg(any(test, feature = "testing"))]
pub(super) fn start_of(path: &Path) -> Option<u64> {
    parse_name(path.file_stem()?.to_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use crate::{Allocator, Segments, WriteError, Writer};
    use mq_base::clock::SystemClock;

    /// Repeats a write while the allocation thread is late, which happens on a busy machine.
    fn patiently(mut write: impl FnMut() -> Result<(), WriteError>) {
        loop {
            match write() {
                Err(WriteError::NotReady) => thread::yield_now(),
                done => return done.unwrap(),
            }
        }
    }

    #[test]
    fn a_log_on_disk_rolls_into_prepared_files_and_reads_back() {
        const SIZE: u64 = 64 << 10;
        for mode in [WriteMode::Map, WriteMode::Write] {
            let root = tempfile::tempdir().unwrap();
            let (path, workshop) = (root.path().join("commitlog"), root.path().join("mqstack"));
            let open = || Directory::open(&path, &workshop, mode).unwrap();
            let segments = Arc::new(Segments::open(open(), SIZE).unwrap());
            let mut writer = Writer::new(Arc::clone(&segments), 16 << 10, SystemClock::shared());
            let allocator = Allocator::start(&writer, &Arc::default()).unwrap();
            let mut written = Vec::new();
            for record in 0..40_u8 {
                if writer.remaining() < 5_000 {
                    patiently(|| writer.roll(&[b"filler"]));
                    segments.sync(0, writer.position()).unwrap();
                    segments.retire_before(writer.position()).unwrap();
                }
                let size = 1_900 + usize::from(record) * 7;
                written.push((writer.position(), record, 2 * size));
                patiently(|| writer.write(&[&vec![record; size], &vec![record; size]]));
            }
            segments.sync(0, writer.position()).unwrap();
            drop(allocator);
            assert_eq!(fs::read_dir(&workshop).unwrap().count(), 0);
            assert_eq!(segments.starts(), [0, SIZE, 2 * SIZE]);

            let reopened = Segments::open(open(), SIZE).unwrap();
            for (offset, record, size) in &written {
                let mut out = vec![0; *size];
                assert_eq!(reopened.read_at(*offset, &mut out).unwrap(), *size);
                assert_eq!(out, vec![*record; *size], "{mode:?} {offset}");
                // None if the file system does not support RWF_NOWAIT.
                let count = reopened.read_at_nowait(*offset, &mut out).unwrap();
                assert!(
                    count.is_none_or(|count| count == *size),
                    "{mode:?} {offset}"
                );
            }
            reopened.overwrite(100, b"repaired").unwrap();
            let mut out = [0; 10];
            reopened.read_at(99, &mut out).unwrap();
            assert_eq!(&out, b"\0repaired\0");
            reopened.truncate_to(SIZE + 4_000).unwrap();
            assert_eq!(reopened.read_at(SIZE, &mut [0; 4_001]).unwrap(), 4_000);
            let length = fs::metadata(path.join(file_name(SIZE))).unwrap().len();
            assert_eq!(length, SIZE);
        }
    }

    #[test]
    fn a_file_is_not_prepared_through_a_link() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workshop = root.path().join("mqstack");
        let log = Directory::open(root.path(), &workshop, WriteMode::Write).unwrap();
        let theirs = outside.path().join("theirs");
        std::fs::write(&theirs, "keep").unwrap();
        fs::symlink(&theirs, log.prepared_path_of(0)).unwrap();
        let refused = log.prepare(0, 4_096).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert_eq!(std::fs::read(&theirs).unwrap(), b"keep");
    }

    #[test]
    fn stray_names_are_not_files_of_the_log() {
        assert_eq!(parse_name("00000000001073741824"), Some(1 << 30));
        for name in [
            "",
            "1073741824",
            "0000000000107374182x",
            "+0000000001073741824",
            "00000000001073741824.bak",
        ] {
            assert_eq!(parse_name(name), None, "{name}");
        }
        assert_eq!(file_name(1 << 30), "00000000001073741824");
    }
}
