//! Whether bytes in the log are a record, and whether all of it was written.

use crate::settings::MultiDispatch;
use mq_format::message::{CheckCrc, RecordView};

/// A disk writes so many bytes at a time, whole.
const SECTOR_BYTES: usize = 512;

/// A record that is whole and where it says. No topic holds zeros, lost bytes do.
pub fn good_record(offset: u64, bytes: &[u8]) -> Option<RecordView<'_>> {
    placed_record(offset, bytes, CheckCrc::Yes)
}

fn placed_record(offset: u64, bytes: &[u8], check: CheckCrc) -> Option<RecordView<'_>> {
    let record = RecordView::parse(bytes, check).ok()?;
    let is_sound = record.physical_offset == offset.cast_signed() && !record.topic.contains('\0');
    is_sound.then_some(record)
}

/// How far records are believed. The checksum covers the body alone, so a record whose
/// properties did not reach the disk looks whole: they read as zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Belief {
    /// What was stored up to here reached the disk, milliseconds since the epoch.
    pub durable_ms: i64,
    /// Whether bodies are compared with their checksums.
    pub body_crc: CheckCrc,
    /// Bytes of a file of the log.
    pub file_bytes: u64,
    /// A clean stop recorded where the log ends: a record before bad bytes is doubted whenever
    /// it was stored.
    pub is_end_known: bool,
    /// Which queues more a record is in.
    pub multi_dispatch: MultiDispatch,
}

impl Belief {
    /// The record, if it is good and no sector of it is missing.
    pub(super) fn record<'a>(&self, offset: u64, bytes: &'a [u8]) -> Option<RecordView<'a>> {
        let record = placed_record(offset, bytes, self.body_crc)?;
        let is_whole = record.store_timestamp_ms <= self.durable_ms
            || !self.has_lost_sector(offset, bytes.len(), record.properties);
        is_whole.then_some(record)
    }

    /// Whether the end of a record may be missing. It is there if something was written right
    /// behind it, into the same sector.
    pub(super) fn is_doubtful(&self, record: &RecordView<'_>) -> bool {
        let is_recent = record.store_timestamp_ms > self.durable_ms;
        record.properties.ends_with(&[0]) && (self.is_end_known || is_recent)
    }

    /// Whether properties are zero where a sector ends: a lost sector, or the lost end of one,
    /// reads as zeros, and where a sector ends there is text.
    fn has_lost_sector(&self, offset: u64, size: usize, properties: &[u8]) -> bool {
        let end = usize::try_from(offset % self.file_bytes).unwrap_or(0) + size;
        let from = end - properties.len();
        let mut ends = (from / SECTOR_BYTES + 1..=end / SECTOR_BYTES).map(|at| at * SECTOR_BYTES);
        ends.any(|at| properties.get(at - from - 1) == Some(&0))
    }
}
