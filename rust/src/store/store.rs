//! Open, own, close: the only public type of the store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::types::{
    AckOutcome, Arrival, GetRequest, GetResult, Put, PutRequest, PutResult, QueryResult, ReadMode,
    Settings, StoreError, Ticket, WouldBlock,
};
use crate::clock::Clock;

/// An open store directory: one writer, any number of readers.
pub struct Store {}

impl Store {
    /// Opens (recovering if needed) or creates the store at `root`, and starts its threads.
    pub fn open(
        _root: &Path,
        _settings: Settings,
        _clock: Arc<dyn Clock>,
        _create: bool,
    ) -> Result<Arc<Self>, StoreError> {
        todo!()
    }

    /// Appends one message.
    pub fn put(&self, _request: &PutRequest<'_>) -> Put {
        todo!()
    }

    /// Appends a batch body (wire.md 2.8) as consecutive records, all or none.
    pub fn put_batch(&self, _request: &PutRequest<'_>) -> Put {
        todo!()
    }

    /// Calls `reply` exactly once, when the ticket's watermark passes, at its deadline, or at once.
    pub fn park(&self, _ticket: Ticket, _reply: Box<dyn FnOnce(AckOutcome) + Send>) {
        todo!()
    }

    /// Blocks until the put is as durable as configured; gives its final result.
    pub fn wait(&self, _put: Put) -> PutResult {
        todo!()
    }

    /// Reads messages of one queue, appending whole records to `out`.
    pub fn get(
        &self,
        _request: &GetRequest<'_>,
        _out: &mut Vec<u8>,
    ) -> Result<GetResult, WouldBlock> {
        todo!()
    }

    /// The record that starts at a physical offset, or None.
    pub fn get_at(
        &self,
        _physical_offset: i64,
        _mode: ReadMode,
    ) -> Result<Option<Vec<u8>>, WouldBlock> {
        todo!()
    }

    /// Records whose index key is `topic#key`, newest files first (blocks on disk).
    pub fn query(
        &self,
        _topic: &str,
        _key: &str,
        _max_count: i32,
        _begin_ms: i64,
        _end_ms: i64,
        _out: &mut Vec<u8>,
    ) -> QueryResult {
        todo!()
    }

    /// First readable offset of a queue (0 when unknown).
    pub fn min_offset(&self, _topic: &str, _queue_id: i32) -> i64 {
        todo!()
    }

    /// One past the last offset of a queue (0 when unknown).
    pub fn max_offset(&self, _topic: &str, _queue_id: i32) -> i64 {
        todo!()
    }

    /// RocketMQ's offset by store time (blocks on disk): store.md 7.
    pub fn offset_by_time(&self, _topic: &str, _queue_id: i32, _timestamp_ms: i64) -> i64 {
        todo!()
    }

    /// Store time of the message at an offset, -1 if there is none (blocks on disk).
    pub fn store_time_at(&self, _topic: &str, _queue_id: i32, _offset: i64) -> i64 {
        todo!()
    }

    /// Whether the message at this queue offset lies beyond what RocketMQ deems in memory.
    pub fn is_on_disk(&self, _topic: &str, _queue_id: i32, _offset: i64) -> bool {
        todo!()
    }

    /// Start of the log, bytes.
    pub fn min_physical_offset(&self) -> i64 {
        todo!()
    }

    /// End of the log, bytes.
    pub fn max_physical_offset(&self) -> i64 {
        todo!()
    }

    /// The committed offset of a group in a queue.
    pub fn committed(&self, _group: &str, _topic: &str, _queue_id: i32) -> Option<i64> {
        todo!()
    }

    /// Commits an offset (in memory; persisted on the interval and at close).
    pub fn commit(&self, _group: &str, _topic: &str, _queue_id: i32, _offset: i64) {
        todo!()
    }

    /// Every committed offset: topic@group -> queue -> offset.
    pub fn committed_all(&self) -> BTreeMap<String, BTreeMap<i32, i64>> {
        todo!()
    }

    /// Forgets every committed offset of a group; returns how many queues had one.
    pub fn remove_group(&self, _group: &str) -> usize {
        todo!()
    }

    /// Writes `config/{name}` atomically, the previous copy kept as .bak.
    pub fn save_state(&self, _name: &str, _bytes: &[u8]) -> Result<(), StoreError> {
        todo!()
    }

    /// Reads `config/{name}`, or its .bak when it is missing or empty.
    pub fn load_state(&self, _name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        todo!()
    }

    /// Registers the one listener told of each message that became readable, in order.
    pub fn on_arrival(&self, _listener: Box<dyn Fn(&Arrival<'_>) + Send + Sync>) {
        todo!()
    }

    /// Figures for broker runtime info (server.md B.9), RocketMQ's keys where they exist.
    pub fn runtime(&self) -> BTreeMap<String, String> {
        todo!()
    }

    /// Milliseconds the put lock has been held by its present owner, 0 when free.
    pub fn lock_held_ms(&self) -> i64 {
        todo!()
    }

    /// Why the store accepts no more puts: poisoned, or the disk is full.
    pub fn refusal(&self) -> Option<String> {
        todo!()
    }

    /// Flushes everything appended so far, log and derived files.
    pub fn flush(&self) -> Result<(), StoreError> {
        todo!()
    }

    /// Stops threads, flushes, dispatches to the end, writes offsets and checkpoint, removes
    /// `abort` if neither poisoned nor behind. Idempotent.
    pub fn close(&self) -> Result<(), StoreError> {
        todo!()
    }
}
