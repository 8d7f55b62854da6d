//! A disk under a test's control: real files of a log, in a directory of their own.
//!
//! A tape delays, fails and records what is done to them, and keeps what a crash would leave.

#![allow(clippy::unwrap_used, reason = "for tests: what fails ends the test")]

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
use super::tape::{Operation, Tape, Target, Watch, watch};

/// The folder of the files.
const LOG: &str = "commitlog";

/// Calls that wait while it is closed.
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
    /// Lets nobody through from now on.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
    }

    /// Lets everybody through.
    pub fn open(&self) {
        self.state.lock().is_closed = false;
        self.changed.notify_all();
    }

    /// Calls that hang at it now.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Calls that went through.
    pub fn passed(&self) -> usize {
        self.state.lock().passed
    }

    /// Goes through, once the gate is open.
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

/// Operations that a test delays, fails or records together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Making a file, reserving its blocks, warming its pages.
    Room,
    /// Writing.
    Write,
    /// Making what was written durable.
    Sync,
    /// Having the disk begin with that.
    BeginSync,
    /// Removing a file.
    Remove,
    /// Giving a file its name.
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

/// Something that was done to a range of the log. Offsets are bytes from the start of the log.
pub type Event = (Kind, u64, u64);

/// The tape of a directory of log files.
#[derive(Debug)]
pub struct LogTape {
    directory: PathBuf,
    gates: [Gate; 6],
    state: Mutex<TapeState>,
}

#[derive(Debug)]
struct TapeState {
    /// What fails, and with which error number.
    failing: Option<(Kind, i32)>,
    events: Vec<Event>,
    /// How many syncs there were, and how many of them count.
    syncs: usize,
    syncs_max: usize,
    /// What the syncs that count have made durable, in their order: log offset and bytes.
    durable: Vec<(u64, Vec<u8>)>,
}

impl LogTape {
    /// For the files in `directory`.
    pub fn of(directory: &Path) -> Arc<Self> {
        let state = TapeState {
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

    /// Where operations of a kind wait.
    pub fn gate(&self, kind: Kind) -> &Gate {
        &self.gates[kind as usize]
    }

    /// Fails operations of a kind, and no others, from now on.
    pub fn fail(&self, kind: Kind, error_number: i32) {
        self.state.lock().failing = Some((kind, error_number));
    }

    /// Fails nothing any more.
    pub fn repair(&self) {
        self.state.lock().failing = None;
    }

    /// What was written and synced since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.state.lock().events)
    }

    /// Lets only the first `count` syncs count; later ones succeed and keep nothing.
    pub fn freeze_after(&self, count: usize) {
        self.state.lock().syncs_max = count;
    }

    /// Syncs so far, whether they count or not.
    pub fn syncs(&self) -> usize {
        self.state.lock().syncs
    }

    /// The range of the log that an operation on one of its files covers, as far as the file goes.
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

    /// The bytes of a range that lies in one file.
    fn content(&self, start: u64, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let file = fs::File::open(self.path_of(start))?;
        file.read_exact_at(&mut bytes, range.start - start)?;
        Ok(bytes)
    }

    /// A file may have been opened before it got its name.
    fn path_of(&self, start: u64) -> PathBuf {
        self.directory.join(file_name(start))
    }
}

impl Tape for LogTape {
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

/// Files of a log in a directory of their own, in memory where there is a file system for that.
#[derive(Debug)]
pub struct TestDisk {
    root: TempDir,
    /// Delays, fails and records what is done to the files.
    pub tape: Arc<LogTape>,
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
        let tape = LogTape::of(&root.path().join(LOG));
        let _watch = watch(root.path(), Arc::clone(&tape) as Arc<dyn Tape>);
        Self { root, tape, _watch }
    }

    /// The directory of the files.
    pub fn files(&self) -> Directory {
        let [log, workshop] = [LOG, "workshop"].map(|name| self.root.path().join(name));
        Directory::open(&log, &workshop, WriteMode::Map).unwrap()
    }

    /// Puts a file among them.
    pub fn put_file(&self, start: u64, content: &[u8]) {
        self.files();
        fs::write(self.tape.path_of(start), content).unwrap();
    }

    /// What a crash would leave now: of the bytes only those that were synced, and every name.
    pub fn after_crash(&self) -> Self {
        let crashed = Self::new();
        let durable = self.tape.state.lock().durable.clone();
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
