//! `std::fs` for a store: the same names, and hooks that can watch or fail each operation.
//!
//! The crates `log` and `store` use this instead of `std::fs`, so that crash tests see every
//! operation on a store's directory.

use std::fs;
pub use std::fs::{FileType, Metadata};
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{
    DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::SYNC_FILE_RANGE_WRITE;
use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, SeekFrom, StatxFlags, fadvise, fallocate, seek, statx,
    syncfs,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::io_hooks::{IoHook, Operation, Target, hook_of, hooked};

/// Permission bits of a new file; the umask of the process removes bits from them.
static FILE_MODE: AtomicU32 = AtomicU32::new(0o640);

/// Sets the permission bits of new files of this process. New directories get the execute bit for
/// everyone who may read or write the files.
pub fn set_file_mode(mode: u32) {
    FILE_MODE.store(mode, Ordering::Relaxed);
}

fn folder_mode() -> u32 {
    let mode = FILE_MODE.load(Ordering::Relaxed);
    mode | (mode & 0o444) >> 2 | (mode & 0o222) >> 1
}

/// An open file or directory.
#[derive(Debug)]
pub struct File {
    inner: fs::File,
    watched: Option<Box<Watched>>,
}

#[derive(Debug)]
struct Watched {
    hook: Arc<dyn IoHook>,
    path: PathBuf,
    file: u64,
}

/// How a file is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    inner: fs::OpenOptions,
    creates: bool,
    truncates: bool,
    flags: i32,
}

impl OpenOptions {
    /// Options that open nothing yet.
    #[allow(clippy::new_without_default, reason = "as in std")]
    pub fn new() -> Self {
        let mut inner = fs::OpenOptions::new();
        inner.mode(FILE_MODE.load(Ordering::Relaxed));
        Self {
            inner,
            creates: false,
            truncates: false,
            flags: 0,
        }
    }

    /// Opens for reading.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.inner.read(read);
        self
    }

    /// Opens for writing.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.inner.write(write);
        self
    }

    /// Creates the file if it is missing.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.inner.create(create);
        self.creates = create;
        self
    }

    /// Truncates the file to 0 bytes.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.inner.truncate(truncate);
        self.truncates = truncate;
        self
    }

    /// Adds flags of `open(2)`.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.flags = flags;
        self
    }

    /// Private: a file of a store is opened by [`open_own`], a directory by
    /// [`File::open_directory`].
    fn open(&self, path: &Path) -> io::Result<File> {
        let Some(hook) = hook_of(path) else {
            let inner = self.inner.open(path)?;
            return Ok(File {
                inner,
                watched: None,
            });
        };
        let is_new = self.truncates || (self.creates && !path.exists());
        let operation = match is_new {
            true => Operation::Create,
            false => Operation::Open,
        };
        let began = hook.before(Target { path, file: 0 }, &operation)?;
        let inner = self.inner.open(path)?;
        let file = inner.metadata()?.ino();
        hook.after(Target { path, file }, &operation, began);
        let path = path.to_owned();
        let watched = Some(Box::new(Watched { hook, path, file }));
        Ok(File { inner, watched })
    }
}

impl File {
    /// Opens a directory, or a link to one, to sync it.
    pub fn open_directory(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.inner.read(true).custom_flags(libc::O_DIRECTORY);
        options.open(path.as_ref())
    }

    /// Runs `work` as the operation `operation`: for operations that go through a map.
    pub fn doing<T>(
        &self,
        operation: &Operation<'_>,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match &self.watched {
            None => work(),
            Some(watched) => {
                let (path, file) = (watched.path.as_path(), watched.file);
                hooked(&*watched.hook, Target { path, file }, operation, work)
            }
        }
    }

    /// Returns length, times and kind.
    pub fn metadata(&self) -> io::Result<fs::Metadata> {
        self.doing(&Operation::Open, || self.inner.metadata())
    }

    /// Returns the length alone. On kernels with fine timestamps, a query of all metadata makes the
    /// next write change the inode, which the next sync then has to write as well.
    pub fn length(&self) -> io::Result<u64> {
        self.doing(&Operation::Open, || {
            Ok(rustix::fs::seek(&self.inner, rustix::fs::SeekFrom::End(0))?)
        })
    }

    /// Sets the length of the file.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        self.doing(&Operation::SetLength(length), || self.inner.set_len(length))
    }

    /// Makes the file durable; for a directory, its names.
    pub fn sync_all(&self) -> io::Result<()> {
        let is_directory = self.watched.is_some() && self.inner.metadata()?.is_dir();
        let operation = match is_directory {
            true => Operation::SyncDirectory,
            false => Operation::Sync(0, u64::MAX),
        };
        self.doing(&operation, || self.inner.sync_all())
    }

    /// Makes content and length of the file durable.
    pub fn sync_data(&self) -> io::Result<()> {
        self.doing(&Operation::Sync(0, u64::MAX), || self.inner.sync_data())
    }

    /// Starts writing `[from, to)` to the disk; only a hint. If such a write fails, the next
    /// sync returns the error.
    pub fn begin_sync(&self, from: u64, to: u64) {
        let length = to.saturating_sub(from).cast_signed();
        // SAFETY: a system call on an open file; it uses no memory of this process.
        let begun = || unsafe {
            let file = self.inner.as_raw_fd();
            libc::sync_file_range(file, from.cast_signed(), length, SYNC_FILE_RANGE_WRITE)
        };
        let _ = self.doing(&Operation::BeginSync(from, to), || Ok(begun()));
    }

    /// Makes the whole file system of this file durable. The error also reports failures since the
    /// file was opened.
    pub fn sync_file_system(&self) -> io::Result<()> {
        let all = Operation::Sync(0, u64::MAX);
        self.doing(&all, || syncfs(&self.inner).map_err(io::Error::from))
    }

    /// Reads with one `pread`.
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let operation = Operation::Read(offset, offset + out.len() as u64);
        self.doing(&operation, || self.inner.read_at(out, offset))
    }

    /// Fills `out`.
    pub fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let operation = Operation::Read(offset, offset + out.len() as u64);
        self.doing(&operation, || self.inner.read_exact_at(out, offset))
    }

    /// Reads bytes that are in memory; None if the read would wait for the disk, or if the file
    /// system does not support RWF_NOWAIT.
    pub fn read_at_nowait(&self, out: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let operation = Operation::Read(offset, offset + out.len() as u64);
        let read = self.doing(&operation, || {
            let mut parts = [IoSliceMut::new(out)];
            match preadv2(&self.inner, &mut parts, offset, ReadWriteFlags::NOWAIT) {
                Ok(count) => Ok(Some(count)),
                Err(Errno::AGAIN | Errno::INTR) => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        match read {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
            read => read,
        }
    }

    /// Writes all of `bytes`.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let operation = Operation::Write(offset, &[bytes]);
        self.doing(&operation, || self.inner.write_all_at(bytes, offset))
    }

    /// Reserves blocks for `[from, to)` and keeps the length; false if the file system cannot.
    pub fn allocate(&self, from: u64, to: u64) -> io::Result<bool> {
        let operation = Operation::Allocate(from, to);
        self.doing(&operation, || {
            self.fallocate(FallocateFlags::KEEP_SIZE, from, to)
        })
    }

    /// Makes `[from, to)` a hole and keeps the length; false if the file system cannot.
    pub fn punch_hole(&self, from: u64, to: u64) -> io::Result<bool> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let operation = Operation::Zero(from, to);
        self.doing(&operation, || self.fallocate(flags, from, to))
    }

    /// Returns the first offset, at or after `from`, that is not known to be a hole; None if only
    /// holes follow. A file system without holes returns `from`.
    pub fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        self.doing(&Operation::Open, || {
            match seek(&self.inner, SeekFrom::Data(from)) {
                Ok(at) => Ok(Some(at)),
                Err(Errno::NXIO) => Ok(None),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(from)),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Sets the modification time, so that a copy is as old as its source.
    pub fn set_modified(&self, time: std::time::SystemTime) -> io::Result<()> {
        self.inner.set_modified(time)
    }

    /// Copies the permission bits and the owner of the file at `of`, if there is one, which this
    /// file will replace. Only root may copy the owner.
    pub fn keep_mode(&self, of: &Path) -> io::Result<()> {
        let old = match fs::symlink_metadata(of) {
            Ok(old) if old.is_file() => old,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        };
        let new = self.inner.metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) && rustix::process::geteuid().is_root()
        {
            fchown(&self.inner, Some(old.uid()), Some(old.gid()))?;
        }
        let bits = fs::Permissions::from_mode(old.mode() & 0o7777);
        self.inner.set_permissions(bits)
    }

    /// Asks the kernel to read `[from, to)` ahead; only a hint.
    pub fn will_read(&self, from: u64, to: u64) {
        let length = NonZero::new(to.saturating_sub(from));
        let _ = fadvise(&self.inner, from, length, Advice::WillNeed);
    }

    /// Tells the kernel that `[from, to)` will not be read again soon; only a hint.
    pub fn will_not_read(&self, from: u64, to: u64) {
        let length = NonZero::new(to.saturating_sub(from));
        let _ = fadvise(&self.inner, from, length, Advice::DontNeed);
    }

    fn fallocate(&self, flags: FallocateFlags, from: u64, to: u64) -> io::Result<bool> {
        match fallocate(&self.inner, flags, from, to - from) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

/// Runs an operation on a path.
fn on_path<T>(
    path: &Path,
    operation: &Operation<'_>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match hook_of(path) {
        None => work(),
        Some(hook) => hooked(&*hook, Target { path, file: 0 }, operation, work),
    }
}

/// Returns length, times and kind of the file at a path.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<fs::Metadata> {
    let path = path.as_ref();
    on_path(path, &Operation::Open, || fs::metadata(path))
}

/// The entries of a directory.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<fs::ReadDir> {
    let path = path.as_ref();
    on_path(path, &Operation::Open, || fs::read_dir(path))
}

/// Returns length, times and kind of one of our files; an error if it is not a regular file, or a
/// link.
pub fn own_metadata(path: impl AsRef<Path>) -> io::Result<fs::Metadata> {
    let path = path.as_ref();
    let found = on_path(path, &Operation::Open, || fs::symlink_metadata(path))?;
    match found.is_file() {
        true => Ok(found),
        false if found.is_symlink() => Err(not_ours(IS_LINK)),
        false => Err(not_ours(IS_IRREGULAR)),
    }
}

/// Opens one of our files. Does not follow links, opens only regular files, and does not block on a
/// FIFO or a device.
pub fn open_own(path: impl AsRef<Path>, options: &mut OpenOptions) -> io::Result<File> {
    let file = open_listed(path, options)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_ours(IS_IRREGULAR)),
    }
}

/// Like [`open_own`], for a file that [`own_metadata`] has just found: does not ask again whether
/// the file is regular. A start of a store with many queues saves a system call for each queue.
pub fn open_listed(path: impl AsRef<Path>, options: &mut OpenOptions) -> io::Result<File> {
    let flags = options.flags | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    options.inner.custom_flags(flags);
    options
        .open(path.as_ref())
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => not_ours(IS_LINK),
            _ => error,
        })
}

const IS_LINK: &str = "a symbolic link; put a regular file there or remove it";
const IS_IRREGULAR: &str = "not a regular file; remove it";

fn not_ours(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Creates an empty file, with the checks of [`open_own`].
pub fn create_own(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_own(path, options.write(true).create(true).truncate(true))
}

/// Reads one of our files as a whole, if it has at most `bytes_max` bytes.
pub fn read_own(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_own(path, OpenOptions::new().read(true))?;
    let bytes = file.metadata()?.len();
    if bytes > bytes_max {
        let what = format!("has {bytes} bytes, more than the limit of {bytes_max}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let mut content = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

/// Creates a directory.
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let mut maker = fs::DirBuilder::new();
    maker.mode(folder_mode());
    on_path(path, &Operation::CreateDirectory, || maker.create(path))
}

/// Creates a directory and its parents.
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    match create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_dir_all(path.parent().ok_or(error)?)?;
            create_dir_all(path)
        }
        Err(_) if path.is_dir() => Ok(()),
        made => made,
    }
}

/// Renames a file or directory.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    on_path(from, &Operation::Rename(to), || fs::rename(from, to))
}

/// Adds a name to a file.
pub fn hard_link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    on_path(from, &Operation::Link(to), || fs::hard_link(from, to))
}

/// Removes a file.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    on_path(path, &Operation::Remove, || fs::remove_file(path))
}

/// Creates a symbolic link `name` to `target`.
pub fn symlink(target: impl AsRef<Path>, name: impl AsRef<Path>) -> io::Result<()> {
    let (target, name) = (target.as_ref(), name.as_ref());
    let make = || std::os::unix::fs::symlink(target, name);
    on_path(name, &Operation::CreateDirectory, make)
}

/// Creates a link `to` with the target of the link `from`; false if `from` is no link.
pub fn copy_link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<bool> {
    let from = from.as_ref();
    match on_path(from, &Operation::Open, || fs::read_link(from)) {
        Ok(target) => symlink(target, to).map(|()| true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a link or an empty directory, if there is one.
pub fn remove_place(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(found) if found.is_dir() => remove_dir(path),
        _ => remove_file(path),
    }
}

/// Returns the path with all links resolved.
pub fn canonical(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    on_path(path, &Operation::Open, || fs::canonicalize(path))
}

/// Whether two paths lead to the same file or directory.
pub fn is_same(path: impl AsRef<Path>, other: impl AsRef<Path>) -> bool {
    canonical(path).is_ok_and(|path| canonical(other).is_ok_and(|other| path == other))
}

/// Identifies the mount of a path: a file can be renamed only within one mount.
pub fn mount_of(path: impl AsRef<Path>) -> io::Result<(u32, u32, u64)> {
    let path = path.as_ref();
    let look = || {
        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
        // Kernels before 5.8 report only the device.
        Ok((found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id))
    };
    on_path(path, &Operation::Open, look)
}

/// Removes an empty directory.
pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    on_path(path, &Operation::Remove, || fs::remove_dir(path))
}

/// Removes a directory with its content; of a link to a directory, only the link.
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    if fs::symlink_metadata(path)?.is_symlink() {
        return remove_file(path);
    }
    for entry in read_dir(path)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_dir_all(entry.path())?,
            false => remove_file(entry.path())?,
        }
    }
    remove_dir(path)
}

/// Whether a write failed for lack of space, which an operator can fix while the broker runs.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
