//! Work on the log in threads, a few chunks ahead of whoever takes the results.
//!
//! One thread at a time reads the next chunk; what is made of it, each makes by itself. Results
//! are taken in the order of the log. Threads end with the log, or within a chunk of the end of
//! the [`Ahead`]; nobody waits for them, and what they run must not wait for anybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::fields::Fields;
use super::scan::Scan;
use super::select::{Ended, Filter};
use mq_format::message::CheckCrc;
use mq_store::StoreError;
use mq_store::inspect::io_error;

/// Chunks under way or waiting to be taken, at most.
const CHUNKS_MAX: u64 = 4;
/// Threads, at most: so many would outrun any user of the results.
const THREADS_MAX: usize = 4;

/// Where to begin and which records are wanted; [`Filter`] says what the fields mean.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Physical offset of the first record.
    pub offset: i64,
    /// About how many bytes of records to take at once.
    pub chunk_bytes: usize,
    /// Records that start here, or behind, do not count.
    pub stop: Option<i64>,
    /// Topic.
    pub topic: Option<String>,
    /// Queue.
    pub queue_id: Option<i32>,
    /// Tag.
    pub tag: Option<String>,
    /// First store time.
    pub begin_ms: Option<i64>,
    /// Last store time.
    pub end_ms: Option<i64>,
    /// Whether a body that does not match its checksum ends it.
    pub check_crc: CheckCrc,
}

impl Wanted {
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

/// What was made of a chunk.
#[derive(Debug)]
pub struct Made<T> {
    /// The result.
    pub made: T,
    /// Where the next chunk begins.
    pub next_offset: i64,
    /// Why there is no more, if so: then this is the last.
    pub ended: Ended,
}

/// Records that were read.
pub struct Part<'a> {
    bytes: &'a [u8],
    /// Where in the log they must say that they are; None: they were checked.
    start: Option<i64>,
    check_crc: CheckCrc,
    next_offset: i64,
    ended: Ended,
}

impl<'a> Part<'a> {
    /// All its bytes, as they were read.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Gives every record to `each`, up to one that is none: the chunk ends there.
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

/// Makes something of each chunk; every thread has its own.
pub trait Work: Send {
    /// What it makes.
    type Made: Send;
    /// Makes it.
    fn make(&mut self, part: &mut Part<'_>) -> Self::Made;
}

/// Results in the order of the log; see the module.
pub struct Ahead<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    scan: Arc<Scan>,
    wanted: Wanted,
    reading: Mutex<Reading>,
    results: Mutex<Results<T>>,
    /// A result came, one was taken, or nobody wants more.
    changed: Condvar,
}

/// Where the next chunk begins.
struct Reading {
    offset: i64,
    number: u64,
    is_over: bool,
}

struct Results<T> {
    made: BTreeMap<u64, Result<Made<T>, StoreError>>,
    /// Number of the one to be taken next.
    next: u64,
    is_stopped: bool,
    threads: usize,
}

impl<T: Send + 'static> Ahead<T> {
    /// Starts as many threads as there are processors, each with work of its own.
    pub fn start<W>(
        scan: Arc<Scan>,
        wanted: Wanted,
        work: impl Fn() -> W,
    ) -> Result<Self, StoreError>
    where
        W: Work<Made = T> + 'static,
    {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            reading: Mutex::new(Reading {
                offset: wanted.offset,
                number: 0,
                is_over: false,
            }),
            results: Mutex::new(Results {
                made: BTreeMap::new(),
                next: 0,
                is_stopped: false,
                threads: 0,
            }),
            changed: Condvar::new(),
            scan,
            wanted,
        });
        let ahead = Self { shared };
        for _ in 0..threads.min(THREADS_MAX) {
            let (shared, work) = (Arc::clone(&ahead.shared), work());
            shared.results.lock().threads += 1;
            let run = Running(shared);
            let builder = thread::Builder::new().name("mqstore-ahead".into());
            let spawned = builder.spawn(move || run.0.work(work));
            spawned.map_err(io_error("a thread to read the log".as_ref()))?;
        }
        Ok(ahead)
    }

    /// The next result; None if there is none yet after a while.
    pub fn take(&self, patience: Duration) -> Option<Result<Made<T>, StoreError>> {
        let until = Instant::now() + patience;
        let mut results = self.shared.results.lock();
        let number = results.next;
        loop {
            if let Some(made) = results.made.remove(&number) {
                results.next += 1;
                self.shared.changed.notify_all();
                return Some(made);
            }
            if results.threads == 0 {
                let lost = std::io::Error::other("the threads that read it are gone");
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

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        let mut results = self.shared.results.lock();
        results.is_stopped = true;
        results.made.clear();
        self.shared.changed.notify_all();
    }
}

/// A thread at work; notices when it ends, however that is.
struct Running<T>(Arc<Shared<T>>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.results.lock().threads -= 1;
        self.0.changed.notify_all();
    }
}

impl<T: Send> Shared<T> {
    fn work<W: Work<Made = T>>(&self, mut work: W) {
        let mut buffer = Vec::new();
        loop {
            let mut reading = self.reading.lock();
            let number = reading.number;
            if reading.is_over || !self.is_wanted(number) {
                return;
            }
            let part = self.read(reading.offset, &mut buffer);
            reading.number += 1;
            reading.is_over = true;
            if let Ok(part) = &part {
                reading.offset = part.next_offset;
                reading.is_over = part.ended != Ended::More;
            }
            drop(reading);
            let made = part.map(|mut part| Made {
                made: work.make(&mut part),
                next_offset: part.next_offset,
                ended: part.ended,
            });
            self.results.lock().made.insert(number, made);
            self.changed.notify_all();
        }
    }

    /// Waits until a chunk may be read; false if nobody wants it any more.
    fn is_wanted(&self, number: u64) -> bool {
        let mut results = self.results.lock();
        while !results.is_stopped && number >= results.next + CHUNKS_MAX {
            self.changed.wait(&mut results);
        }
        !results.is_stopped
    }

    fn read<'a>(&self, offset: i64, buffer: &'a mut Vec<u8>) -> Result<Part<'a>, StoreError> {
        let wanted = &self.wanted;
        let filter = wanted.filter();
        let start = offset.max(0);
        if filter.is_for_all() {
            let at = start.cast_unsigned();
            let stretch = self
                .scan
                .stretch(at, wanted.chunk_bytes, wanted.stop, buffer)?;
            if let Some(stretch) = stretch {
                return Ok(Part {
                    bytes: &buffer[..stretch.bytes],
                    start: Some(start),
                    check_crc: wanted.check_crc,
                    next_offset: stretch.next_offset,
                    ended: stretch.ended,
                });
            }
        }
        let chunk_bytes = wanted.chunk_bytes;
        let found = self
            .scan
            .select(offset, chunk_bytes, &filter, wanted.check_crc)?;
        *buffer = found.bytes;
        Ok(Part {
            bytes: buffer,
            start: None,
            check_crc: CheckCrc::No,
            next_offset: found.next_offset,
            ended: found.ended,
        })
    }
}
