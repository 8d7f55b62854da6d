//! Threads that process the log a few chunks ahead of the caller.
//!
//! One thread at a time reads the next chunk; all threads process their chunks in parallel. The
//! caller takes the results in log order. A thread ends at the end of the log, or after its current
//! chunk once the [`Pipeline`] is dropped. Dropping does not join the threads, so a [`Work`] must
//! not block.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::scan::Scan;
use super::select::{Ended, Filter};
use mq_format::message::CheckCrc;
use mq_render::Fields;
use mq_store::StoreError;
use mq_store::inspect::io_error;

/// Most chunks that are being processed or wait for the caller.
const CHUNKS_MAX: u64 = 4;
/// Most threads: more would outrun any consumer of the results.
const THREADS_MAX: usize = 4;

/// First offset, chunk size and the conditions that a record must meet; see [`Filter`].
#[derive(Debug, Clone)]
pub struct ChunkRequest {
    /// Physical offset of the first record.
    pub offset: i64,
    /// Approximate bytes of records per chunk.
    pub chunk_bytes: usize,
    /// Skip records that start at this offset or later.
    pub stop: Option<i64>,
    /// Only this topic.
    pub topic: Option<String>,
    /// Only this queue.
    pub queue_id: Option<i32>,
    /// Only this tag.
    pub tag: Option<String>,
    /// Earliest store time.
    pub begin_ms: Option<i64>,
    /// Latest store time.
    pub end_ms: Option<i64>,
    /// Whether to end at a body that does not match its checksum.
    pub check_crc: CheckCrc,
}

impl ChunkRequest {
    fn filter(&self) -> Filter<'_> {
        Filter {
            stop: self.stop,
            topic: self.topic.as_deref(),
            queue_id: self.queue_id,
            tag: self.tag.as_deref(),
            begin_ms: self.begin_ms,
            end_ms: self.end_ms,
        }
    }
}

/// The result of one chunk.
#[derive(Debug)]
pub struct ChunkResult<T> {
    /// The result.
    pub output: T,
    /// Start of the next chunk.
    pub next_offset: i64,
    /// Why the results end after this chunk; `More` if they do not.
    pub ended: Ended,
}

/// The records of one chunk.
pub struct ChunkRecords<'a> {
    bytes: &'a [u8],
    /// Log offset of `bytes`, for checking the offset in each record; None if already checked.
    start: Option<i64>,
    check_crc: CheckCrc,
    next_offset: i64,
    ended: Ended,
}

impl<'a> ChunkRecords<'a> {
    /// The bytes of the whole chunk, as read from the log.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Passes each record to `each`. At an invalid record the chunk ends.
    pub(super) fn visit(&mut self, mut each: impl FnMut(Fields<'a>)) {
        let mut used = 0;
        while used < self.bytes.len() {
            let rest = &self.bytes[used..];
            let start = self.start;
            let is_there = |record: &Fields<'_>| {
                start.is_none_or(|start| record.physical_offset() == start + used as i64)
            };
            let record = Fields::parse(rest, self.check_crc).ok().filter(is_there);
            let Some(record) = record else {
                self.ended = Ended::Unreadable;
                self.next_offset = self.start.unwrap_or(self.next_offset) + used as i64;
                self.bytes = &self.bytes[..used];
                return;
            };
            used += record.bytes.len();
            each(record);
        }
    }
}

/// Processes chunks. Each thread has its own instance.
pub trait Work: Send {
    /// The result for one chunk.
    type Output: Send;
    /// Processes one chunk.
    fn process(&mut self, records: &mut ChunkRecords<'_>) -> Self::Output;
}

/// Results in log order; see the module.
pub struct Pipeline<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    scan: Arc<Scan>,
    request: ChunkRequest,
    reading: Mutex<Reading>,
    results: Mutex<Results<T>>,
    /// Notified when a result is added or taken, and when the caller stops or a thread ends.
    changed: Condvar,
}

/// The position of the reader.
struct Reading {
    offset: i64,
    number: u64,
    is_over: bool,
}

struct Results<T> {
    by_number: BTreeMap<u64, Result<ChunkResult<T>, StoreError>>,
    /// Number of the chunk that the caller takes next.
    next: u64,
    is_stopped: bool,
    threads: usize,
}

impl<T: Send + 'static> Pipeline<T> {
    /// Starts one thread per processor, at most [`THREADS_MAX`], each with its own `work`.
    pub fn start<W>(
        scan: Arc<Scan>,
        request: ChunkRequest,
        work: impl Fn() -> W,
    ) -> Result<Self, StoreError>
    where
        W: Work<Output = T> + 'static,
    {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            reading: Mutex::new(Reading {
                offset: request.offset,
                number: 0,
                is_over: false,
            }),
            results: Mutex::new(Results {
                by_number: BTreeMap::new(),
                next: 0,
                is_stopped: false,
                threads: 0,
            }),
            changed: Condvar::new(),
            scan,
            request,
        });
        let pipeline = Self { shared };
        for _ in 0..threads.min(THREADS_MAX) {
            let (shared, work) = (Arc::clone(&pipeline.shared), work());
            shared.results.lock().threads += 1;
            let run = ThreadGuard(shared);
            let builder = thread::Builder::new().name("mqstore-ahead".into());
            let spawned = builder.spawn(move || run.0.work(work));
            spawned.map_err(io_error(
                "cannot start a thread that reads the log".as_ref(),
            ))?;
        }
        Ok(pipeline)
    }

    /// Returns the next result, or None if there is none within `timeout`.
    pub fn take(&self, timeout: Duration) -> Option<Result<ChunkResult<T>, StoreError>> {
        let until = Instant::now() + timeout;
        let mut results = self.shared.results.lock();
        let number = results.next;
        loop {
            if let Some(result) = results.by_number.remove(&number) {
                results.next += 1;
                self.shared.changed.notify_all();
                return Some(result);
            }
            if results.threads == 0 {
                let lost = std::io::Error::other("the threads that read the log have ended");
                return Some(Err(io_error(&self.shared.scan.root)(lost)));
            }
            if self
                .shared
                .changed
                .wait_until(&mut results, until)
                .timed_out()
            {
                return None;
            }
        }
    }
}

impl<T> Drop for Pipeline<T> {
    fn drop(&mut self) {
        let mut results = self.shared.results.lock();
        results.is_stopped = true;
        results.by_number.clear();
        self.shared.changed.notify_all();
    }
}

/// A running thread; counts itself out when it ends, also after a panic.
struct ThreadGuard<T>(Arc<Shared<T>>);

impl<T> Drop for ThreadGuard<T> {
    fn drop(&mut self) {
        self.0.results.lock().threads -= 1;
        self.0.changed.notify_all();
    }
}

impl<T: Send> Shared<T> {
    fn work<W: Work<Output = T>>(&self, mut work: W) {
        let mut buffer = Vec::new();
        loop {
            let mut reading = self.reading.lock();
            let number = reading.number;
            if reading.is_over || !self.await_turn(number) {
                return;
            }
            let records = self.read(reading.offset, &mut buffer);
            reading.number += 1;
            reading.is_over = true;
            if let Ok(records) = &records {
                reading.offset = records.next_offset;
                reading.is_over = records.ended != Ended::More;
            }
            drop(reading);
            let result = records.map(|mut records| ChunkResult {
                output: work.process(&mut records),
                next_offset: records.next_offset,
                ended: records.ended,
            });
            self.results.lock().by_number.insert(number, result);
            self.changed.notify_all();
        }
    }

    /// Waits until the chunk is within [`CHUNKS_MAX`] of the caller; false if the caller stopped.
    fn await_turn(&self, number: u64) -> bool {
        let mut results = self.results.lock();
        while !results.is_stopped && number >= results.next + CHUNKS_MAX {
            self.changed.wait(&mut results);
        }
        !results.is_stopped
    }

    fn read<'a>(
        &self,
        offset: i64,
        buffer: &'a mut Vec<u8>,
    ) -> Result<ChunkRecords<'a>, StoreError> {
        let request = &self.request;
        let filter = request.filter();
        let start = offset.max(0);
        if filter.is_for_all() {
            let at = start.cast_unsigned();
            let range = self
                .scan
                .read_range(at, request.chunk_bytes, request.stop, buffer)?;
            if let Some(range) = range {
                return Ok(ChunkRecords {
                    bytes: &buffer[..range.bytes],
                    start: Some(start),
                    check_crc: request.check_crc,
                    next_offset: range.next_offset,
                    ended: range.ended,
                });
            }
        }
        let chunk_bytes = request.chunk_bytes;
        let found = self
            .scan
            .select(offset, chunk_bytes, &filter, request.check_crc)?;
        *buffer = found.bytes;
        Ok(ChunkRecords {
            bytes: buffer,
            start: None,
            check_crc: CheckCrc::No,
            next_offset: found.next_offset,
            ended: found.ended,
        })
    }
}
