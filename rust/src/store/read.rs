//! Reading messages by queue, by physical offset and by key.

use std::sync::Arc;

use super::consume_queue::ConsumeQueue;
use super::consume_queues::ConsumeQueues;
use super::index::IndexFiles;
use super::types::{
    GetRequest, GetResult, GetStatus, QueryResult, ReadMode, Settings, TagFilter, WouldBlock,
};
use crate::format::consume_queue::{ENTRY_BYTES, QueueEntry};
use crate::format::message::{BLANK_BYTES, CheckCrc, Head, RecordView};
use crate::log::{Files, Segments};

/// RocketMQ looks at as many bytes of queue units per pull, or at `max_count` units.
const SCAN_BYTES: usize = 16_000;
/// Records closer than this are read at once, the bytes between thrown away.
const NEAR_BYTES: i64 = 4_096;
/// Bytes read for a record whose size is not known.
const GUESS_BYTES: usize = 4_096;
/// `maxMsgsNumBatch`: most messages of a query.
const HITS_MAX: usize = 64;
/// Rounds of a query, each with an earlier end.
const QUERY_ROUNDS: usize = 3;

/// Reads from the log through queues and index. Any number of threads.
pub(crate) struct Reader<F: Files> {
    log: Arc<Segments<F>>,
    queues: Arc<ConsumeQueues>,
    index: Option<Arc<IndexFiles>>,
    limits: Limits,
}

/// How much one pull may return.
#[derive(Debug, Clone, Copy)]
struct Limits {
    memory: (i32, usize),
    disk: (i32, usize),
    /// Records further than this from the end of the log are deemed on disk.
    hot_bytes: i64,
}

/// Records chosen for a pull, and where the next one begins.
#[derive(Debug, Default)]
struct Selection {
    entries: Vec<QueueEntry>,
    bytes: usize,
    scanned: i64,
    was_removing: bool,
    /// Start of the last record looked at.
    last_physical_offset: i64,
}

impl<F: Files> Reader<F> {
    /// A reader over a store's log, queues and index.
    pub(crate) fn new(
        log: Arc<Segments<F>>,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
        settings: &Settings,
    ) -> Self {
        let hot = memory_bytes() / 100 * u64::from(settings.hot_memory_percent);
        let limits = Limits {
            memory: settings.max_transfer_memory,
            disk: settings.max_transfer_disk,
            hot_bytes: i64::try_from(hot).unwrap_or(i64::MAX),
        };
        Self {
            log,
            queues,
            index,
            limits,
        }
    }

    /// See [`crate::store::Store::get`].
    pub(crate) fn get(
        &self,
        request: &GetRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<GetResult, WouldBlock> {
        let Some(queue) = self.queues.get(request.topic, request.queue_id) else {
            // RocketMQ makes the queue on demand, so an unknown one is an empty one.
            return Ok(answer(GetStatus::NoMessageInQueue, 0, (0, 0)));
        };
        let bounds = (queue.min_offset(), queue.max_offset());
        if let Some((status, next)) = outside(request.offset, bounds) {
            return Ok(answer(status, next, bounds));
        }
        let Some(selection) = self.select(&queue, request)? else {
            let next = queue.next_file_offset(request.offset);
            return Ok(answer(GetStatus::OffsetFoundNull, next, bounds));
        };
        let message_count = self.read_records(&selection.entries, request.mode, out)?;
        let status = match message_count {
            0 if selection.was_removing || !selection.entries.is_empty() => {
                GetStatus::MessageWasRemoving
            }
            0 => GetStatus::NoMatchedMessage,
            _ => GetStatus::Found,
        };
        let behind = self.max_physical_offset() - selection.last_physical_offset;
        Ok(GetResult {
            message_count,
            suggest_slave: behind > self.limits.hot_bytes,
            ..answer(status, request.offset + selection.scanned, bounds)
        })
    }

    /// Goes through the queue's units; None when they cannot be read.
    fn select(
        &self,
        queue: &ConsumeQueue,
        request: &GetRequest<'_>,
    ) -> Result<Option<Selection>, WouldBlock> {
        let max_count = usize::try_from(request.max_count).unwrap_or(0);
        let mut units = Vec::new();
        let scan_bytes = SCAN_BYTES.max(max_count * ENTRY_BYTES);
        if !queue.read(request.offset, scan_bytes, request.mode, &mut units)? {
            return Ok(None);
        }
        let mut selection = Selection::default();
        for entry in QueueEntry::decode_all(&units) {
            selection.last_physical_offset = entry.physical_offset;
            if self.is_full(&selection, &entry, max_count) {
                break;
            }
            selection.scanned += 1;
            if entry.is_filler() || !passes(request.filter, &entry) {
                continue;
            }
            if !self.is_in_log(&entry) {
                selection.was_removing = true;
                continue;
            }
            selection.bytes += usize::try_from(entry.size_bytes).unwrap_or(0);
            selection.entries.push(entry);
        }
        Ok(Some(selection))
    }

    /// RocketMQ's limits, which never hold before the first message.
    fn is_full(&self, selection: &Selection, next: &QueueEntry, max_count: usize) -> bool {
        let count = selection.entries.len();
        if count == 0 {
            return false;
        }
        let (count_max, bytes_max) = if self.is_cold(next) {
            self.limits.disk
        } else {
            self.limits.memory
        };
        let size = usize::try_from(next.size_bytes).unwrap_or(0);
        count >= max_count
            || selection.bytes + size > bytes_max
            || count >= usize::try_from(count_max).unwrap_or(0)
    }

    fn is_cold(&self, entry: &QueueEntry) -> bool {
        self.max_physical_offset() - entry.physical_offset > self.limits.hot_bytes
    }

    fn is_in_log(&self, entry: &QueueEntry) -> bool {
        entry.physical_offset >= self.log.min_offset().cast_signed()
            && entry.end_offset() <= self.max_physical_offset()
    }

    fn max_physical_offset(&self) -> i64 {
        self.log.max_offset().cast_signed()
    }

    /// Appends the records to `out`, neighbours with one read; returns how many are there.
    fn read_records(
        &self,
        entries: &[QueueEntry],
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<i32, WouldBlock> {
        let start = out.len();
        let mut count = 0;
        for run in entries.chunk_by(|left, right| self.is_near(left, right)) {
            match self.read_run(run, mode, out) {
                Ok(read) => count += read,
                Err(blocked) => {
                    out.truncate(start);
                    return Err(blocked);
                }
            }
        }
        Ok(count)
    }

    /// Whether `right` follows `left` closely and in the same file.
    fn is_near(&self, left: &QueueEntry, right: &QueueEntry) -> bool {
        let gap = right.physical_offset - left.end_offset();
        let next_file = self
            .log
            .next_file_start(left.physical_offset.cast_unsigned());
        (0..=NEAR_BYTES).contains(&gap) && right.physical_offset.cast_unsigned() < next_file
    }

    fn read_run(
        &self,
        run: &[QueueEntry],
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<i32, WouldBlock> {
        let [first, .., last] = run else {
            return match run {
                [only] => self.read_span(run, only.physical_offset, only.end_offset(), mode, out),
                _ => Ok(0),
            };
        };
        self.read_span(run, first.physical_offset, last.end_offset(), mode, out)
    }

    /// Reads a span at the end of `out`, then moves its records together.
    fn read_span(
        &self,
        run: &[QueueEntry],
        from: i64,
        to: i64,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<i32, WouldBlock> {
        let start = out.len();
        let length = usize::try_from(to - from).unwrap_or(0);
        out.resize(start + length, 0);
        let read = self.read_log(from, mode, &mut out[start..]);
        let read = read.inspect_err(|WouldBlock| out.truncate(start))?;
        let (mut count, mut filled) = (0, start);
        for entry in run {
            let at = start + usize::try_from(entry.physical_offset - from).unwrap_or(0);
            let size = usize::try_from(entry.size_bytes).unwrap_or(0);
            let is_read = at + size <= start + read;
            // A unit may outlive its record; what is there now is not the message.
            if is_read && Head::parse(&out[at..at + size]) == Head::Record(size) {
                out.copy_within(at..at + size, filled);
                filled += size;
                count += 1;
            }
        }
        out.truncate(filled);
        Ok(count)
    }

    /// Reads from the log; what cannot be read for an error is as good as gone.
    fn read_log(&self, offset: i64, mode: ReadMode, out: &mut [u8]) -> Result<usize, WouldBlock> {
        let offset = offset.cast_unsigned();
        let read = match mode {
            ReadMode::Wait => self.log.read_at(offset, out).map(Some),
            ReadMode::NoWait => self.log.read_at_nowait(offset, out),
        };
        match read {
            Ok(Some(count)) => Ok(count),
            Ok(None) => Err(WouldBlock),
            Err(error) => {
                tracing::error!(offset, %error, "cannot read the commit log");
                Ok(0)
            }
        }
    }

    /// See [`crate::store::Store::get_at`].
    pub(crate) fn get_at(
        &self,
        physical_offset: i64,
        mode: ReadMode,
    ) -> Result<Option<Vec<u8>>, WouldBlock> {
        // RocketMQ takes 0 for the first record, even if the log starts later.
        let offset = match physical_offset {
            0 => self.log.min_offset().cast_signed(),
            other => other,
        };
        let mut bytes = vec![0; GUESS_BYTES];
        let read = self.read_log(offset, mode, &mut bytes)?;
        let Head::Record(size) = Head::parse(&bytes[..read.min(BLANK_BYTES)]) else {
            return Ok(None);
        };
        let room = self
            .log
            .next_file_start(offset.cast_unsigned())
            .cast_signed()
            - offset;
        if size as u64 > room.cast_unsigned() {
            return Ok(None);
        }
        bytes.resize(size, 0);
        if size > read {
            let rest = self.read_log(offset + read as i64, mode, &mut bytes[read..])?;
            if rest < size - read {
                return Ok(None);
            }
        }
        let is_record = RecordView::parse(&bytes, CheckCrc::No)
            .is_ok_and(|record| record.physical_offset == offset);
        Ok(is_record.then_some(bytes))
    }

    /// See [`crate::store::Store::query`].
    pub(crate) fn query(
        &self,
        topic: &str,
        key: &str,
        max_count: i32,
        begin_ms: i64,
        end_ms: i64,
        out: &mut Vec<u8>,
    ) -> QueryResult {
        let mut result = QueryResult {
            message_count: 0,
            index_last_update_timestamp_ms: 0,
            index_last_update_physical_offset: 0,
        };
        let Some(index) = &self.index else {
            return result;
        };
        let max_count = usize::try_from(max_count).unwrap_or(0).min(HITS_MAX);
        let mut round_end_ms = end_ms;
        for _ in 0..QUERY_ROUNDS {
            let mut hits = index.look_up(topic, key, max_count, begin_ms, round_end_ms);
            result.index_last_update_timestamp_ms = hits.last_update_timestamp_ms;
            result.index_last_update_physical_offset = hits.last_update_physical_offset;
            hits.physical_offsets.sort_unstable();
            for (at, offset) in hits.physical_offsets.iter().enumerate() {
                let Ok(Some(bytes)) = self.get_at(*offset, ReadMode::Wait) else {
                    continue;
                };
                if let (0, Ok(record)) = (at, RecordView::parse(&bytes, CheckCrc::No)) {
                    round_end_ms = record.store_timestamp_ms;
                }
                out.extend_from_slice(&bytes);
                result.message_count += 1;
            }
            let is_done = result.message_count > 0 || round_end_ms < begin_ms;
            if is_done || hits.physical_offsets.is_empty() {
                break;
            }
        }
        result
    }

    /// Whether the message at a queue offset is deemed on disk.
    pub(crate) fn is_on_disk(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        let queue = self.queues.get(topic, queue_id);
        let entry = queue.and_then(|queue| queue.entry(offset));
        entry.is_some_and(|entry| self.is_cold(&entry))
    }

    /// First readable offset of a queue, 0 when unknown.
    pub(crate) fn min_offset(&self, topic: &str, queue_id: i32) -> i64 {
        let queue = self.queues.get(topic, queue_id);
        queue.map_or(0, |queue| queue.min_offset())
    }

    /// One past the last offset of a queue, 0 when unknown.
    pub(crate) fn max_offset(&self, topic: &str, queue_id: i32) -> i64 {
        let queue = self.queues.get(topic, queue_id);
        queue.map_or(0, |queue| queue.max_offset())
    }

    /// Store time of the message at a queue offset, -1 if there is none.
    pub(crate) fn store_time_at(&self, topic: &str, queue_id: i32, offset: i64) -> i64 {
        let queue = self.queues.get(topic, queue_id);
        let entry = queue.and_then(|queue| queue.entry(offset));
        entry
            .and_then(|entry| self.store_time(&entry))
            .unwrap_or(-1)
    }

    /// See [`crate::store::Store::offset_by_time`].
    pub(crate) fn offset_by_time(&self, topic: &str, queue_id: i32, timestamp_ms: i64) -> i64 {
        let Some(queue) = self.queues.get(topic, queue_id) else {
            return 0;
        };
        let store_time = |offset| self.store_time(&queue.entry(offset)?);
        let range = queue.min_offset()..queue.max_offset();
        super::time_search::offset_by_time(range, timestamp_ms, store_time)
    }

    fn store_time(&self, entry: &QueueEntry) -> Option<i64> {
        if entry.is_filler() || !self.is_in_log(entry) {
            return None;
        }
        let bytes = self.get_at(entry.physical_offset, ReadMode::Wait).ok()??;
        let record = RecordView::parse(&bytes, CheckCrc::No).ok()?;
        Some(record.store_timestamp_ms)
    }
}

/// RocketMQ's answers for offsets at or outside a queue's bounds.
fn outside(offset: i64, (min, max): (i64, i64)) -> Option<(GetStatus, i64)> {
    if max == 0 {
        Some((GetStatus::NoMessageInQueue, 0))
    } else if offset < min {
        Some((GetStatus::OffsetTooSmall, min))
    } else if offset == max {
        Some((GetStatus::OffsetOverflowOne, offset))
    } else if offset > max {
        Some((GetStatus::OffsetOverflowBadly, max))
    } else {
        None
    }
}

fn answer(status: GetStatus, next_begin_offset: i64, (min, max): (i64, i64)) -> GetResult {
    GetResult {
        status,
        next_begin_offset,
        min_offset: min,
        max_offset: max,
        message_count: 0,
        suggest_slave: false,
    }
}

/// An extension address says nothing about the tags, so it passes; the client filters again.
fn passes(filter: &TagFilter, entry: &QueueEntry) -> bool {
    entry.is_extension_address() || filter.matches(entry.tags_code)
}

/// Memory of the machine, bytes.
fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram as u64 * u64::from(system.mem_unit)
}
