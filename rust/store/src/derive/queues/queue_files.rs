//! Files of one nominal length, each named by the offset of its first byte, for consume queues and
//! their extensions. They are sparse, written by `pwrite` and read by `pread`; a queue holds
//! neither a memory map nor a descriptor.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use super::kept::{Kept, KeptBytes};
use super::open_files::OpenFiles;
use crate::files::{
    OffsetFile, create_sparse, io_error, offset_files, offset_name, open_error, sync_directory,
    write_error,
};
use crate::types::{ReadMode, StoreError};
use mq_log::Access;
use mq_log::fs::{self, File, OpenOptions};

/// Zeros written at once if holes cannot be punched.
const ZERO_BYTES: usize = 64 << 10;

/// State shared by all queues of a store.
#[derive(Debug)]
pub struct SharedQueueFiles {
    /// Root directory of the store.
    pub root: PathBuf,
    pub access: Access,
    pub open: OpenFiles,
    /// Bytes of entries that readers see and no file has.
    pub pending: AtomicI64,
    /// Bytes that a start keeps in memory.
    pub kept: KeptBytes,
    /// A start writes entries of records after this log offset again even if the files have them,
    /// because after a failed sync the page cache may hold pages that are marked clean but not on
    /// disk.
    pub durable_to: AtomicI64,
}

/// The files of one directory.
#[derive(Debug)]
pub struct QueueFiles {
    /// Number of this directory in the keys of open files.
    pub number: u64,
    pub directory: PathBuf,
    /// Nominal length of a file.
    pub file_bytes: u64,
    pub shared: Arc<SharedQueueFiles>,
    pub(crate) kept: Kept,
}

/// Syncs the directories of new files.
pub(crate) fn sync_directories(directories: &BTreeSet<PathBuf>) -> Result<(), StoreError> {
    directories.iter().try_for_each(|path| sync_directory(path))
}

/// The files written since the last flush.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Start offsets of these files.
    files: BTreeSet<u64>,
    /// Whether a file was created.
    directory: bool,
}

impl Dirty {
    /// Adds earlier files.
    pub(crate) fn merge(&mut self, earlier: Self) {
        self.files.extend(earlier.files);
        self.directory |= earlier.directory;
    }

    /// Number of files to sync.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }
}

impl QueueFiles {
    /// Start of the file that holds a position.
    pub(crate) fn start_of(&self, position: u64) -> u64 {
        position - position % self.file_bytes
    }

    pub(crate) fn path(&self, start: u64) -> PathBuf {
        self.directory.join(offset_name(start))
    }

    /// Adds the file's path to an error. Only then, because formatting costs as much as a small
    /// write.
    fn failed(&self, start: u64, error: io::Error) -> StoreError {
        write_error(&self.path(start))(error)
    }

    /// The files in order, without gaps. The owner of the store removes a file of another length or
    /// after a gap, and all later ones, after calling `before`. Then it returns true, and their
    /// content must be derived from the log again. For other callers such a file is an error.
    pub(crate) fn sound(
        &self,
        before: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(Vec<OffsetFile>, bool), StoreError> {
        let is_owner = self.shared.access == Access::Append;
        let mut files = offset_files(&self.directory)?;
        if let Some(stray) = files.pop_if(|last| last.bytes == 0)
            && is_owner
        {
            // The file never got its length.
            tracing::warn!(path = %stray.path.display(), "removing an empty queue file at the end");
            fs::remove_file(&stray.path).map_err(io_error(&stray.path))?;
        }
        let file_bytes = self.file_bytes;
        let has_length =
            |file: &OffsetFile| file.bytes == file_bytes && file.offset.is_multiple_of(file_bytes);
        let first = files.first().map_or(0, |first| first.offset);
        let ends = (0_u64..).map(|at| first.saturating_add(at.saturating_mul(file_bytes)));
        let mut places = files.iter().zip(ends);
        let wrong =
            places.position(|(file, end)| !has_length(file) || (is_owner && file.offset != end));
        let Some(wrong) = wrong else {
            return Ok((files, false));
        };
        let (path, bytes) = (files[wrong].path.display().to_string(), files[wrong].bytes);
        if !is_owner {
            return Err(StoreError::UnknownLayout {
                root: self.shared.root.display().to_string(),
                what: format!("{path} has {bytes} bytes, the other queue files have {file_bytes}"),
            });
        }
        before()?;
        tracing::warn!(
            path,
            bytes,
            expected = file_bytes,
            "rebuilding a consume queue from this file on: it is damaged or follows a gap"
        );
        for file in files.drain(wrong..) {
            self.remove(&file)?;
        }
        Ok((files, true))
    }

    /// Writes bytes to one or more files, creating missing ones. After a failure any part may be
    /// written; another try overwrites it.
    pub(crate) fn write(
        &self,
        mut position: u64,
        mut bytes: &[u8],
        dirty: &mut Dirty,
    ) -> Result<(), StoreError> {
        self.forget_kept();
        while !bytes.is_empty() {
            let start = self.start_of(position);
            let room = start + self.file_bytes - position;
            let count = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let file = self.open_or_create(start, dirty)?;
            file.write_all_at(&bytes[..count], position - start)
                .map_err(|error| self.failed(start, error))?;
            dirty.files.insert(start);
            bytes = &bytes[count..];
            position += count as u64;
        }
        Ok(())
    }

    fn open_or_create(&self, start: u64, dirty: &mut Dirty) -> Result<Arc<File>, StoreError> {
        match self.open(start) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other.map_err(|error| self.failed(start, error)),
        }
        fs::create_dir_all(&self.directory).map_err(write_error(&self.directory))?;
        let path = self.path(start);
        let file = create_sparse(&self.shared.root, &path, self.file_bytes, |_| Ok(()))?;
        dirty.directory = true;
        self.shared
            .open
            .get((self.number, start), || Ok(file))
            .map_err(io_error(&path))
    }

    /// Keeps the bytes at a position in memory until the next write.
    pub(crate) fn keep(&self, position: u64, bytes: &[u8]) {
        self.kept.keep(position, bytes, &self.shared.kept);
    }

    /// Frees the kept bytes.
    pub(crate) fn forget_kept(&self) {
        self.kept.forget(&self.shared.kept);
    }

    pub(crate) fn open(&self, start: u64) -> io::Result<Arc<File>> {
        self.shared.open.get((self.number, start), || {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(self.shared.access == Access::Append);
            fs::open_own(self.path(start), &mut options)
        })
    }

    /// Opens a listed file for the one read of a start.
    pub(super) fn open_once(&self, start: u64) -> io::Result<Arc<File>> {
        self.shared.open.get_once((self.number, start), || {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            fs::open_listed(self.path(start), &mut options)
        })
    }

    /// Reads from one file. A non-blocking read returns None or less if it would wait for the disk,
    /// also if the file is not open.
    pub(crate) fn read(
        &self,
        position: u64,
        mode: ReadMode,
        out: &mut [u8],
    ) -> io::Result<Option<usize>> {
        if self.kept.copy(position, out) {
            return Ok(Some(out.len()));
        }
        let start = self.start_of(position);
        let at = position - start;
        match mode {
            ReadMode::NoWait => match self.shared.open.find((self.number, start)) {
                Some(file) => file.read_at_nowait(out, at),
                None => Ok(None),
            },
            ReadMode::Wait => {
                self.open(start)?.read_exact_at(out, at)?;
                Ok(Some(out.len()))
            }
        }
    }

    /// Syncs the written files. Adds to `directories` the ones to sync because a file is new there.
    pub(crate) fn flush(
        &self,
        dirty: &Dirty,
        directories: &mut BTreeSet<PathBuf>,
    ) -> Result<(), StoreError> {
        if dirty.directory {
            // The directories of the queue, the topic and all queues may be new, too.
            let (root, all) = (&self.shared.root, self.directory.ancestors());
            let below = all.take_while(|path| path.starts_with(root));
            directories.extend(below.map(Path::to_owned));
        }
        for &start in &dirty.files {
            let file = match self.open(start) {
                // It expired meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(|error| open_error(&self.path(start))(error))?,
            };
            let synced = file.sync_data();
            synced.map_err(|error| io_error(&self.path(start))(error))?;
        }
        Ok(())
    }

    /// Zeroes the bytes after a position, and removes later files.
    pub(crate) fn clear_from(&self, position: u64, dirty: &mut Dirty) -> Result<(), StoreError> {
        self.forget_kept();
        for file in offset_files(&self.directory)? {
            if file.offset + file.bytes <= position {
                continue;
            }
            if file.offset > position {
                self.remove(&file)?;
                continue;
            }
            let from = position - file.offset;
            let open = self.open(file.offset).map_err(io_error(&file.path))?;
            // Syncing each of many queues takes minutes, and most need no change.
            if !is_zero(&open, from, file.bytes).map_err(io_error(&file.path))? {
                zero(&open, from, file.bytes - from).map_err(io_error(&file.path))?;
                dirty.files.insert(file.offset);
            }
        }
        Ok(())
    }

    /// Removes the files before a position, but never the last one; returns their start offsets.
    /// Running reads keep reading from removed files.
    pub(crate) fn delete_before(&self, position: u64) -> Result<Vec<u64>, StoreError> {
        let mut files = offset_files(&self.directory)?;
        files.pop();
        files.retain(|file| file.offset + file.bytes <= position);
        files.iter().try_for_each(|file| self.remove(file))?;
        if !files.is_empty() {
            sync_directory(&self.directory)?;
        }
        Ok(files.into_iter().map(|file| file.offset).collect())
    }

    fn remove(&self, file: &OffsetFile) -> Result<(), StoreError> {
        self.forget_kept();
        fs::remove_file(&file.path).map_err(io_error(&file.path))?;
        self.shared.open.forget(self.number, file.offset);
        Ok(())
    }

    /// Removes the directory from the disk.
    pub(crate) fn destroy(&self) -> Result<(), StoreError> {
        self.forget_kept();
        self.shared.open.forget_all(self.number);
        remove_directory(&self.directory)
    }
}

fn remove_directory(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

/// Whether `[from, to)` reads as zeros; holes are not read.
pub(super) fn is_zero(file: &File, from: u64, to: u64) -> io::Result<bool> {
    let mut bytes = [0; 4096];
    let mut at = from;
    while let Some(data) = file.next_data(at)?.filter(|data| *data < to) {
        at = data;
        let room = usize::try_from(to - at).unwrap_or(usize::MAX);
        let count = room.min(bytes.len());
        file.read_exact_at(&mut bytes[..count], at)?;
        if bytes[..count].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += count as u64;
        if at >= to {
            break;
        }
    }
    Ok(true)
}

/// Makes a range read as zeros, and frees its blocks if the file system can.
fn zero(file: &File, from: u64, length: u64) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    if file.punch_hole(from, from + length)? {
        return Ok(());
    }
    let zeros = [0; ZERO_BYTES];
    let mut done = 0;
    while done < length {
        let count = (length - done).min(ZERO_BYTES as u64);
        let count = usize::try_from(count).unwrap_or(ZERO_BYTES);
        file.write_all_at(&zeros[..count], from + done)?;
        done += count as u64;
    }
    Ok(())
}
