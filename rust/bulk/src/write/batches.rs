//! Collects items of the same topic and placement into batches.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::outgoing::{Key, Kind, Outgoing};

/// Largest number of messages in a batch.
pub(super) const COUNT_MAX: u64 = 1000;
/// Largest size of a batch in bytes, unless its only message is larger.
const BATCH_BYTES: usize = 256 * 1024;
/// Bytes of all incomplete batches; above it, the largest are sent first.
const OPEN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of batches that wait to be sent.
const READY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Incomplete batches, and sends that are ready.
#[derive(Debug)]
pub(super) struct Batches {
    count_max: u64,
    bytes_max: usize,
    open: HashMap<Key, Outgoing>,
    open_bytes: usize,
    ready: VecDeque<Outgoing>,
    ready_bytes: usize,
}

impl Batches {
    /// count_max: messages of a batch. bytes_max: largest batch that a broker accepts.
    pub fn new(count_max: u64, bytes_max: usize) -> Self {
        Self {
            count_max,
            bytes_max: bytes_max.min(BATCH_BYTES),
            open: HashMap::new(),
            open_bytes: 0,
            ready: VecDeque::new(),
            ready_bytes: 0,
        }
    }

    /// Adds a row; `write` appends it to its batch.
    pub fn add<E>(
        &mut self,
        (key, topic): (Key, &Arc<str>),
        row: u64,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let new = || Outgoing::new(key, topic.clone(), Kind::Batch);
        let batch = self.open.entry(key).or_insert_with(new);
        let start = batch.body.len();
        write(&mut batch.body)?;
        self.open_bytes += batch.body.len() - start;
        if start > 0 && batch.body.len() > self.bytes_max {
            let body = batch.body.split_off(start);
            let next = Outgoing { body, ..new() };
            let full = std::mem::replace(batch, next);
            batch.note(row);
            self.open_bytes -= full.body.len();
            self.push(full);
        } else {
            batch.note(row);
            if batch.count >= self.count_max {
                self.close(key);
            }
        }
        while self.open_bytes > OPEN_BYTES_MAX {
            let largest = self.open.iter().max_by_key(|(_, batch)| batch.body.len());
            let Some(key) = largest.map(|(key, _)| *key) else {
                break;
            };
            self.close(key);
        }
        Ok(())
    }

    fn close(&mut self, key: Key) {
        if let Some(full) = self.open.remove(&key) {
            self.open_bytes -= full.body.len();
            self.push(full);
        }
    }

    /// Adds a send that is ready.
    pub fn push(&mut self, outgoing: Outgoing) {
        self.ready_bytes += outgoing.body.len();
        self.ready.push_back(outgoing);
    }

    /// Makes every batch ready, in the order of their first rows.
    pub fn close_all(&mut self) {
        let mut rest: Vec<_> = self.open.drain().map(|(_, batch)| batch).collect();
        self.open_bytes = 0;
        rest.sort_unstable_by_key(Outgoing::first_row);
        rest.into_iter().for_each(|batch| self.push(batch));
    }

    /// Takes the first ready send for which `may_go` is true.
    pub fn take(&mut self, may_go: impl Fn(&Key) -> bool) -> Option<Outgoing> {
        let index = self.ready.iter().position(|ready| may_go(&ready.key))?;
        let outgoing = self.ready.remove(index)?;
        self.ready_bytes -= outgoing.body.len();
        Some(outgoing)
    }

    /// Whether more rows should be added before the ready sends are sent.
    pub fn has_room(&self) -> bool {
        self.ready_bytes < READY_BYTES_MAX
    }

    /// Whether every row was taken.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.ready.is_empty()
    }

    /// Returns the first row that was not taken.
    pub fn first_row(&self) -> Option<u64> {
        let waiting = self.open.values().chain(&self.ready);
        waiting.filter_map(Outgoing::first_row).min()
    }
}
