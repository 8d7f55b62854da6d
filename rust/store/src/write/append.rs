//! The put lock and the code that runs under it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::ack::Acks;
use super::encode::{Encoded, Encoder, Target};
use super::queue_offsets::QueueOffsets;
use super::space::Space;
use crate::directory::deleted::Deletion;
use crate::types::{PutRequest, PutResult, PutStatus, Role};
use mq_base::clock::{Clock, shown};
use mq_format::message::{self, Assigned, BLANK_BYTES};
use mq_format::{multi_dispatch, properties};
use mq_log::fs::is_full;
use mq_log::{Stall, WriteError, Writer};

/// If the clock stepped back by less than this, store times wait for it to catch up.
const STEP_BACK_MAX_MS: i64 = 60_000;
/// A lock that seems held for longer is ignored; RocketMQ has the same limit.
const BUSY_ABSURD_MS: i64 = 10_000_000;
/// Most bytes of the encode buffer that a thread keeps for its next put.
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
    /// `osPageCacheBusyTimeOutMills`: if a put holds the lock longer, the disk counts as busy.
    pub(crate) busy_ms: i64,
    /// Monotonic time at which the put lock was taken; 0 if it is free.
    pub(crate) locked_at_ms: AtomicI64,
    /// Counts of stored messages; written under the put lock.
    pub(crate) counters: Counters,
    /// The writer's state: whether it waits for a slow disk to provide space.
    pub(crate) stall: Arc<Stall>,
    /// Only a master takes puts. Changes under the put lock.
    pub(crate) role: RoleCell,
    /// The put lock.
    pub(crate) tail: Mutex<Tail>,
}

/// Counts for the runtime info.
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

    /// Bytes of stored records.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds without a read-modify-write, because there is only one writer. An atomic addition would
    /// cost more than the rest of this function: it waits until the copied record has left the
    /// store buffer.
    fn add(&self, messages: i64, bytes: usize) {
        let messages = self.messages() + messages.unsigned_abs();
        self.messages.store(messages, Ordering::Relaxed);
        self.bytes
            .store(self.bytes() + bytes as u64, Ordering::Relaxed);
    }
}

/// A role that is read without the put lock, because a put may hold that lock for long.
#[derive(Debug)]
pub(crate) struct RoleCell(AtomicU8);

impl RoleCell {
    const ALL: [Role; 3] = [Role::Master, Role::Slave, Role::ReadOnly];

    pub(crate) fn new(role: Role) -> Self {
        Self(AtomicU8::new(role as u8))
    }

    fn get(&self) -> Role {
        Self::ALL[usize::from(self.0.load(Ordering::Acquire))]
    }

    fn set(&self, role: Role) {
        self.0.store(role as u8, Ordering::Release);
    }
}

/// The end of the log, guarded by the put lock.
pub(crate) struct Tail {
    pub(crate) writer: Writer,
    pub(crate) queue_offsets: QueueOffsets,
    pub(crate) is_closed: bool,
}

/// Why a record was not appended.
enum Refused {
    /// Final.
    With(PutStatus),
    /// The disk is slow to provide space: try again after the stall.
    NotReady,
    /// For good, and this put poisoned the store.
    Poisoned,
}

impl From<PutStatus> for Refused {
    fn from(status: PutStatus) -> Self {
        Self::With(status)
    }
}

impl Appender {
    /// Appends one message; None if the disk is slow to provide space. Then try again after the
    /// stall.
    pub(crate) fn put_one(&self, request: &PutRequest<'_>) -> Option<PutResult> {
        self.put(|encoded| self.encoder.encode_one(request, encoded))
    }

    /// Like [`Appender::put_one`], for a batch body: consecutive records in one file, all or none.
    pub(crate) fn put_batch(&self, request: &PutRequest<'_>) -> Option<PutResult> {
        self.put(|encoded| self.encoder.encode_batch(request, encoded))
    }

    /// Milliseconds since the current owner took the put lock, or since records began to wait for a
    /// slow disk to provide space; 0 if the lock is free. RocketMQ holds its lock while it waits.
    pub(crate) fn lock_held_ms(&self) -> i64 {
        let held_ms = match self.locked_at_ms.load(Ordering::Relaxed) {
            0 => 0,
            locked_at_ms => self.clock.rough_monotonic_ms() - locked_at_ms,
        };
        held_ms.max(self.stall.lasts_ms())
    }

    /// The deletions of these topics' messages as of now: end of the log, and next queue offsets.
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

    /// Refuses all later puts. Returns when the last put has ended.
    pub(crate) fn close(&self) {
        self.tail.lock().is_closed = true;
    }

    /// The role whose puts this takes, or refuses.
    pub(crate) fn role(&self) -> Role {
        self.role.get()
    }

    /// Changes the role. Returns when the last put in the old role has ended.
    pub(crate) fn set_role(&self, role: Role) {
        let _tail = self.tail.lock();
        self.role.set(role);
    }

    /// Continues the queues at these offsets.
    pub(crate) fn continue_at(&self, queue_offsets: QueueOffsets) {
        self.tail.lock().queue_offsets = queue_offsets;
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
        let result = SCRATCH.with_borrow_mut(|encoded| {
            let target = encode(encoded).map_err(Refused::With);
            let first = target.and_then(|target| self.append(target, encoded));
            let result = first.map(|first| put_result(first, &encoded.sizes));
            encoded.bytes.shrink_to(SCRATCH_BYTES_MAX);
            result
        });
        match result {
            Ok(result) => Some(result),
            Err(Refused::With(status)) => Some(PutResult::refused(status)),
            Err(Refused::NotReady) => None,
            Err(Refused::Poisoned) => {
                // Settle only now: a listener may put, and this thread holds no lock any more.
                self.acks.settle_poisoned();
                Some(PutResult::refused(PutStatus::ServiceNotAvailable))
            }
        }
    }

    /// The critical section, in this order:
    /// 1. Refuse if poisoned, closed or no master.
    /// 2. Select the file.
    /// 3. Take the store timestamp.
    /// 4. Take the queue offset.
    /// 5. Patch these into the records.
    /// 6. Copy the records and advance the end of the log.
    /// 7. Advance the next queue offsets and the newest timestamp.
    fn append(&self, target: Target<'_>, encoded: &mut Encoded) -> Result<Assigned, Refused> {
        let mut tail = self.tail.lock();
        let _timer = LockTimer::start(&self.locked_at_ms, self.clock.rough_monotonic_ms());
        if self.role() != Role::Master || tail.is_closed || self.acks.poison().is_some() {
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
        // After the log's end: a reader of this timestamp finds its record before the end.
        self.last_store_timestamp_ms
            .store(store_timestamp_ms, Ordering::Release);
        Ok(first)
    }

    /// Adds the message's offsets in the queues it names. They are taken when it is written.
    fn add_multi_offsets(
        &self,
        queue_offsets: &mut QueueOffsets,
        target: Target<'_>,
        encoded: &mut Encoded,
    ) -> Result<Vec<i64>, PutStatus> {
        let lmq_enabled = self.encoder.multi_dispatch.lmq_enabled;
        let multi = queue_offsets.multi(encoded.text(), target.queue_id, lmq_enabled);
        let value = multi_dispatch::join_offsets(&multi);
        // RocketMQ also returns UNKNOWN_ERROR.
        match encoded.add_property(properties::INNER_MULTI_QUEUE_OFFSET, value.as_bytes()) {
            true => Ok(multi),
            false => Err(PutStatus::UnknownError),
        }
    }

    /// Ends the file with a blank record if the records and another blank record do not fit.
    fn make_room(&self, writer: &mut Writer, bytes: usize) -> Result<(), Refused> {
        let needed = (bytes + BLANK_BYTES) as u64;
        if needed > writer.segments().file_size() {
            return Err(PutStatus::MessageIllegal.into());
        }
        let remaining = writer.remaining();
        if needed <= remaining {
            return Ok(());
        }
        // Files are below 2 GiB, because a blank record holds the rest of its file as an int.
        let filler = message::blank(u32::try_from(remaining).unwrap_or(u32::MAX));
        writer
            .roll(&[&filler])
            .map_err(|error| self.write_failed(&error))
    }

    /// The current time, or the newest record's time while the clock is slightly behind it.
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
                tracing::error!("cannot allocate blocks or a file for the commit log: {cause}");
                PutStatus::CreateMappedFileFailed
            }
            WriteError::Failed(cause) => {
                let reason = format!("append to the commit log: {cause}");
                self.acks.poison_silently(reason);
                return Refused::Poisoned;
            }
        };
        Refused::With(status)
    }
}

/// Patches consecutive records; returns their number.
fn patch_all(encoded: &mut Encoded, first: Assigned) -> i64 {
    let mut next = first;
    let mut start = 0;
    for size in &encoded.sizes {
        // The bytes of a single record lack its body.
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
        // Fits, because a file is below 2 GiB, and a batch is in one file.
        size_bytes: i32::try_from(end - first.physical_offset).unwrap_or(i32::MAX),
        queue_offset: first.queue_offset,
        store_timestamp_ms: first.store_timestamp_ms,
        record_offsets,
    }
}

/// Publishes the time at which the put lock was taken.
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
