//! Watching the file operations of a store, and making them fail: for crash tests.
//!
//! Every file operation of a store goes through [`crate::fs`], which asks the tape of the
//! directory, if it has one. Nothing but a test sets one; without it an operation costs a branch.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

/// What is operated on.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The path; for an open file the one it was opened by.
    pub path: &'a Path,
    /// The file's inode number, 0 where no file is open.
    pub file: u64,
}

/// What is done. Ranges are bytes of the file.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// Opening a file, asking for its length, or listing a directory.
    Open,
    /// Creating a file, or cutting an existing one to nothing. [`Target::file`] is known after it.
    Create,
    /// Reading a range.
    Read(u64, u64),
    /// Writing the slices one behind the other from an offset on.
    Write(u64, &'a [&'a [u8]]),
    /// Making a range read as zeros.
    Zero(u64, u64),
    /// Reserving blocks for a range.
    Allocate(u64, u64),
    /// Giving a file its length.
    SetLength(u64),
    /// Making a range durable, and the length if it was changed.
    Sync(u64, u64),
    /// Having the disk begin with a range.
    BeginSync(u64, u64),
    /// Giving a file another name.
    Rename(&'a Path),
    /// Giving a file one more name.
    Link(&'a Path),
    /// Removing a name: a file's, or an empty directory's.
    Remove,
    /// Creating a directory.
    CreateDirectory,
    /// Making the names in a directory durable.
    SyncDirectory,
}

/// Told of every operation before and after. Called by many threads at once.
pub trait Tape: Send + Sync + fmt::Debug {
    /// An error keeps the operation from being done and becomes its result. The number is handed
    /// to [`Tape::after`]: what a sync covers was done before the sync began.
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64>;

    /// The operation was done.
    fn after(&self, target: Target<'_>, operation: &Operation<'_>, began: u64);
}

static IS_WATCHING: AtomicBool = AtomicBool::new(false);
static WATCHED: RwLock<Vec<(PathBuf, Arc<dyn Tape>)>> = RwLock::new(Vec::new());

/// Ends the watch when dropped; files that are open stay watched.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
}

/// Has `tape` told of every operation at or below `root`, on files opened from now on.
pub fn watch(root: &Path, tape: Arc<dyn Tape>) -> Watch {
    let root = root.to_owned();
    WATCHED.write().push((root.clone(), tape));
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

/// The tape of a path.
pub(super) fn tape_of(path: &Path) -> Option<Arc<dyn Tape>> {
    if !IS_WATCHING.load(Ordering::Acquire) {
        return None;
    }
    let watched = WATCHED.read();
    let found = watched.iter().find(|(root, _)| path.starts_with(root));
    found.map(|(_, tape)| Arc::clone(tape))
}

/// Does the operation under the eyes of the tape.
pub(super) fn taped<T>(
    tape: &dyn Tape,
    target: Target<'_>,
    operation: &Operation<'_>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let began = tape.before(target, operation)?;
    let done = work()?;
    tape.after(target, operation, began);
    Ok(done)
}
