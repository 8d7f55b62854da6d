//! Parts shared by the benches: sizes of runs, a store, and messages.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "each bench uses a part; a failed bench panics"
)]

pub mod flushing;
#[path = "../../tests/common/mod.rs"]
mod request;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mq_base::clock::SystemClock;
use mq_store::{Put, PutRequest, PutStatus, Settings, Store};
use tempfile::TempDir;

pub const BODY: [u8; 1024] = [b'x'; 1024];
pub const TOPIC: &str = "BenchmarkTest";
pub const PROPERTIES: &[u8] = b"TAGS\x01TagA";

/// Whether this is a measurement (`cargo bench`), not a smoke test.
pub fn is_measured() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// `large` in a measurement, `smoke` otherwise.
pub fn sized(large: u64, smoke: u64) -> u64 {
    if is_measured() { large } else { smoke }
}

/// A directory on the measured disk: in `MQSTACK_BENCH_ROOT`, by default in the system's temporary
/// directory. Removed when dropped.
pub fn directory() -> TempDir {
    let root =
        std::env::var_os("MQSTACK_BENCH_ROOT").map_or_else(std::env::temp_dir, PathBuf::from);
    tempfile::Builder::new()
        .prefix("mqstack-bench-")
        .tempdir_in(root)
        .unwrap()
}

pub fn open(root: &Path, settings: Settings) -> Arc<Store> {
    Store::open(root, settings, SystemClock::shared(), true).unwrap()
}

/// Settings that refuse nothing, with small files for everything but the log.
pub fn settings(log_file_bytes: u64) -> Settings {
    Settings {
        commit_log_file_bytes: Some(log_file_bytes),
        min_free_bytes: Some(0),
        index_enabled: false,
        ..Settings::default()
    }
}

pub fn message<'a>(topic: &'a str, body: &'a [u8], properties: &'a [u8]) -> PutRequest<'a> {
    PutRequest {
        properties,
        ..request::request(topic, body)
    }
}

/// Stores a message without waiting.
pub fn put(store: &Store, request: &PutRequest<'_>) {
    match store.put(request) {
        Put::Done(result) if result.status == PutStatus::Ok => {}
        other => panic!("{other:?}: {:?}", store.refusal()),
    }
}

/// Waits until dispatch has reached the end of the log.
pub fn await_dispatch(store: &Store) {
    while store.runtime()["dispatchBehindBytes"] != "0" {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Removes the record of the clean stop, so that the next open checks the log.
pub fn forget_close(root: &Path) {
    let _ = std::fs::remove_dir_all(root.join("mqstack"));
}
