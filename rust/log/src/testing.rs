//! A disk under a test's control: real files of a log, in their own directory.
//!
//! A hook delays, fails and records operations on them, and keeps the bytes that a crash would
//! leave.

#![allow(clippy::unwrap_used, reason = "for tests: a failure ends the test")]

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

use super::directory::{Directory, file_name, start_of};
use super::file_disk::WriteMode;
use super::io_hooks::{IoHook, Operation, Target, Watch, watch};

/// Name of the directory that holds the files.
const LOG: &str = "commitlog";

/// Blocks calls while it is closed.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    waiting: usize,
    passed: usize,
}

impl Gate {
    /// Blocks every call from now on.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
    }

    /// Lets every call continue.
    pub fn open(&self) {
        self.state.lock().is_closed = false;
        self.changed.notify_all();
    }

    /// Number of calls that are blocked now.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Number of calls that passed.
    pub fn passed(&self) -> usize {
        self.state.lock().passed
    }

    /// Returns as soon as the gate is open.
    pub fn pass(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.is_closed {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
        state.passed += 1;
    }
}

/// Groups of operations that a test delays, fails or records together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Creating a file, reserving its blocks, warming its pages.
    Room,
    /// Writing.
    Write,
    /// Making written bytes durable.
    Sync,
    /// Starting to write bytes to the disk.
    BeginSync,
    /// Removing a file.
    Remove,
    /// Renaming a file to its final name.
    Name,
}

impl Kind {
    fn of(operation: &Operation<'_>) -> Option<Self> {
        match operation {
            Operation::Create | Operation::Allocate(..) => Some(Self::Room),
            Operation::Write(..) => Some(Self::Write),
            Operation::Sync(..) => Some(Self::Sync),
            Operation::BeginSync(..) => Some(Self::BeginSync),
            Operation::Remove => Some(Self::Remove),
            Operation::Rename(_) => Some(Self::Name),
            _ => None,
        }
    }
}

/// An operation on a range of the log. Offsets are bytes from the start of the log.
pub type Event = (Kind, u64, u64);

/// The hook of a directory of log files.
#[derive(Debug)]
pub struct LogHook {
    directory: PathBuf,
    gates: [Gate; 6],
    state: Mutex<HookState>,
}

#[derive(Debug)]
struct HookState {
    /// The kind of operations that fail, and their error number.
    failing: Option<(Kind, i32)>,
    events: Vec<Event>,
    /// Number of syncs so far, and number of syncs that keep their bytes.
    syncs: usize,
    syncs_max: usize,
    /// Log offset and bytes of each range that a sync made durable, in the order of the syncs.
    durable: Vec<(u64, Vec<u8>)>,
}

impl LogHook {
    /// Creates the hook for the files in `directory`.
    pub fn of(directory: &Path) -> Arc<Self> {
        let state = HookState {
            failing: None,
            events: Vec::new(),
            syncs: 0,
            syncs_max: usize::MAX,
            durable: Vec::new(),
        };
        Arc::new(Self {
            directory: directory.to_owned(),
            gates: Default::default(),
            state: Mutex::new(state),
        })
    }

    /// Returns the gate at which operations of a kind wait.
    pub fn gate(&self, kind: Kind) -> &Gate {
        &self.gates[kind as usize]
    }

    /// Makes operations of one kind, and no others, fail from now on.
    pub fn fail(&self, kind: Kind, error_number: i32) {
        self.state.lock().failing = Some((kind, error_number));
    }

    /// Makes every operation succeed again.
    pub fn repair(&self) {
        self.state.lock().failing = None;
    }

    /// Returns the writes and syncs since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.state.lock().events)
    }

    /// Makes only the first `count` syncs keep their bytes; later ones succeed but keep nothing.
    pub fn freeze_after(&self, count: usize) {
        self.state.lock().syncs_max = count;
    }

    /// Number of syncs so far, whether they keep their bytes or not.
    pub fn syncs(&self) -> usize {
        self.state.lock().syncs
    }

    /// Returns the range of the log that an operation covers, at most up to the end of the file.
    fn range(&self, target: Target<'_>, operation: &Operation<'_>) -> Option<Range<u64>> {
        let start = start_of(target.path)?;
        let length = fs::metadata(self.path_of(start)).ok()?.len();
        let (from, to) = match *operation {
            Operation::Write(from, slices) => {
                let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
                (from, from + bytes as u64)
            }
            Operation::Sync(from, to) | Operation::BeginSync(from, to) => (from, to.min(length)),
            _ => return None,
        };
        Some(start + from..start + to)
    }

    /// Reads a range that lies in one file.
    fn content(&self, start: u64, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let file = fs::File::open(self.path_of(start))?;
        file.read_exact_at(&mut bytes, range.start - start)?;
        Ok(bytes)
    }

    /// Returns the final path of a file, which may have been opened before it was renamed.
    fn path_of(&self, start: u64) -> PathBuf {
        self.directory.join(file_name(start))
    }
}

impl IoHook for LogHook {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let Some(kind) = Kind::of(operation) else {
            return Ok(0);
        };
        self.gate(kind).pass();
        let mut state = self.state.lock();
        if let Some((failing, error_number)) = state.failing
            && failing == kind
        {
            return Err(io::Error::from_raw_os_error(error_number));
        }
        if kind == Kind::Sync
            && let Some(start) = start_of(target.path)
            && let Some(range) = self.range(target, operation)
        {
            state.syncs += 1;
            if state.syncs <= state.syncs_max {
                let bytes = self.content(start, &range)?;
                state.durable.push((range.start, bytes));
            }
        }
        Ok(0)
    }

    fn after(&self, target: Target<'_>, operation: &Operation<'_>, _began: u64) {
        let range = self.range(target, operation);
        if let (Some(kind), Some(range)) = (Kind::of(operation), range) {
            self.state
                .lock()
                .events
                .push((kind, range.start, range.end));
        }
    }
}

/// Files of a log in their own directory, in memory if /dev/shm exists.
#[derive(Debug)]
pub struct TestDisk {
    root: TempDir,
    /// Delays, fails and records operations on the files.
    pub hook: Arc<LogHook>,
    _watch: Watch,
}

impl TestDisk {
    /// An empty log.
    #[allow(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let root = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        }
        .unwrap();
        let hook = LogHook::of(&root.path().join(LOG));
        let _watch = watch(root.path(), Arc::clone(&hook) as Arc<dyn IoHook>);
        Self { root, hook, _watch }
    }

    /// Opens the directory of the files.
    pub fn files(&self) -> Directory {
        let [log, workshop] = [LOG, "workshop"].map(|name| self.root.path().join(name));
        Directory::open(&log, &workshop, WriteMode::Map).unwrap()
    }

    /// Adds a file.
    pub fn put_file(&self, start: u64, content: &[u8]) {
        self.files();
        fs::write(self.hook.path_of(start), content).unwrap();
    }

    /// Returns the disk after a crash: every name is kept, but only synced bytes.
    pub fn after_crash(&self) -> Self {
        let crashed = Self::new();
        let durable = self.hook.state.lock().durable.clone();
        for file in self.files().list().unwrap() {
            let mut content = vec![0; file.length as usize];
            for (offset, bytes) in &durable {
                if let Some(at) = offset.checked_sub(file.start)
                    && at < file.length
                {
                    content[at as usize..][..bytes.len()].copy_from_slice(bytes);
                }
            }
            crashed.put_file(file.start, &content);
        }
        crashed
    }
}
