//! What the crash tests share: a small store, a message, its body read back.

#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part")]

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use mq_base::clock::SystemClock;
use mq_format::message::{CheckCrc, RecordView};
use mq_store::{GetRequest, GetStatus, PutRequest, ReadMode, Settings, Store, TagFilter};

pub const TOPIC: &str = "TopicCrash";
pub const LOG_FILE_BYTES: u64 = 65_536;

pub fn open(root: &Path, sync_flush: bool) -> Arc<Store> {
    let settings = Settings {
        commit_log_file_bytes: Some(LOG_FILE_BYTES),
        consume_queue_file_bytes: Some(6_000),
        index_slots: Some(100),
        index_entries: Some(400),
        allocate_step_bytes: LOG_FILE_BYTES,
        min_free_bytes: Some(0),
        sync_flush,
        ..Settings::default()
    };
    Store::open(root, settings, SystemClock::shared(), true).unwrap()
}

pub fn message<'a>(queue_id: i32, body: &'a [u8], properties: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        topic: TOPIC,
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 1,
        born_host: "127.0.0.1:1".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
        wait_store_ok: true,
        delay_level: 0,
    }
}

/// A directory in memory where there is one: the tests sync a lot and the power stays on.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        return tempfile::tempdir_in(memory).unwrap();
    }
    tempfile::tempdir().unwrap()
}

/// Bodies of a queue, in order; every record must be whole.
pub fn bodies(store: &Store, queue_id: i32) -> Vec<Vec<u8>> {
    let (mut offset, mut found) = (0, Vec::new());
    loop {
        let mut out = Vec::new();
        let request = GetRequest {
            topic: TOPIC,
            queue_id,
            offset,
            max_count: 32,
            filter: &TagFilter::All,
            mode: ReadMode::Wait,
        };
        let got = store.get(&request, &mut out).unwrap();
        if got.status != GetStatus::Found {
            return found;
        }
        let mut rest = &out[..];
        while !rest.is_empty() {
            let record = RecordView::parse(rest, CheckCrc::Yes).unwrap();
            found.push(record.body.to_vec());
            rest = &rest[record.size()..];
        }
        offset = got.next_begin_offset;
    }
}
