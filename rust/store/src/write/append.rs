//! The put lock and what happens under it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::ack::Acks;
use super::encode::{Encoded, Encoder, Target};
use super::queue_offsets::QueueOffsets;
use super::space::Space;
use crate::directory::deleted::Deletion;
use crate::types::{PutRequest, PutResult, PutStatus};
use mq_base::clock::{Clock, shown};
use mq_format::message::{self, Assigned, BLANK_BYTES};
use mq_format::{multi_dispatch, properties};
use mq_log::fs::is_full;
use mq_log::{Stall, WriteError, Writer};

/// A clock that stepped back by less than this is waited out, not followed.
const STEP_BACK_MAX_MS: i64 = 60_000;
/// A lock held this long is not believed; RocketMQ's limit, too.
const BUSY_ABSURD_MS: i64 = 10_000_000;
/// Encoded bytes a thread keeps for its next put.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static SCRATCH: RefCell<Encoded> = RefCell::default();
}

/// Appends records to the log.
pub(crate) struct Appender {
    pub(crate) encoder: Encoder,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) acks: Arc<Acks>,
    pub(crate) space: Arc<Space>,
    /// Store timestamp of the newest record.
    pub(crate) last_store_timestamp_ms: Arc<AtomicI64>,
    /// `osPageCacheBusyTimeOutMills`: the put lock held longer means that the disk lags behind.
    pub(crate) busy_ms: i64,
    /// Monotonic time the put lock was taken, 0 when free.
    pub(crate) locked_at_ms: AtomicI64,
    /// What was stored; written under the put lock.
    pub(crate) counters: Counters,
    /// The writer's: whether the disk has yet to make room for the next record.
    pub(crate) stall: Arc<Stall>,
    /// The put lock.
    pub(crate) tail: Mutex<Tail>,
}

/// What runtime info tells of puts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    /// Messages stored.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Bytes of their records.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// There is one writer, so no read-modify-write is needed, which would cost more than all
    /// else here: it waits until the record's copy is out of the processor.
    fn add(&self, messages: i64, bytes: usize) {
        let messages = self.messages() + messages.unsigned_abs();
        self.messages.store(messages, Ordering::Relaxed);
        self.bytes
            .store(self.bytes() + bytes as u64, Ordering::Relaxed);
    }
}

/// What the put lock guards: the end of the log.
pub(crate) struct Tail {
    pub(crate) writer: Writer,
    pub(crate) queue_offsets: QueueOffsets,
    pub(crate) is_closed: bool,
}

/// Why a record is not in the log.
enum Refused {
    /// For good.
    With(PutStatus),
    /// The disk is slow to make room: another try after the stall.
    NotReady,
}

impl From<PutStatus> for Refused {
    fn from(status: PutStatus) -> Self {
        Self::With(status)
    }
}

impl Appender {
    /// Appends one message; None where the disk is slow to make room for it, until the stall is
    /// over.
    pub(crate) fn put_one(&self, request: &PutRequest<'_>) -> Option<PutResult> {
        self.put(|encoded| self.encoder.encode_one(request, encoded))
    }

    /// As [`Appender::put_one`], a batch body as consecutive records of one file, all or none.
    pub(crate) fn put_batch(&self, request: &PutRequest<'_>) -> Option<PutResult> {
        self.put(|encoded| self.encoder.encode_batch(request, encoded))
    }

    /// Milliseconds the put lock has been held by its present owner, or records have waited for
    /// room that a slow disk has yet to make; 0 when free. RocketMQ holds its lock meanwhile.
    pub(crate) fn lock_held_ms(&self) -> i64 {
        let held_ms = match self.locked_at_ms.load(Ordering::Relaxed) {
            0 => 0,
            locked_at_ms => self.clock.rough_monotonic_ms() - locked_at_ms,
        };
        held_ms.max(self.stall.lasts_ms())
    }

    /// What it means to delete the messages of these topics now.
    pub(crate) fn deletions(
        &self,
        is_unwanted: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, Deletion> {
        let tail = self.tail.lock();
        let log_end = tail.writer.position().cast_signed();
        let topics = tail.queue_offsets.of_topics(is_unwanted);
        let topics = topics.filter(|(_, next_offsets)| !next_offsets.is_empty());
        topics
            .map(|(topic, next_offsets)| {
                let deletion = Deletion {
                    log_end,
                    next_offsets,
                };
                (topic.to_owned(), deletion)
            })
            .collect()
    }

    /// Refuses every later put; returns when the last one is through.
    pub(crate) fn close(&self) {
        self.tail.lock().is_closed = true;
    }

    fn put<'a>(
        &self,
        encode: impl FnOnce(&mut Encoded) -> Result<Target<'a>, PutStatus>,
    ) -> Option<PutResult> {
        if self.space.is_full() {
            return Some(PutResult::refused(PutStatus::ServiceNotAvailable));
        }
        let held_ms = self.lock_held_ms();
        if held_ms > self.busy_ms && held_ms < BUSY_ABSURD_MS {
            return Some(PutResult::refused(PutStatus::OsPageCacheBusy));
        }
        SCRATCH.with_borrow_mut(|encoded| {
            let target = encode(encoded).map_err(Refused::With);
            let result = match target.and_then(|target| self.append(target, encoded)) {
                Ok(first) => Some(put_result(first, &encoded.sizes)),
                Err(Refused::With(status)) => Some(PutResult::refused(status)),
                Err(Refused::NotReady) => None,
            };
            encoded.bytes.shrink_to(SCRATCH_BYTES_MAX);
            result
        })
    }

    /// The critical section. Its order: (1) refuse if poisoned or closed, (2) pick the file,
    /// (3) store timestamp, (4) queue offset, (5) patch, (6) copy and advance the log's end,
    /// (7) advance the queues' ends and the newest timestamp.
    fn append(&self, target: Target<'_>, encoded: &mut Encoded) -> Result<Assigned, Refused> {
        let mut tail = self.tail.lock();
        let _timer = LockTimer::start(&self.locked_at_ms, self.clock.rough_monotonic_ms());
        if tail.is_closed || self.acks.poison().is_some() {
            return Err(PutStatus::ServiceNotAvailable.into());
        }
        let Tail {
            writer,
            queue_offsets,
            ..
        } = &mut *tail;
        let multi = match encoded.is_multi_dispatch {
            true => Some(self.add_multi_offsets(queue_offsets, target, encoded)?),
            false => None,
        };
        let bytes = encoded.bytes.len() + target.body.len();
        self.make_room(writer, bytes)?;
        let store_timestamp_ms = self.store_timestamp_ms();
        let mut unqueued = 0;
        let next_offset = match target.is_queued {
            true => queue_offsets.entry(target.topic, target.queue_id),
            false => &mut unqueued,
        };
        let first = Assigned {
            queue_offset: *next_offset,
            physical_offset: writer.position().cast_signed(),
            store_timestamp_ms,
        };
        let count = patch_all(encoded, first);
        writer
            .write(&encoded.around(target.body))
            .map_err(|error| self.write_failed(&error))?;
        *next_offset += count;
        if let Some(multi) = multi
            && target.is_queued
        {
            let lmq_enabled = self.encoder.multi_dispatch.lmq_enabled;
            queue_offsets.advance_multi(encoded.text(), target.queue_id, lmq_enabled, &multi);
        }
        self.counters.add(count, bytes);
        // After the log's end moved: whoever reads this first, finds the record below the end.
        self.last_store_timestamp_ms
            .store(store_timestamp_ms, Ordering::Release);
        Ok(first)
    }

    /// Adds the message's offsets in the queues it names; they are taken once it is written.
    fn add_multi_offsets(
        &self,
        queue_offsets: &mut QueueOffsets,
        target: Target<'_>,
        encoded: &mut Encoded,
    ) -> Result<Vec<i64>, PutStatus> {
        let lmq_enabled = self.encoder.multi_dispatch.lmq_enabled;
        let multi = queue_offsets.multi(encoded.text(), target.queue_id, lmq_enabled);
        let value = multi_dispatch::join_offsets(&multi);
        // RocketMQ answers UNKNOWN_ERROR, too.
        match encoded.add_property(properties::INNER_MULTI_QUEUE_OFFSET, value.as_bytes()) {
            true => Ok(multi),
            false => Err(PutStatus::UnknownError),
        }
    }

    /// Ends the file with the filler if the records and another filler do not fit behind it.
    fn make_room(&self, writer: &mut Writer, bytes: usize) -> Result<(), Refused> {
        let needed = (bytes + BLANK_BYTES) as u64;
        if needed > writer.segments().file_size() {
            return Err(PutStatus::MessageIllegal.into());
        }
        let remaining = writer.remaining();
        if needed <= remaining {
            return Ok(());
        }
        // RocketMQ's files are below 2 GiB: the filler states the rest as an int.
        let filler = message::blank(u32::try_from(remaining).unwrap_or(u32::MAX));
        writer
            .roll(&[&filler])
            .map_err(|error| self.write_failed(&error))
    }

    /// Now, or the newest record's time while the clock is a little behind it.
    fn store_timestamp_ms(&self) -> i64 {
        let now_ms = self.clock.wall_ms();
        let last_ms = self.last_store_timestamp_ms.load(Ordering::Relaxed);
        match last_ms - now_ms {
            behind if behind <= 0 => now_ms,
            behind if behind < STEP_BACK_MAX_MS => last_ms,
            _ => {
                let (from, to) = (shown(last_ms), shown(now_ms));
                tracing::warn!("the clock stepped back from {from} to {to}; store times follow it");
                now_ms
            }
        }
    }

    fn write_failed(&self, error: &WriteError) -> Refused {
        let status = match error {
            WriteError::NotReady => return Refused::NotReady,
            WriteError::NoRoom(cause) if is_full(cause) => {
                self.space
                    .note_full(format!("no blocks for the commit log: {cause}"));
                PutStatus::ServiceNotAvailable
            }
            WriteError::NoRoom(cause) => {
                tracing::error!("the commit log gets no blocks or no file: {cause}");
                PutStatus::CreateMappedFileFailed
            }
            WriteError::Failed(cause) => {
                self.acks.fail(format!("append to the commit log: {cause}"));
                PutStatus::ServiceNotAvailable
            }
        };
        Refused::With(status)
    }
}

/// Patches consecutive records; returns how many there are.
fn patch_all(encoded: &mut Encoded, first: Assigned) -> i64 {
    let mut next = first;
    let mut start = 0;
    for size in &encoded.sizes {
        // Of a single record less is there: its body is not.
        let end = encoded.bytes.len().min(start + size);
        message::patch(&mut encoded.bytes[start..end], next);
        start += size;
        next.physical_offset = first.physical_offset + start as i64;
        next.queue_offset += 1;
    }
    next.queue_offset - first.queue_offset
}

fn put_result(first: Assigned, sizes: &[usize]) -> PutResult {
    let mut end = first.physical_offset;
    let offset_of = |size: &usize| {
        let start = end;
        end += *size as i64;
        start
    };
    let record_offsets = sizes.iter().map(offset_of).collect();
    PutResult {
        status: PutStatus::Ok,
        physical_offset: first.physical_offset,
        // A file, and so a batch, is below 2 GiB.
        size_bytes: i32::try_from(end - first.physical_offset).unwrap_or(i32::MAX),
        queue_offset: first.queue_offset,
        store_timestamp_ms: first.store_timestamp_ms,
        record_offsets,
    }
}

/// Tells others how long the put lock has been held.
struct LockTimer<'a>(&'a AtomicI64);

impl<'a> LockTimer<'a> {
    fn start(locked_at_ms: &'a AtomicI64, now_ms: i64) -> Self {
        locked_at_ms.store(now_ms.max(1), Ordering::Relaxed);
        Self(locked_at_ms)
    }
}

impl Drop for LockTimer<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
