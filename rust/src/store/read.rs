//! Reading messages of a queue.

use std::sync::Arc;

use super::consume_queue::ConsumeQueue;
use super::consume_queues::ConsumeQueues;
use super::index::IndexFiles;
use super::settings::Settings;
use super::types::{GetRequest, GetResult, GetStatus, ReadMode, TagFilter, WouldBlock};
use crate::format::consume_queue::{ENTRY_BYTES, QueueEntry};
use crate::format::message::Head;
use crate::log::{Files, Segments};

/// RocketMQ looks at as many bytes of queue units per pull, or at `max_count` units.
const SCAN_BYTES: usize = 16_000;
/// Records closer than this are read at once, the bytes between thrown away.
const NEAR_BYTES: i64 = 4_096;

/// Reads from the log through queues and index. Any number of threads.
pub(crate) struct Reader<F: Files> {
    pub(super) log: Arc<Segments<F>>,
    pub(super) queues: Arc<ConsumeQueues>,
    pub(super) index: Option<Arc<IndexFiles>>,
    pub(super) limits: Limits,
}

/// How much one read may return.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    memory: (i32, usize),
    disk: (i32, usize),
    /// `maxMsgsNumBatch`.
    pub(super) query_count: usize,
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
            query_count: usize::try_from(settings.query_count_max).unwrap_or(0),
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

    pub(super) fn is_cold(&self, entry: &QueueEntry) -> bool {
        self.max_physical_offset() - entry.physical_offset > self.limits.hot_bytes
    }

    pub(super) fn is_in_log(&self, entry: &QueueEntry) -> bool {
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
    pub(super) fn read_log(
        &self,
        offset: i64,
        mode: ReadMode,
        out: &mut [u8],
    ) -> Result<usize, WouldBlock> {
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
