//! Checks whether bytes of the log are a record. Recovery asks whether all of it was written; for
//! readers, this is the one check of a record before it leaves the store.
//!
//! RocketMQ delivers the bytes to which a queue entry points. Here a record must agree with the
//! entry and with itself: size, magic, position, queue, lengths of fields, checksum of the body.
//! Properties and other fields without a checksum cannot be checked.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thiserror::Error;

use crate::settings::MultiDispatch;
use mq_format::message::{self, CheckCrc, Head, Outline, RecordError, RecordView, sys_flag};
use mq_format::multi_dispatch;

/// Bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 512;
/// Topic of stand-in records, so that a person who finds one knows its origin.
pub(crate) const STAND_IN_TOPIC: &str = "MQSTACK_REPAIRED";
/// Most remembered offsets of damaged records. Each is logged once while it is remembered.
const REMEMBERED_MAX: usize = 4_096;

/// The record, if it is whole and at its position. A topic with zero bytes means lost bytes.
pub fn good_record(offset: u64, bytes: &[u8]) -> Option<RecordView<'_>> {
    placed_record(offset, bytes, CheckCrc::Yes)
}

fn placed_record(offset: u64, bytes: &[u8], check: CheckCrc) -> Option<RecordView<'_>> {
    let record = RecordView::parse(bytes, check).ok()?;
    let is_sound = record.physical_offset == offset.cast_signed() && !record.topic.contains('\0');
    is_sound.then_some(record)
}

/// How far records are trusted. The checksum covers only the body. So a record looks whole even if
/// its properties did not reach the disk; they read as zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Belief {
    /// Records stored up to this time reached the disk, milliseconds since the epoch.
    pub durable_ms: i64,
    /// Whether bodies are compared with their checksums.
    pub body_crc: CheckCrc,
    /// Length of a log file, bytes.
    pub file_bytes: u64,
    /// A clean stop recorded the end of the log. Then a record before bad bytes is doubtful at any
    /// store time.
    pub is_end_known: bool,
    /// How to find the further queues of a record.
    pub multi_dispatch: MultiDispatch,
}

impl Belief {
    /// Trusts every whole record.
    pub(crate) fn in_all(file_bytes: u64) -> Self {
        Self {
            durable_ms: i64::MAX,
            body_crc: CheckCrc::Yes,
            file_bytes,
            is_end_known: false,
            multi_dispatch: MultiDispatch::default(),
        }
    }

    /// The record, if it is valid and no sector of it is missing.
    pub(crate) fn record<'a>(&self, offset: u64, bytes: &'a [u8]) -> Option<RecordView<'a>> {
        let record = placed_record(offset, bytes, self.body_crc)?;
        let is_whole = record.store_timestamp_ms <= self.durable_ms
            || !self.has_lost_sector(offset, bytes.len(), record.properties);
        is_whole.then_some(record)
    }

    /// Whether the end of a record may be missing. It is not if bytes follow directly, in the same
    /// sector.
    pub(crate) fn is_doubtful(&self, record: &RecordView<'_>) -> bool {
        let is_recent = record.store_timestamp_ms > self.durable_ms;
        record.properties.ends_with(&[0]) && (self.is_end_known || is_recent)
    }

    /// Whether the properties are zero at the end of a sector. A sector whose end was lost reads as
    /// zeros there, but properties text has no zeros.
    fn has_lost_sector(&self, offset: u64, size: usize, properties: &[u8]) -> bool {
        let end = usize::try_from(offset % self.file_bytes).unwrap_or(0) + size;
        let from = end - properties.len();
        let mut ends = (from / SECTOR_BYTES + 1..=end / SECTOR_BYTES).map(|at| at * SECTOR_BYTES);
        ends.any(|at| properties.get(at - from - 1) == Some(&0))
    }
}

/// Whether a record was written over damage.
pub fn is_stand_in(record: &RecordView<'_>) -> bool {
    sys_flag::is_rollback(record.sys_flag) && STAND_IN_TOPIC.starts_with(record.topic)
}

/// The queue position of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) topic: &'a str,
    pub(crate) queue_id: i32,
    pub(crate) queue_offset: i64,
}

/// Why bytes are not the wanted record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum RecordFault {
    /// Recovery found damage here, reported it, and wrote this record over it.
    #[error("it is a stand-in for a damaged record")]
    StandsIn,
    #[error("its queue entry points beyond the end of the log")]
    Beyond,
    #[error("its file ends before its {size} bytes")]
    Short { size: usize },
    #[error("its size differs from the {expected} bytes of its queue entry")]
    Size { expected: usize },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("it says that it starts at offset {stated}")]
    Position { stated: i64 },
    #[error("its type is never in a queue")]
    Type,
    #[error("it belongs to another queue or queue offset")]
    Place,
}

/// Checks that `bytes` are exactly one record, which starts at `physical_offset`.
#[inline]
pub(crate) fn check(bytes: &[u8], physical_offset: i64) -> Result<Outline<'_>, RecordFault> {
    if Head::parse(bytes) != Head::Record(bytes.len()) {
        return Err(not_alone(bytes, physical_offset));
    }
    match message::stated_offset(bytes) {
        Some(stated) if stated != physical_offset => Err(RecordFault::Position { stated }),
        _ => Ok(Outline::parse_checked(bytes)?),
    }
}

/// Like [`check`], for the record of a queue entry.
#[inline]
pub(crate) fn check_queued(
    bytes: &[u8],
    physical_offset: i64,
    place: Place<'_>,
) -> Result<(), RecordFault> {
    let record = check(bytes, physical_offset)?;
    if !sys_flag::is_queued(record.sys_flag) {
        return Err(of_no_queue(bytes));
    }
    let is_there = record.queue_offset == place.queue_offset
        && record.queue_id == place.queue_id
        && record.topic == place.topic;
    match is_there || is_dispatched_to(&record, place) {
        true => Ok(()),
        false => Err(RecordFault::Place),
    }
}

/// Whether the record names this queue by multi-dispatch.
#[cold]
fn is_dispatched_to(record: &Outline<'_>, place: Place<'_>) -> bool {
    let is_it = |(name, offset): (&str, i64)| {
        let ids = [true, false]
            .map(|is_light| multi_dispatch::queue_id_in(name, record.queue_id, is_light));
        (name, offset) == (place.topic, place.queue_offset) && ids.contains(&place.queue_id)
    };
    multi_dispatch::dispatches(record.properties).any(is_it)
}

#[cold]
fn not_alone(bytes: &[u8], physical_offset: i64) -> RecordFault {
    // A record that was written over damage may have another length than the lost one.
    match Head::parse(bytes) {
        Head::Record(_) => match RecordView::parse(bytes, CheckCrc::Yes) {
            Ok(record) if record.physical_offset == physical_offset && is_stand_in(&record) => {
                RecordFault::StandsIn
            }
            _ => RecordFault::Size {
                expected: bytes.len(),
            },
        },
        Head::Blank => RecordError::Blank.into(),
        Head::Neither => match RecordView::parse(bytes, CheckCrc::No) {
            Err(error) => error.into(),
            Ok(_) => RecordFault::Size {
                expected: bytes.len(),
            },
        },
    }
}

#[cold]
fn of_no_queue(bytes: &[u8]) -> RecordFault {
    match RecordView::parse(bytes, CheckCrc::No) {
        Ok(record) if is_stand_in(&record) => RecordFault::StandsIn,
        _ => RecordFault::Type,
    }
}

/// Counts the damaged records that readers skipped, and logs each once.
#[derive(Debug, Default)]
pub(crate) struct DamagedRecords {
    skipped: AtomicU64,
    logged: Mutex<BTreeSet<i64>>,
}

impl DamagedRecords {
    /// Number of times a damaged record was skipped.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Notes that a record is skipped.
    #[cold]
    pub(crate) fn note(&self, physical_offset: i64, place: Option<Place<'_>>, wrong: RecordFault) {
        if wrong == RecordFault::StandsIn {
            return;
        }
        self.skipped.fetch_add(1, Ordering::Relaxed);
        let mut logged = self.logged.lock();
        if logged.len() >= REMEMBERED_MAX {
            logged.pop_first();
        }
        if !logged.insert(physical_offset) {
            return;
        }
        drop(logged);
        let offset = physical_offset;
        match place {
            Some(Place {
                topic,
                queue_id,
                queue_offset,
            }) => tracing::error!(
                offset,
                topic,
                queue_id,
                queue_offset,
                "skipped a damaged record: {wrong}; check the store with: mqstore verify"
            ),
            None => tracing::error!(
                offset,
                "skipped a damaged record: {wrong}; check the store with: mqstore verify"
            ),
        }
    }
}
