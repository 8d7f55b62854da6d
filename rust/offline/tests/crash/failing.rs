//! Makes operations fail.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mq_log::{IoHook, Operation, Target};

use crate::tape::Recorder;

pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;

/// The kind of operation that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    /// Operations that change a file's content or names. A failing write stores its first half.
    Write,
    Sync,
    /// Operations that need new blocks: the disk is full.
    Grow,
}

impl Kind {
    fn is(self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::Read(..) | Operation::Open => self == Self::Read,
            Operation::Sync(..) | Operation::SyncDirectory => self == Self::Sync,
            Operation::Create | Operation::Allocate(..) | Operation::CreateDirectory => {
                matches!(self, Self::Write | Self::Grow)
            }
            Operation::BeginSync(..) => false, // a hint, of which nobody hears
            _ => self == Self::Write,
        }
    }

    fn errno(self) -> i32 {
        match self {
            Self::Grow => ENOSPC,
            _ => EIO,
        }
    }
}

/// Selects the operations that fail; they are counted from 0.
#[derive(Debug)]
pub struct Failing {
    kind: Kind,
    first: usize,
    /// Whether all later operations fail, too.
    stays: bool,
    /// Whether only files of the commit log fail.
    log_only: bool,
    seen: AtomicUsize,
    is_well: AtomicBool,
    recorder: Option<Arc<Recorder>>,
}

impl Failing {
    /// Fails the operation with number `first`, and all later ones if `stays` is true.
    pub fn new(kind: Kind, first: usize, stays: bool) -> Self {
        Self {
            kind,
            first,
            stays,
            log_only: false,
            seen: AtomicUsize::new(0),
            is_well: AtomicBool::new(false),
            recorder: None,
        }
    }

    /// Limits the failures to the commit log.
    pub fn in_log(mut self) -> Self {
        self.log_only = true;
        self
    }

    /// Records the operations, too.
    pub fn recorded_by(mut self, recorder: &Arc<Recorder>) -> Self {
        self.recorder = Some(Arc::clone(recorder));
        self
    }

    /// Number of operations of the kind so far.
    pub fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }

    /// Whether an operation failed.
    pub fn has_failed(&self) -> bool {
        self.seen() > self.first
    }

    /// Whether the failures are of a full disk.
    pub fn is_of_room(&self) -> bool {
        self.kind == Kind::Grow
    }

    /// Ends all failures.
    pub fn succeed_again(&self) {
        self.is_well.store(true, Ordering::SeqCst);
    }

    fn fails(&self, path: &Path, operation: &Operation<'_>) -> bool {
        let is_here = !self.log_only || is_log(path);
        if !self.kind.is(operation) || !is_here || self.is_well.load(Ordering::SeqCst) {
            return false;
        }
        let number = self.seen.fetch_add(1, Ordering::SeqCst);
        number == self.first || (self.stays && number > self.first)
    }
}

impl IoHook for Failing {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        if self.fails(target.path, operation) {
            if let (Operation::Sync(from, to), Some(recorder)) = (operation, &self.recorder) {
                recorder.lose(target, *from, *to);
            }
            if let Operation::Write(offset, slices) = operation {
                write_half(target.path, *offset, slices);
            }
            return Err(io::Error::from_raw_os_error(self.kind.errno()));
        }
        match &self.recorder {
            Some(recorder) => recorder.before(target, operation),
            None => Ok(0),
        }
    }

    fn after(&self, target: Target<'_>, operation: &Operation<'_>, began: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.after(target, operation, began);
        }
    }
}

/// New log files are created elsewhere, with the ending `.new`.
fn is_log(path: &Path) -> bool {
    let mut parts = path.components();
    path.extension().is_some_and(|ending| ending == "new")
        || parts.any(|part| part.as_os_str() == "commitlog")
}

/// Writes the first half of a write, if the file still has the name under which it was opened.
fn write_half(path: &Path, offset: u64, slices: &[&[u8]]) {
    use std::os::unix::fs::FileExt;
    let bytes = slices.concat();
    if let Ok(file) = std::fs::OpenOptions::new().write(true).open(path) {
        file.write_all_at(&bytes[..bytes.len() / 2], offset)
            .unwrap();
    }
}
