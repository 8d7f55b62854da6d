//! The one check that a record passes before it leaves the store.
//!
//! RocketMQ delivers what it finds where a queue entry points. Here a record has to agree with the
//! entry and with itself: size, magic, position, queue, the lengths of its fields, the checksum of
//! its body. What the format has no checksum for, such as the properties, cannot be checked.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thiserror::Error;

use crate::recover::is_stand_in;
use mq_format::message::{self, CheckCrc, Head, Outline, RecordError, RecordView, sys_flag};
use mq_format::multi_dispatch;

/// Offsets of damaged records remembered, so that each is logged once; more are logged again.
const REMEMBERED_MAX: usize = 4_096;

/// Where a queue has a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) topic: &'a str,
    pub(crate) queue_id: i32,
    pub(crate) queue_offset: i64,
}

/// Why bytes are not the record that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Wrong {
    /// Recovery found damage there and wrote this over it: it was reported then.
    #[error("it stands in for a damaged record")]
    StandsIn,
    #[error("the queue entry leads behind the end of the log")]
    Beyond,
    #[error("its file ends before its {size} bytes do")]
    Short { size: usize },
    #[error("its size is not the {expected} bytes of the queue entry")]
    Size { expected: usize },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("it says that it starts at {stated}")]
    Position { stated: i64 },
    #[error("it is of a type that no queue has")]
    Type,
    #[error("it belongs to another queue or queue offset")]
    Place,
}

/// Checks that `bytes` are exactly one record, which starts at `physical_offset`.
#[inline]
pub(crate) fn check(bytes: &[u8], physical_offset: i64) -> Result<Outline<'_>, Wrong> {
    if Head::parse(bytes) != Head::Record(bytes.len()) {
        return Err(not_alone(bytes, physical_offset));
    }
    match message::stated_offset(bytes) {
        Some(stated) if stated != physical_offset => Err(Wrong::Position { stated }),
        _ => Ok(Outline::parse_checked(bytes)?),
    }
}

/// As [`check`], for the record of a queue entry.
#[inline]
pub(crate) fn check_queued(
    bytes: &[u8],
    physical_offset: i64,
    place: Place<'_>,
) -> Result<(), Wrong> {
    let record = check(bytes, physical_offset)?;
    if !sys_flag::is_queued(record.sys_flag) {
        return Err(of_no_queue(bytes));
    }
    let is_there = record.queue_offset == place.queue_offset
        && record.queue_id == place.queue_id
        && record.topic == place.topic;
    match is_there || is_dispatched_to(&record, place) {
        true => Ok(()),
        false => Err(Wrong::Place),
    }
}

/// Whether the record names the queue beside its own.
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
fn not_alone(bytes: &[u8], physical_offset: i64) -> Wrong {
    // One that was written over damage may be longer or shorter than what was there.
    match Head::parse(bytes) {
        Head::Record(_) => match RecordView::parse(bytes, CheckCrc::Yes) {
            Ok(record) if record.physical_offset == physical_offset && is_stand_in(&record) => {
                Wrong::StandsIn
            }
            _ => Wrong::Size {
                expected: bytes.len(),
            },
        },
        Head::Blank => RecordError::Blank.into(),
        Head::Neither => match RecordView::parse(bytes, CheckCrc::No) {
            Err(error) => error.into(),
            Ok(_) => Wrong::Size {
                expected: bytes.len(),
            },
        },
    }
}

#[cold]
fn of_no_queue(bytes: &[u8]) -> Wrong {
    match RecordView::parse(bytes, CheckCrc::No) {
        Ok(record) if is_stand_in(&record) => Wrong::StandsIn,
        _ => Wrong::Type,
    }
}

/// Counts the damaged records that were not given to anybody, and logs each once.
#[derive(Debug, Default)]
pub(crate) struct DamagedRecords {
    skipped: AtomicU64,
    logged: Mutex<BTreeSet<i64>>,
}

impl DamagedRecords {
    /// How many times a damaged record was left out of an answer.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// A record is left out.
    #[cold]
    pub(crate) fn note(&self, physical_offset: i64, place: Option<Place<'_>>, wrong: Wrong) {
        if wrong == Wrong::StandsIn {
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
                "skipping a damaged record: {wrong}; check the store with: mqstore verify"
            ),
            None => tracing::error!(
                offset,
                "skipping a damaged record: {wrong}; check the store with: mqstore verify"
            ),
        }
    }
}
