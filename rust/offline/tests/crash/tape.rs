//! Records a store's operations on its directory.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mq_log::{IoHook, Operation, Target, Watch, watch};
use parking_lot::Mutex;

/// A file or a directory. We number files ourselves because the kernel reuses inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    File(u64),
    Directory,
}

/// One operation; operations are ordered by their ends. Paths are relative to the root.
#[derive(Debug, Clone)]
pub enum Event {
    /// A new file, or an existing one truncated to nothing, which gets a new number.
    Create {
        path: PathBuf,
        file: u64,
    },
    Write {
        file: u64,
        offset: u64,
        bytes: Vec<u8>,
    },
    Zero {
        file: u64,
        from: u64,
        to: u64,
    },
    SetLength {
        file: u64,
        length: u64,
    },
    /// Covers operations that ended before the event with number `began`.
    Sync {
        file: u64,
        from: u64,
        to: u64,
        began: usize,
        is_lost: bool,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    CreateDirectory {
        path: PathBuf,
    },
    SyncDirectory {
        path: PathBuf,
        began: usize,
    },
}

/// A directory tree, completely durable.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    pub names: Vec<(PathBuf, Node)>,
    pub contents: HashMap<u64, Vec<u8>>,
}

/// The recorded operations so far.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    pub start: Tree,
    pub events: Vec<Event>,
}

#[derive(Debug, Default)]
struct State {
    recording: Recording,
    numbers: HashMap<u64, u64>,
    last_number: u64,
}

/// Records the operations below a root.
#[derive(Debug)]
pub struct Recorder {
    root: PathBuf,
    state: Mutex<State>,
}

impl Recorder {
    /// A recorder for `root`, which must exist and not change during this call.
    pub fn new(root: &Path) -> Arc<Self> {
        let mut state = State::default();
        state.load(root, Path::new(""));
        Arc::new(Self {
            root: root.to_owned(),
            state: Mutex::new(state),
        })
    }

    /// Starts recording. Recording ends when the watch is dropped and the store is closed.
    pub fn start(root: &Path) -> (Arc<Self>, Watch) {
        let recorder = Self::new(root);
        let watched = watch(root, Arc::clone(&recorder) as Arc<dyn IoHook>);
        (recorder, watched)
    }

    /// Number of operations that have ended.
    pub fn position(&self) -> usize {
        self.state.lock().recording.events.len()
    }

    pub fn recording(&self) -> Recording {
        self.state.lock().recording.clone()
    }

    /// A failed sync: the kernel may have dropped the dirty pages and marked them clean.
    pub fn lose(&self, target: Target<'_>, from: u64, to: u64) {
        let mut state = self.state.lock();
        let (file, began) = (state.number(target.file), state.recording.events.len());
        let is_lost = true;
        state.recording.events.push(Event::Sync {
            file,
            from,
            to,
            began,
            is_lost,
        });
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap().to_owned()
    }
}

impl State {
    fn number(&self, inode: u64) -> u64 {
        self.numbers[&inode]
    }

    fn new_number(&mut self, inode: u64) -> u64 {
        self.last_number += 1;
        self.numbers.insert(inode, self.last_number);
        self.last_number
    }

    fn load(&mut self, root: &Path, directory: &Path) {
        let mut entries: Vec<_> = fs::read_dir(root.join(directory)).unwrap().collect();
        entries.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
        for entry in entries {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                let start = &mut self.recording.start;
                start.names.push((path.clone(), Node::Directory));
                self.load(root, &path);
                continue;
            }
            let file = self.new_number(metadata.ino());
            let start = &mut self.recording.start;
            start.names.push((path, Node::File(file)));
            start.contents.insert(file, fs::read(entry.path()).unwrap());
        }
    }
}

impl IoHook for Recorder {
    fn before(&self, _target: Target<'_>, _operation: &Operation<'_>) -> io::Result<u64> {
        Ok(self.position() as u64)
    }

    fn after(&self, target: Target<'_>, operation: &Operation<'_>, began: u64) {
        let path = self.relative(target.path);
        let mut state = self.state.lock();
        let began = began as usize;
        if let Operation::Create = operation {
            let file = state.new_number(target.file);
            state.recording.events.push(Event::Create { path, file });
            return;
        }
        let file = match target.file {
            0 => 0,
            inode => state.numbers.get(&inode).copied().unwrap_or(0),
        };
        let event = match *operation {
            Operation::Write(offset, slices) => Event::Write {
                file,
                offset,
                bytes: slices.concat(),
            },
            Operation::Zero(from, to) => Event::Zero { file, from, to },
            Operation::SetLength(length) => Event::SetLength { file, length },
            Operation::Sync(from, to) => Event::Sync {
                file,
                from,
                to,
                began,
                is_lost: false,
            },
            Operation::Rename(to) => Event::Rename {
                from: path,
                to: self.relative(to),
            },
            Operation::Link(to) => Event::Link {
                from: path,
                to: self.relative(to),
            },
            Operation::Remove => Event::Remove { path },
            Operation::CreateDirectory => Event::CreateDirectory { path },
            Operation::SyncDirectory => Event::SyncDirectory { path, began },
            _ => return,
        };
        state.recording.events.push(event);
    }
}
