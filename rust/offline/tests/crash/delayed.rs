//! Delayed messages that are overdue when a store is opened. The store is durably marked as open
//! before the delay thread appends them to their topic, and each message is delivered once.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_base::clock::{Clock, ManualClock};
use mq_log::{IoHook, Operation, Target, watch};
use mq_store::{PutRequest, PutStatus, Settings, Store, StoreError};
use mq_testing::stores::directory;
use tempfile::TempDir;

use crate::disk::{Disk, Names};
use crate::oracle::close;
use crate::random::Random;
use crate::rig::{Message, Rig, TOPICS, copy_tree, drain};
use crate::tape::{Event, Recorder, Recording};

const TOPIC: &str = TOPICS[0];
const DELAYED: i64 = 40;
const START_MS: i64 = 1_800_000_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// A closed store with messages that were due an hour ago.
struct Overdue {
    root: TempDir,
    settings: Settings,
    clock: Arc<ManualClock>,
}

impl Overdue {
    fn new() -> Self {
        let settings = Rig::new(true, 16 << 10).settings();
        let clock = ManualClock::at(START_MS);
        let overdue = Self {
            root: directory(),
            settings,
            clock,
        };
        let store = overdue.open(overdue.root.path()).unwrap();
        for number in 0..DELAYED {
            let message = Message::new(&format!("m{number}"), TOPIC, 0, vec![b'x'; 300]);
            let properties = message.properties();
            let put = store.put(&PutRequest {
                delay_level: 1,
                ..message.request(&properties)
            });
            assert_eq!(store.wait(put).status, PutStatus::Ok);
        }
        close(store).unwrap();
        overdue.clock.advance(3_600_000);
        overdue
    }

    fn open(&self, root: &Path) -> Result<Arc<Store>, StoreError> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Store::open(root, self.settings.clone(), clock, true)
    }

    /// Opens the store at `root`, waits until all messages are delivered, and checks that none came
    /// twice.
    fn assert_come_once(&self, root: &Path, context: &str) {
        let store = self.open(root).unwrap();
        wait_delivered(&store);
        close(Arc::clone(&store)).unwrap();
        let mut keys: Vec<_> = drain(&store, TOPIC, 0)
            .unwrap()
            .into_iter()
            .map(|m| m.key)
            .collect();
        keys.sort();
        keys.dedup();
        let came = (store.max_offset(TOPIC, 0), keys.len() as i64);
        assert_eq!(came, (DELAYED, DELAYED), "{context}");
    }
}

fn wait_delivered(store: &Store) {
    let deadline = Instant::now() + PATIENCE;
    while store.max_offset(TOPIC, 0) < DELAYED {
        assert!(Instant::now() < deadline, "not delivered");
        std::thread::yield_now();
    }
}

/// A disk that fails to create the file `abort`.
#[derive(Debug)]
struct NoAbort;

impl IoHook for NoAbort {
    fn before(&self, target: Target<'_>, operation: &Operation<'_>) -> io::Result<u64> {
        let is_abort = target.path.file_name().is_some_and(|name| name == "abort");
        match operation {
            Operation::Create if is_abort => Err(io::Error::from_raw_os_error(5)),
            _ => Ok(0),
        }
    }

    fn after(&self, _target: Target<'_>, _operation: &Operation<'_>, _began: u64) {}
}

fn log_bytes(root: &Path) -> Vec<u8> {
    let mut paths: Vec<_> = std::fs::read_dir(root.join("commitlog"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| std::fs::read(path).unwrap())
        .collect()
}

#[test]
fn a_store_that_cannot_be_marked_open_gets_no_message() {
    let overdue = Overdue::new();
    let before = log_bytes(overdue.root.path());
    let watched = watch(overdue.root.path(), Arc::new(NoAbort));
    assert!(overdue.open(overdue.root.path()).is_err());
    drop(watched);
    assert!(
        log_bytes(overdue.root.path()) == before,
        "a message was appended"
    );
    overdue.assert_come_once(overdue.root.path(), "after a failed start");
}

/// The event that durably marks the store as open, and the first write to a log file.
fn moments(recording: &Recording) -> (usize, usize) {
    let events = &recording.events;
    let made =
        |event: &Event| matches!(event, Event::Create { path, .. } if path == Path::new("abort"));
    let made = events.iter().position(made).expect("abort is made");
    let named = |event: &Event| match event {
        Event::SyncDirectory { path, began } => path.as_os_str().is_empty() && *began > made,
        _ => false,
    };
    let marked = events.iter().position(named).expect("its name is durable");
    let logs: Vec<u64> = log_files(recording);
    let is_append =
        |event: &Event| matches!(event, Event::Write { file, .. } if logs.contains(file));
    let appended = events.iter().position(is_append).expect("messages come");
    (marked, appended)
}

fn log_files(recording: &Recording) -> Vec<u64> {
    let of_log = |path: &Path| path.starts_with("commitlog");
    let names = recording.start.names.iter();
    names
        .filter_map(|(path, node)| match node {
            crate::tape::Node::File(file) if of_log(path) => Some(*file),
            _ => None,
        })
        .collect()
}

#[test]
fn delayed_messages_come_once_after_a_crash_before_an_append() {
    let overdue = Overdue::new();
    let root = directory();
    copy_tree(overdue.root.path(), root.path());
    let (tape, watched) = Recorder::start(root.path());
    let store = overdue.open(root.path()).unwrap();
    wait_delivered(&store);
    let recording = tape.recording();
    drop(watched);
    close(store).unwrap();
    let (marked, appended) = moments(&recording);
    assert!(
        marked < appended,
        "marked open at {marked}, appended at {appended}"
    );
    let mut random = Random::new(3);
    let mut disk = Disk::new(&recording);
    for (at, event) in recording.events[..appended].iter().enumerate() {
        disk.play(at, event);
        let image = directory();
        disk.image(image.path(), Names::Journal, &mut random);
        overdue.assert_come_once(image.path(), &format!("stopped behind {event:?}"));
    }
}
