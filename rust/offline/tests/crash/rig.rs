//! Small stores, their messages, and helpers that read them back.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use mq_base::clock::{Clock, SystemClock};
use mq_format::message::{CheckCrc, RecordView, sys_flag};
use mq_format::properties;
use mq_store::{
    GetRequest, GetStatus, MessageFilter, PutRequest, PutResult, ReadMode, Role, Settings, Store,
    StoreError,
};

use crate::oracle::{Verdict, ensure};

pub const TOPICS: [&str; 2] = ["TopicA", "TopicB"];
pub const QUEUES: i32 = 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// How the stores of a test are opened.
#[derive(Debug, Clone, Copy)]
pub struct Rig {
    pub sync_flush: bool,
    pub log_file_bytes: u64,
    pub queue_file_bytes: u64,
    pub index_entries: u32,
    /// Milliseconds by which each read of the wall clock advances it.
    pub tick_ms: i64,
    pub role: Role,
}

impl Rig {
    pub fn new(sync_flush: bool, log_file_bytes: u64) -> Self {
        Self {
            sync_flush,
            log_file_bytes,
            queue_file_bytes: 400,
            index_entries: 60,
            tick_ms: 1,
            role: Role::Master,
        }
    }

    /// The same in another role.
    pub fn of(self, role: Role) -> Self {
        Self { role, ..self }
    }

    pub fn settings(&self) -> Settings {
        Settings {
            commit_log_file_bytes: Some(self.log_file_bytes),
            consume_queue_file_bytes: Some(self.queue_file_bytes),
            index_slots: Some(self.index_entries / 4),
            index_entries: Some(self.index_entries),
            allocate_step_bytes: 4096,
            min_free_bytes: Some(0),
            sync_flush: self.sync_flush,
            flush_interval_ms: 10,
            role: self.role,
            ..Settings::default()
        }
    }

    pub fn try_open(&self, root: &Path) -> Verdict<Arc<Store>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let clock = TickingClock::shared(self.tick_ms);
            match Store::open(root, self.settings(), clock, true) {
                // A child process that another test is starting still holds our lock file open
                // until its exec.
                Err(StoreError::Locked { .. }) if Instant::now() < deadline => {
                    std::thread::yield_now();
                }
                opened => return opened.map_err(|error| format!("open: {error}")),
            }
        }
    }

    pub fn open(&self, root: &Path) -> Arc<Store> {
        self.try_open(root).unwrap()
    }
}

/// A wall clock that each read advances, so that a checkpoint advances by seconds in a short test.
struct TickingClock {
    system: Arc<dyn Clock>,
    tick_ms: i64,
}

/// Shared, so that time never goes backward between stores of this process.
static TICKS_MS: AtomicI64 = AtomicI64::new(0);

impl TickingClock {
    fn shared(tick_ms: i64) -> Arc<dyn Clock> {
        let system = SystemClock::shared();
        Arc::new(Self { system, tick_ms })
    }
}

impl Clock for TickingClock {
    fn wall_ms(&self) -> i64 {
        self.system.wall_ms() + TICKS_MS.fetch_add(self.tick_ms, Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> i64 {
        self.system.monotonic_ms()
    }
}

/// A message to put.
#[derive(Debug, Clone)]
pub struct Message {
    pub key: String,
    pub topic: &'static str,
    pub queue_id: i32,
    pub body: Vec<u8>,
    pub sys_flag: i32,
}

impl Message {
    pub fn new(key: &str, topic: &'static str, queue_id: i32, body: Vec<u8>) -> Self {
        Self {
            key: key.into(),
            topic,
            queue_id,
            body,
            sys_flag: 0,
        }
    }

    pub fn is_queued(&self) -> bool {
        sys_flag::is_queued(self.sys_flag)
    }

    pub fn properties(&self) -> String {
        format!("UNIQ_KEY\x01{}\x02TAGS\x01TagA", self.key)
    }

    pub fn request<'a>(&'a self, properties: &'a str) -> PutRequest<'a> {
        PutRequest {
            topic: self.topic,
            queue_id: self.queue_id,
            flag: 0,
            sys_flag: self.sys_flag,
            born_timestamp_ms: 1,
            born_host: "127.0.0.1:1".parse().unwrap(),
            store_host: "127.0.0.1:10911".parse().unwrap(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &self.body,
            properties: properties.as_bytes(),
            wait_store_ok: true,
            delay_level: 0,
            was_accepted: false,
        }
    }
}

/// Puts a message and waits until it is as durable as configured.
pub fn put(store: &Store, message: &Message) -> PutResult {
    let properties = message.properties();
    let put = store.put(&message.request(&properties));
    store.wait(put)
}

/// Puts messages of one queue as a batch.
pub fn put_batch(store: &Store, messages: &[Message]) -> PutResult {
    let body: Vec<u8> = messages.iter().flat_map(batch_part).collect();
    let batch = Message {
        body,
        ..messages[0].clone()
    };
    let put = store.put_batch(&batch.request(""));
    store.wait(put)
}

/// The encoding of a message in a batch.
fn batch_part(message: &Message) -> Vec<u8> {
    let properties = message.properties();
    let total = 22 + message.body.len() + properties.len();
    let mut part = Vec::with_capacity(total);
    part.extend((total as i32).to_be_bytes());
    part.extend([0; 12]);
    part.extend((message.body.len() as i32).to_be_bytes());
    part.extend(&message.body);
    part.extend((properties.len() as i16).to_be_bytes());
    part.extend(properties.as_bytes());
    part
}

/// A delivered message.
#[derive(Debug, Clone)]
pub struct Stored {
    pub key: String,
    pub queue_offset: i64,
    pub physical_offset: i64,
    pub body: Vec<u8>,
}

/// The unique key of a record.
pub fn key_of(record: &RecordView<'_>) -> String {
    let key = properties::get_str(record.properties, properties::UNIQ_KEY);
    key.map_or_else(|| format!("(no key: {record:?})"), Into::into)
}

/// All messages that a queue delivers. Each record must be whole and at its offset.
pub fn drain(store: &Store, topic: &str, queue_id: i32) -> Verdict<Vec<Stored>> {
    let (mut offset, end) = (
        store.min_offset(topic, queue_id),
        store.max_offset(topic, queue_id),
    );
    let mut found = Vec::new();
    while offset < end {
        let mut out = Vec::new();
        let request = GetRequest {
            topic,
            queue_id,
            offset,
            max_count: 32,
            filter: &MessageFilter::All,
            mode: ReadMode::Wait,
        };
        let got = store.get(&request, &mut out);
        let got = got.map_err(|_| "a read that may wait would block".to_owned())?;
        ensure!(
            got.next_begin_offset > offset,
            "{topic}/{queue_id} does not go on at {offset}: {got:?}"
        );
        let mut rest = &out[..];
        let mut expected = offset;
        while !rest.is_empty() {
            let record = RecordView::parse(rest, CheckCrc::Yes);
            let record = record.map_err(|error| format!("{topic}/{queue_id}: {error}"))?;
            ensure!(
                record.queue_offset >= expected && record.topic == topic,
                "{topic}/{queue_id} delivers {record:?} at {expected}"
            );
            expected = record.queue_offset + 1;
            found.push(Stored {
                key: key_of(&record),
                queue_offset: record.queue_offset,
                physical_offset: record.physical_offset,
                body: record.body.to_vec(),
            });
            rest = &rest[record.size()..];
        }
        ensure!(
            got.status != GetStatus::Found || !out.is_empty(),
            "{topic}/{queue_id} found nothing: {got:?}"
        );
        offset = got.next_begin_offset;
    }
    Ok(found)
}

/// Waits until a put message is dispatched.
pub fn wait_readable(store: &Store, result: &PutResult, topic: &str, queue_id: i32) -> Verdict {
    let deadline = Instant::now() + PATIENCE;
    let count = result.record_offsets.len() as i64;
    while store.max_offset(topic, queue_id) < result.queue_offset + count {
        ensure!(
            Instant::now() < deadline && store.refusal().is_none(),
            "{result:?} is not dispatched: {:?}",
            store.refusal()
        );
        std::thread::yield_now();
    }
    Ok(())
}

/// Copies a directory.
pub fn copy_tree(from: &Path, to: &Path) {
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&path, &target).unwrap();
    }
}

/// Every file below a directory.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}
