//! A closed store whose log gets damaged, and what a start makes of it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::store_rig::{LOG_FILE, copy_tree, rig};
use super::test_rig::request;
use crate::directory::log_facts::LogFacts;
use crate::filter::TagFilter;
use crate::settings::Settings;
use crate::store::Store;
use crate::types::{GetRequest, GetStatus, PutRequest, PutStatus, ReadMode, StoreError};
use mq_base::clock::ManualClock;
use mq_format::message::{CheckCrc, RecordView};
use mq_offline::Scan;

const MESSAGES: usize = 30;
/// Where the body starts in a record with IPv4 hosts.
pub(crate) const BODY_AT: u64 = 88;

/// A message of topic T that was put.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) queue_id: i32,
    pub(crate) queue_offset: i64,
    /// Where its record is.
    pub(crate) range: Range<u64>,
    pub(crate) body: Vec<u8>,
}

/// Bodies by queue and queue offset.
pub(crate) type Found = BTreeMap<(i32, i64), Vec<u8>>;

/// A closed store of several files.
pub(crate) struct Patient {
    pub(crate) root: TempDir,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) sent: Arc<Vec<Sent>>,
    /// Where its log ends.
    pub(crate) end: u64,
}

impl Patient {
    pub(crate) fn new() -> Self {
        let rig = rig();
        let mut sent = Vec::new();
        for at in 0..MESSAGES {
            rig.clock.advance(1_000);
            let body = vec![b'A' + (at % 26) as u8; 100 + at * 1_237 % 5_000];
            let key = format!("KEYS\x01k{at}");
            let put = rig.store.put(&PutRequest {
                queue_id: (at % 2) as i32,
                properties: key.as_bytes(),
                ..request("T", &body)
            });
            let put = rig.store.wait(put);
            assert_eq!(put.status, PutStatus::Ok);
            let from = put.physical_offset.cast_unsigned();
            sent.push(Sent {
                queue_id: (at % 2) as i32,
                queue_offset: put.queue_offset,
                range: from..from + u64::try_from(put.size_bytes).unwrap(),
                body,
            });
        }
        rig.settle();
        let end = rig.store.log.max_offset();
        rig.store.close().unwrap();
        Self {
            root: rig.root,
            settings: rig.settings,
            clock: rig.clock,
            sent: Arc::new(sent),
            end,
        }
    }

    /// The same store in another directory, in memory where there is some.
    pub(crate) fn copy(&self) -> Self {
        let memory = Path::new("/dev/shm");
        let root = match memory.is_dir() {
            true => tempfile::tempdir_in(memory).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        copy_tree(self.root.path(), root.path());
        Self {
            root,
            settings: self.settings.clone(),
            clock: Arc::clone(&self.clock),
            sent: Arc::clone(&self.sent),
            end: self.end,
        }
    }

    /// Makes the store look like one that was killed.
    pub(crate) fn leave_open(&self) {
        fs::write(self.root.path().join("abort"), b"").unwrap();
        fs::remove_file(self.root.path().join("mqstack/closed.json")).unwrap();
    }

    pub(crate) fn file(&self, start: u64) -> PathBuf {
        self.root.path().join(format!("commitlog/{start:020}"))
    }

    /// Where the last of the log's files that hold records starts.
    pub(crate) fn last_file(&self) -> u64 {
        (self.end - 1) / LOG_FILE * LOG_FILE
    }

    /// Writes bytes that lie in one file over the log.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        let path = self.file(at - at % LOG_FILE);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(bytes, at % LOG_FILE).unwrap();
    }

    pub(crate) fn flip(&self, at: u64, bit: u8) {
        let path = self.file(at - at % LOG_FILE);
        let mut byte = [0];
        let file = fs::File::open(path).unwrap();
        // What was cut off has no bits.
        if file.read_exact_at(&mut byte, at % LOG_FILE).is_ok() {
            self.write(at, &[byte[0] ^ 1 << bit]);
        }
    }

    /// Cuts the file that starts there.
    pub(crate) fn cut(&self, start: u64, bytes: u64) {
        let file = fs::File::options().write(true).open(self.file(start));
        file.unwrap().set_len(bytes).unwrap();
    }

    /// The log as it reads, a missing part of a file as zeros.
    pub(crate) fn log(&self) -> Vec<u8> {
        let mut log = Vec::new();
        for start in (0..self.end).step_by(LOG_FILE as usize) {
            let mut file = fs::read(self.file(start)).unwrap_or_default();
            file.resize(LOG_FILE as usize, 0);
            log.extend(file);
        }
        log
    }

    pub(crate) fn try_open(&self) -> Result<Arc<Store>, StoreError> {
        let clock = Arc::clone(&self.clock);
        Store::open(self.root.path(), self.settings.clone(), clock, false)
    }

    pub(crate) fn open(&self) -> Arc<Store> {
        self.try_open().unwrap()
    }

    /// Messages of a queue.
    pub(crate) fn count(&self, queue_id: i32) -> i64 {
        let is_in = |sent: &&Sent| sent.queue_id == queue_id;
        self.sent.iter().filter(is_in).count() as i64
    }

    /// No queue offset was given again, and messages go on behind the recorded end.
    pub(crate) fn assert_goes_on(&self, store: &Store) {
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

    /// What is quarantined, as ranges of the log.
    pub(crate) fn quarantine(&self) -> Vec<Range<u64>> {
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

    pub(crate) fn assert_verified(&self) {
        let report = Scan::open(self.root.path()).unwrap();
        let report = report.verify(&mut |_| true).unwrap();
        assert_eq!(report.findings, []);
        assert!(LogFacts::read(self.root.path()).unwrap().is_settled());
    }
}

/// All that the two queues deliver of what was sent; each message in its place.
pub(crate) fn delivered(store: &Store, patient: &Patient) -> Found {
    let mut found = Found::new();
    for queue_id in [0, 1] {
        let mut offset = store.min_offset("T", queue_id);
        while offset < patient.count(queue_id) {
            let (mut out, all) = (Vec::new(), TagFilter::All);
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
