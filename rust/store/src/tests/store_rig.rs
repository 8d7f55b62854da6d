//! A real store with small files in a temporary directory, with a clock that the test sets.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tempfile::TempDir;

use super::test_rig::request;
use crate::filter::MessageFilter;
use crate::settings::Settings;
use crate::store::Store;
use crate::types::{Cleaned, GetRequest, GetStatus, PutRequest, PutStatus, ReadMode};
use mq_base::clock::ManualClock;

pub(crate) const LOG_FILE: u64 = 16 << 10;
const QUEUE_UNITS: u64 = 10;
pub(crate) const HOUR_MS: i64 = 3_600_000;
/// Each log file holds one message of this size and one blank record.
pub(crate) const BODY: [u8; 9_000] = [b'x'; 9_000];
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// End of each message of topic T that became readable, and the readers' maximum at that time.
pub(crate) type Told = Arc<Mutex<Vec<(i64, i64)>>>;

/// A store under test. The rig's `request` puts into queue 1.
pub(crate) struct Rig {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) settings: Settings,
    pub(crate) root: TempDir,
}

pub(crate) fn settings() -> Settings {
    Settings {
        commit_log_file_bytes: Some(LOG_FILE),
        consume_queue_file_bytes: Some(QUEUE_UNITS * 20),
        index_slots: Some(10),
        index_entries: Some(8),
        allocate_step_bytes: LOG_FILE,
        min_free_bytes: Some(0),
        ..Settings::default()
    }
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

pub(crate) fn rig_with(settings: Settings) -> Rig {
    let root = tempfile::tempdir().unwrap();
    // Files on the disk have real times.
    let clock = ManualClock::at(now_ms());
    let store = Store::open(root.path(), settings.clone(), clock.clone(), true).unwrap();
    Rig {
        store,
        clock,
        settings,
        root,
    }
}

pub(crate) fn rig() -> Rig {
    rig_with(settings())
}

impl Rig {
    /// Registers a listener for messages in queue 1 of topic T.
    pub(crate) fn tell(&self) -> Told {
        let told = Told::default();
        let (seen, store) = (Arc::clone(&told), Arc::downgrade(&self.store));
        self.store
            .on_arrival(Box::new(move |arrivals| {
                let readable_to = store.upgrade().unwrap().max_offset("T", 1);
                let ends = arrivals.iter().map(|arrival| arrival.max_offset);
                seen.lock().extend(ends.map(|end| (end, readable_to)));
            }))
            .unwrap();
        told
    }

    /// Puts messages with a key each. One message fills a log file.
    pub(crate) fn put(&self, topic: &str, count: usize) {
        let first = self.store.max_offset(topic, 1);
        for at in first..first + count as i64 {
            let key = format!("KEYS\x01k{at}");
            let request = PutRequest {
                properties: key.as_bytes(),
                ..request(topic, &BODY)
            };
            let put = self.store.put(&request);
            assert_eq!(self.store.wait(put).status, PutStatus::Ok);
        }
        self.wait_until_flushed();
    }

    /// Waits until everything is dispatched and flushed.
    pub(crate) fn wait_until_flushed(&self) {
        self.wait_until_dispatched();
        self.store.flush().unwrap();
    }

    pub(crate) fn wait_until_dispatched(&self) {
        let end = self.store.log.max_offset();
        let until = Instant::now() + PATIENCE;
        while self.store.dispatcher.progress().dispatched() < end {
            assert!(Instant::now() < until, "dispatch hangs");
            std::thread::yield_now();
        }
    }

    /// One run of the cleaner, as its thread does it, and its pauses.
    pub(crate) fn run(&self) -> (Cleaned, Vec<Duration>) {
        let pauses = std::cell::RefCell::new(Vec::new());
        let cleaned = self.store.cleaner.run(&|pause| {
            pauses.borrow_mut().push(pause);
            true
        });
        (cleaned, pauses.into_inner())
    }

    /// Files of the log that begin below its end: the next one may be prepared beside them.
    pub(crate) fn log_files(&self) -> usize {
        let end = self.store.log.max_offset();
        let start = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
        let starts = self
            .files("commitlog")
            .into_iter()
            .filter_map(|path| start(&path));
        starts.filter(|start: &u64| *start < end).count()
    }

    pub(crate) fn files(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.path().join(directory)).unwrap();
        let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    }

    pub(crate) fn set_modified(&self, file: usize, wall_ms: i64) {
        let file = File::options()
            .write(true)
            .open(&self.files("commitlog")[file]);
        let time = UNIX_EPOCH + Duration::from_millis(wall_ms.unsigned_abs());
        file.unwrap().set_modified(time).unwrap();
    }

    pub(crate) fn get(&self, offset: i64) -> (GetStatus, i64) {
        let request = GetRequest {
            topic: "T",
            queue_id: 1,
            offset,
            max_count: 1,
            filter: &MessageFilter::All,
            mode: ReadMode::Wait,
        };
        let got = self.store.get(&request, &mut Vec::new()).unwrap();
        (got.status, got.next_begin_offset)
    }

    pub(crate) fn bounds(&self) -> (i64, i64) {
        let store = &self.store;
        (store.min_offset("T", 1), store.max_offset("T", 1))
    }

    /// Closes and opens the store again, after a crash if `is_crash`.
    pub(crate) fn reopen(self, is_crash: bool) -> Self {
        let copy = tempfile::tempdir().unwrap();
        let root = if is_crash {
            copy_tree(self.root.path(), copy.path());
            copy
        } else {
            self.store.close().unwrap();
            self.root
        };
        let Self {
            store,
            clock,
            settings,
            ..
        } = self;
        drop(store);
        let store = Store::open(root.path(), settings.clone(), clock.clone(), false).unwrap();
        Self {
            store,
            clock,
            settings,
            root,
        }
    }
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
