//! A closed store for tests that damage its log and start it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use mq_base::clock::{ManualClock, SystemClock};
use mq_format::message::{CheckCrc, RecordView};
use mq_offline::Scan;
use mq_store::inspect::LogFacts;
use mq_store::testing::request;
use mq_store::{
    GetRequest, GetStatus, MessageFilter, PutRequest, PutStatus, ReadMode, Settings, Store,
    StoreError,
};
use mq_testing::stores::directory;

pub const LOG_FILE: u64 = 16 << 10;
const MESSAGES: usize = 30;
/// Position of the body in a record with IPv4 hosts.
pub const BODY_AT: u64 = 88;

/// A message that was put to topic T.
#[derive(Debug, Clone)]
pub struct Sent {
    pub queue_id: i32,
    pub queue_offset: i64,
    /// Position of its record in the log.
    pub range: Range<u64>,
    pub body: Vec<u8>,
}

/// Bodies by queue and queue offset.
pub type Found = BTreeMap<(i32, i64), Vec<u8>>;

/// Settings of a store with small files.
pub fn settings() -> Settings {
    Settings {
        commit_log_file_bytes: Some(LOG_FILE),
        consume_queue_file_bytes: Some(200),
        index_slots: Some(10),
        index_entries: Some(8),
        allocate_step_bytes: LOG_FILE,
        min_free_bytes: Some(0),
        ..Settings::default()
    }
}

/// A closed store of several log files.
pub struct Patient {
    pub root: TempDir,
    pub settings: Settings,
    pub clock: Arc<ManualClock>,
    pub sent: Arc<Vec<Sent>>,
    /// End of the log.
    pub end: u64,
}

impl Patient {
    /// A store with messages of many lengths in two queues.
    pub fn new() -> Self {
        Self::filled(|store, clock| {
            let mut sent = Vec::new();
            for at in 0..MESSAGES {
                clock.advance(1_000);
                let body = vec![b'A' + (at % 26) as u8; 100 + at * 1_237 % 5_000];
                let key = format!("KEYS\x01k{at}");
                let put = store.put(&PutRequest {
                    queue_id: (at % 2) as i32,
                    properties: key.as_bytes(),
                    ..request("T", &body)
                });
                let put = store.wait(put);
                assert_eq!(put.status, PutStatus::Ok);
                let from = put.physical_offset.cast_unsigned();
                sent.push(Sent {
                    queue_id: (at % 2) as i32,
                    queue_offset: put.queue_offset,
                    range: from..from + u64::try_from(put.size_bytes).unwrap(),
                    body,
                });
            }
            sent
        })
    }

    /// A closed store with messages from `fill`.
    pub fn filled(fill: impl FnOnce(&Store, &ManualClock) -> Vec<Sent>) -> Self {
        Self::filled_with(settings(), fill)
    }

    /// Like `filled`, with other settings.
    pub fn filled_with(
        settings: Settings,
        fill: impl FnOnce(&Store, &ManualClock) -> Vec<Sent>,
    ) -> Self {
        let root = directory();
        // Files have real modification times, so the clock starts at the real time.
        let clock = ManualClock::at(SystemClock::shared().wall_ms());
        let store = Store::open(root.path(), settings.clone(), clock.clone(), true).unwrap();
        let sent = fill(&store, &clock);
        let end = store.max_physical_offset().cast_unsigned();
        store.close().unwrap();
        Self {
            root,
            settings,
            clock,
            sent: Arc::new(sent),
            end,
        }
    }

    /// A copy of the store in another directory.
    pub fn copy(&self) -> Self {
        let root = directory();
        copy_tree(self.root.path(), root.path());
        Self {
            root,
            settings: self.settings.clone(),
            clock: Arc::clone(&self.clock),
            sent: Arc::clone(&self.sent),
            end: self.end,
        }
    }

    /// Makes the store look as if it had been killed.
    pub fn leave_open(&self) {
        fs::write(self.root.path().join("abort"), b"").unwrap();
        fs::remove_file(self.root.path().join("mqstack/closed.json")).unwrap();
    }

    pub fn file(&self, start: u64) -> PathBuf {
        self.root.path().join(format!("commitlog/{start:020}"))
    }

    /// Start of the last log file with records.
    pub fn last_file(&self) -> u64 {
        (self.end - 1) / LOG_FILE * LOG_FILE
    }

    /// Overwrites bytes of the log; they must be in one file.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let path = self.file(at - at % LOG_FILE);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(bytes, at % LOG_FILE).unwrap();
    }

    pub fn flip(&self, at: u64, bit: u8) {
        let path = self.file(at - at % LOG_FILE);
        let mut byte = [0];
        let file = fs::File::open(path).unwrap();
        // A truncated byte has no bits to flip.
        if file.read_exact_at(&mut byte, at % LOG_FILE).is_ok() {
            self.write(at, &[byte[0] ^ 1 << bit]);
        }
    }

    /// Truncates the file that starts at `start`.
    pub fn cut(&self, start: u64, bytes: u64) {
        let file = fs::File::options().write(true).open(self.file(start));
        file.unwrap().set_len(bytes).unwrap();
    }

    /// The content of the log, with zeros for missing parts of files.
    pub fn log(&self) -> Vec<u8> {
        let mut log = Vec::new();
        for start in (0..self.end).step_by(LOG_FILE as usize) {
            let mut file = fs::read(self.file(start)).unwrap_or_default();
            file.resize(LOG_FILE as usize, 0);
            log.extend(file);
        }
        log
    }

    pub fn try_open(&self) -> Result<Arc<Store>, StoreError> {
        let clock = Arc::clone(&self.clock);
        Store::open(self.root.path(), self.settings.clone(), clock, false)
    }

    pub fn open(&self) -> Arc<Store> {
        self.try_open().unwrap()
    }

    /// Number of messages in a queue.
    pub fn count(&self, queue_id: i32) -> i64 {
        let is_in = |sent: &&Sent| sent.queue_id == queue_id;
        self.sent.iter().filter(is_in).count() as i64
    }

    /// Checks that no queue offset is reused, and that new messages are appended after the recorded
    /// end.
    pub fn assert_goes_on(&self, store: &Store) {
        for queue_id in [0, 1] {
            let next = self.count(queue_id);
            assert_eq!(store.max_offset("T", queue_id), next, "queue {queue_id}");
            let put = store.put(&PutRequest {
                queue_id,
                ..request("T", b"new")
            });
            let put = store.wait(put);
            assert_eq!((put.status, put.queue_offset), (PutStatus::Ok, next));
            assert!(put.physical_offset.cast_unsigned() >= self.end);
        }
    }

    /// The quarantined ranges of the log.
    pub fn quarantine(&self) -> Vec<Range<u64>> {
        let directory = self.root.path().join("mqstack/quarantine");
        let entries = fs::read_dir(directory).into_iter().flatten();
        let range = |name: String| {
            let (from, to) = name.split_once('-').unwrap();
            from.parse().unwrap()..to.parse().unwrap()
        };
        entries
            .map(|entry| range(entry.unwrap().file_name().into_string().unwrap()))
            .collect()
    }

    pub fn assert_verified(&self) {
        let report = Scan::open(self.root.path()).unwrap();
        let report = report.verify(&mut |_| true).unwrap();
        assert_eq!(report.findings, []);
        assert!(LogFacts::read(self.root.path()).unwrap().is_complete());
    }
}

/// Number of damaged ranges that the start of a store repaired.
pub fn repaired(store: &Store) -> usize {
    store.runtime()["repairedDamages"].parse().unwrap()
}

pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_tree(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// All messages that the two queues deliver; each must be in its place.
pub fn delivered(store: &Store, patient: &Patient) -> Found {
    let mut found = Found::new();
    for queue_id in [0, 1] {
        let mut offset = store.min_offset("T", queue_id);
        while offset < patient.count(queue_id) {
            let (mut out, all) = (Vec::new(), MessageFilter::All);
            let request = GetRequest {
                topic: "T",
                queue_id,
                offset,
                max_count: 1,
                filter: &all,
                mode: ReadMode::Wait,
            };
            let got = store.get(&request, &mut out).unwrap();
            assert!(got.next_begin_offset > offset, "{got:?}");
            offset = got.next_begin_offset;
            if got.status != GetStatus::Found {
                continue;
            }
            let record = RecordView::parse(&out, CheckCrc::Yes).unwrap();
            if record.queue_offset < patient.count(queue_id) {
                let place = (queue_id, record.queue_offset);
                assert_eq!(found.insert(place, record.body.to_vec()), None);
            }
        }
    }
    let is_sent = |((queue_id, offset), body): (&(i32, i64), &Vec<u8>)| {
        let mut sent = patient.sent.iter();
        sent.any(|sent| {
            (sent.queue_id, sent.queue_offset) == (*queue_id, *offset) && sent.body == *body
        })
    };
    assert!(found.iter().all(is_sent), "a damaged or a strange body");
    found
}
