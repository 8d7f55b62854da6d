//! Consume queues and index files on disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::scan::{Layout, Scan, log_error};
use mq_format::consume_queue::{ENTRY_BYTES, QueueEntry};
use mq_format::index::{IndexHeader, IndexLayout};
use mq_format::message::{CheckCrc, RecordView};
use mq_format::multi_dispatch;
use mq_log::Access;
use mq_store::inspect::ConsumeQueue;
use mq_store::inspect::IndexFile;
use mq_store::inspect::io_error;
use mq_store::inspect::{ConsumeQueues, adopted_file_bytes, queue_directories};
use mq_store::inspect::{IndexFiles, index_paths};
use mq_store::{ReadMode, StoreError};

/// A consume queue on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSummary {
    /// Topic name.
    pub topic: String,
    /// Queue of the topic.
    pub queue_id: i32,
    /// First offset whose record is in the log.
    pub min_offset: i64,
    /// One past the last offset.
    pub max_offset: i64,
}

/// Records of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueChunk {
    /// The records' bytes, one after the other.
    pub bytes: Vec<u8>,
    /// Number of records.
    pub count: usize,
    /// Queue offset at which the next chunk begins.
    pub next_offset: i64,
    /// Whether the queue has entries after this chunk.
    pub has_more: bool,
}

/// A range of a queue's offsets.
#[derive(Debug, Clone, Copy)]
pub struct QueueRange {
    /// First queue offset.
    pub start: i64,
    /// End of the range, exclusive; None for the end of the queue.
    pub stop: Option<i64>,
}

impl Scan {
    /// All readable consume queues, sorted by topic and queue id.
    pub fn queues(&self) -> Result<Vec<QueueSummary>, StoreError> {
        let (queues, unsound) = self.load_queues()?;
        for (path, error) in unsound {
            tracing::warn!(path = %path.display(), %error, "skipped a consume queue");
        }
        let queues = queues.all();
        let mut found: Vec<_> = queues.iter().map(|queue| summary(queue)).collect();
        found.sort_by(|left, right| {
            (&left.topic, left.queue_id).cmp(&(&right.topic, right.queue_id))
        });
        Ok(found)
    }

    /// The raw 20-byte entries of a queue from `offset` on, at most `max_count`.
    pub fn queue_entries(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
    ) -> Result<Vec<u8>, StoreError> {
        let mut entries = Vec::new();
        let Some(queue) = self.load_queue(topic, queue_id)? else {
            return Ok(entries);
        };
        read_entries(&queue, offset, max_count, &mut entries);
        Ok(entries)
    }

    /// Records of one queue in queue order, at least one and about `max_bytes`. Skips entries
    /// without a readable record of this queue.
    pub fn queue_records(
        &self,
        topic: &str,
        queue_id: i32,
        range: QueueRange,
        max_bytes: usize,
        check: CheckCrc,
    ) -> Result<QueueChunk, StoreError> {
        let mut chunk = QueueChunk {
            next_offset: range.start,
            ..QueueChunk::default()
        };
        let Some(queue) = self.load_queue(topic, queue_id)? else {
            return Ok(chunk);
        };
        chunk.next_offset = range.start.max(queue.min_offset());
        let end = queue.max_offset().min(range.stop.unwrap_or(i64::MAX));
        let mut entries = Vec::new();
        while chunk.next_offset < end && chunk.bytes.len() < max_bytes.max(1) {
            entries.clear();
            read_entries(&queue, chunk.next_offset, ENTRIES_AT_ONCE, &mut entries);
            if entries.is_empty() {
                break;
            }
            for entry in QueueEntry::decode_all(&entries) {
                if chunk.next_offset >= end || chunk.bytes.len() >= max_bytes.max(1) {
                    break;
                }
                chunk.next_offset += 1;
                if let Some(bytes) = self.record_of(&entry, &queue, check)? {
                    chunk.bytes.extend_from_slice(&bytes);
                    chunk.count += 1;
                }
            }
        }
        chunk.has_more = chunk.next_offset < end;
        Ok(chunk)
    }

    /// The record that a queue entry points to, if it belongs to that queue.
    fn record_of(
        &self,
        entry: &QueueEntry,
        queue: &ConsumeQueue,
        check: CheckCrc,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if entry.is_hole() || !entry.is_used() {
            return Ok(None);
        }
        let at = entry.physical_offset;
        let bytes = self.log.record(at, Some(entry.size_bytes), check);
        Ok(bytes.map_err(log_error(at))?.filter(|bytes| {
            RecordView::parse(bytes, CheckCrc::No)
                .is_ok_and(|record| is_in_queue(&record, queue.topic(), queue.queue_id()))
        }))
    }

    /// Name and header of the index files, oldest first.
    pub fn index_files(&self) -> Result<Vec<(String, IndexHeader)>, StoreError> {
        let Some(layout) = self.index_layout() else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for (name, path) in index_paths(&self.root)? {
            let file = IndexFile::open(&path, layout, Access::Read);
            match file.and_then(|file| file.header()) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!(path = %path.display(), %error, "skipped an index file");
                }
                header => found.push((name.to_string(), header.map_err(io_error(&path))?)),
            }
        }
        Ok(found)
    }

    /// The stored slots of an index file; empty if there is no file of this name.
    pub fn index_slots(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let Some(file) = self.index_file(name)? else {
            return Ok(Vec::new());
        };
        file.raw_slots().map_err(io_error(file.path()))
    }

    /// The stored entries of an index file that are in use, from number `start` (at least 1) on.
    pub fn index_entries(
        &self,
        name: &str,
        start: u32,
        max_count: usize,
    ) -> Result<Vec<u8>, StoreError> {
        let Some(file) = self.index_file(name)? else {
            return Ok(Vec::new());
        };
        let failed = || io_error(file.path());
        let header = file.header().map_err(failed())?;
        // A torn header may count more entries than the file can hold.
        let end = header.index_count.max(0).unsigned_abs();
        let end = end.min(file.layout().entries);
        let start = start.max(1);
        let count = end.saturating_sub(start) as usize;
        let raw = file.raw_entries(start, count.min(max_count));
        raw.map_err(failed())
    }

    fn index_file(&self, name: &str) -> Result<Option<IndexFile>, StoreError> {
        let Some(layout) = self.index_layout() else {
            return Ok(None);
        };
        let paths = index_paths(&self.root)?;
        let found = paths.iter().find(|(known, _)| known.to_string() == name);
        let Some((_, path)) = found else {
            return Ok(None);
        };
        let file = IndexFile::open(path, layout, Access::Read);
        file.map(Some).map_err(io_error(path))
    }

    /// Physical offsets of the records with the index key `topic#key`, newest first. The index
    /// compares hashes only, so other records may be among them.
    pub fn lookup(
        &self,
        topic: &str,
        key: &str,
        max_count: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> Result<Vec<i64>, StoreError> {
        let index = self.load_index()?;
        let hits = index.look_up(topic, key, max_count, begin_ms, end_ms);
        Ok(hits.physical_offsets)
    }

    /// The queues that can be loaded, and path and error of the others.
    pub(super) fn load_queues(
        &self,
    ) -> Result<(ConsumeQueues, Vec<(PathBuf, StoreError)>), StoreError> {
        let file_bytes = self.layout.consume_queue_file_bytes;
        let (queues, unsound) = ConsumeQueues::load_sound(&self.root, file_bytes)?;
        for queue in queues.all() {
            queue.set_min_from(self.min_physical_offset());
        }
        Ok((queues, unsound))
    }

    fn load_queue(
        &self,
        topic: &str,
        queue_id: i32,
    ) -> Result<Option<Arc<ConsumeQueue>>, StoreError> {
        let file_bytes = self.layout.consume_queue_file_bytes;
        let queue = ConsumeQueues::load_one(&self.root, file_bytes, topic, queue_id)?;
        if let Some(queue) = &queue {
            queue.set_min_from(self.min_physical_offset());
        }
        Ok(queue)
    }

    /// Length of an extension file, bytes; None if there is no extension.
    pub(super) fn ext_file_bytes(&self) -> Result<Option<u64>, StoreError> {
        adopted_file_bytes(&queue_directories(&self.root.join("consumequeue_ext"))?, 1)
    }

    pub(super) fn index_layout(&self) -> Option<IndexLayout> {
        let (slots, entries) = (self.layout.index_slots?, self.layout.index_entries?);
        Some(IndexLayout { slots, entries })
    }

    fn load_index(&self) -> Result<IndexFiles, StoreError> {
        let Layout {
            index_slots,
            index_entries,
            ..
        } = self.layout;
        IndexFiles::load(&self.root, index_slots, index_entries, Access::Read)
    }
}

/// Entries read at once for the records of a queue.
const ENTRIES_AT_ONCE: usize = 4_096;

/// Appends at most `max_count` entries from `offset` on; fewer if they cannot be read.
fn read_entries(queue: &ConsumeQueue, offset: i64, max_count: usize, entries: &mut Vec<u8>) {
    let mut at = offset.max(queue.min_offset());
    let wanted = max_count.saturating_mul(ENTRY_BYTES);
    while at < queue.max_offset() && entries.len() < wanted {
        let before = entries.len();
        let read = queue.read(at, wanted - before, ReadMode::Wait, entries);
        if read != Ok(true) || entries.len() == before {
            break;
        }
        at += ((entries.len() - before) / ENTRY_BYTES) as i64;
    }
}

/// Whether a record belongs to a queue: by its own topic and queue id, or by multi-dispatch.
pub(super) fn is_in_queue(record: &RecordView<'_>, topic: &str, queue_id: i32) -> bool {
    queue_offsets(record, topic, queue_id).next().is_some()
}

/// The offsets of a record in a queue, according to the record; none if it is not in that queue.
pub(super) fn queue_offsets<'a>(
    record: &RecordView<'a>,
    topic: &'a str,
    queue_id: i32,
) -> impl Iterator<Item = i64> + 'a {
    let (own_id, offset) = (record.queue_id, record.queue_offset);
    let is_own = record.topic == topic && own_id == queue_id;
    let more = multi_dispatch::dispatches(record.properties).filter(move |(name, _)| {
        let lmq_id = multi_dispatch::queue_id_in(name, own_id, true);
        *name == topic && (queue_id == lmq_id || queue_id == own_id)
    });
    is_own
        .then_some(offset)
        .into_iter()
        .chain(more.map(|(_, offset)| offset))
}

fn summary(queue: &ConsumeQueue) -> QueueSummary {
    QueueSummary {
        topic: queue.topic().to_owned(),
        queue_id: queue.queue_id(),
        min_offset: queue.min_offset(),
        max_offset: queue.max_offset(),
    }
}
