//! Hooks that watch the file operations of a store and make them fail: for crash tests.
//!
//! Every file operation of a store goes through [`crate::fs`], which calls the hook of the
//! directory, if it has one. Only tests set hooks; without a hook an operation costs one branch.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

/// The file or directory of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The path; for an open file, the path by which it was opened.
    pub path: &'a Path,
    /// Inode number of the file; 0 if no file is open.
    pub file: u64,
}

/// A file operation. Ranges are bytes of the file.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// Opening a file, reading its metadata, or listing a directory.
    Open,
    /// Creating a file, or truncating it to 0 bytes. [`Target::file`] is set only after the
    /// operation.
    Create,
    /// Reading a range.
    Read(u64, u64),
    /// Writing the slices one after another, starting at an offset.
    Write(u64, &'a [&'a [u8]]),
    /// Making a range read as zeros.
    Zero(u64, u64),
    /// Reserving blocks for a range.
    Allocate(u64, u64),
    /// Setting the length of a file.
    SetLength(u64),
    /// Making a range durable, and the length if it changed.
    Sync(u64, u64),
    /// Starting to write a range to the disk.
    BeginSync(u64, u64),
    /// Renaming a file or directory.
    Rename(&'a Path),
    /// Adding a name to a file.
    Link(&'a Path),
    /// Removing a file or an empty directory.
    Remove,
    /// Creating a directory.
    CreateDirectory,
    /// Making the names in a directory durable.
    SyncDirectory,
}

/// Called before and after every operation, by many threads at once.
pub trait IoHook: Send + Sync + fmt::Debug {
    /// Runs before the operation. An error prevents the operation and becomes its result. The
    /// returned number is passed to [`IoHook::after`]: a sync covers the writes that ended before
    /// it began.
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64>;

    /// Runs after an operation that succeeded.
    fn after(&self, target: Target<'_>, operation: &Operation<'_>, began: u64);
}

static IS_WATCHING: AtomicBool = AtomicBool::new(false);
static WATCHED: RwLock<Vec<(PathBuf, Arc<dyn IoHook>)>> = RwLock::new(Vec::new());

/// Removes the hook when dropped; files that are still open keep it.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
}

/// Calls `hook` for every operation at or below `root`, on files that are opened from now on.
pub fn watch(root: &Path, hook: Arc<dyn IoHook>) -> Watch {
    let root = root.to_owned();
    WATCHED.write().push((root.clone(), hook));
    IS_WATCHING.store(true, Ordering::Release);
    Watch { root }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = WATCHED.write();
        watched.retain(|(root, _)| *root != self.root);
        IS_WATCHING.store(!watched.is_empty(), Ordering::Release);
    }
}

/// Returns the hook of a path.
pub(super) fn hook_of(path: &Path) -> Option<Arc<dyn IoHook>> {
    if !IS_WATCHING.load(Ordering::Acquire) {
        return None;
    }
    let watched = WATCHED.read();
    let found = watched.iter().find(|(root, _)| path.starts_with(root));
    found.map(|(_, hook)| Arc::clone(hook))
}

/// Runs an operation between the two calls of its hook.
pub(super) fn hooked<T>(
    hook: &dyn IoHook,
    target: Target<'_>,
    operation: &Operation<'_>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let began = hook.before(target, operation)?;
    let done = work()?;
    hook.after(target, operation, began);
    Ok(done)
}
