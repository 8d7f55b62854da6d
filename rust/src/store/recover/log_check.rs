//! Checking the log record by record, and finding where it ends.

use std::path::Path;

use super::damage::{self, LastSeen};
use super::heal::heal;
use super::log_io;
use crate::format::message::{CheckCrc, RecordView};
use crate::log::{Files, Segments};
use crate::store::types::StoreError;
use crate::store::walk::{Step, Walk};

/// A walk over the log that checks every record.
pub(super) struct LogCheck<'a, F: Files> {
    root: &'a Path,
    log: &'a Segments<F>,
    heals: bool,
    /// After a clean stop: no record lies at or beyond this offset, bad bytes there end the log.
    known_end: Option<u64>,
    healed: Vec<(u64, u64)>,
    last_seen: LastSeen,
    missing_from: Option<u64>,
    /// Offset and store time of records in log order, one per so many bytes of log.
    marks: Vec<(u64, i64)>,
}

/// Bytes of log between two marks.
const MARK_BYTES: u64 = 64 << 10;
/// A disk writes so many bytes at a time, whole.
const SECTOR_BYTES: u64 = 512;

impl<'a, F: Files> LogCheck<'a, F> {
    /// A check of `log`; damage is healed, or refused.
    pub(super) fn new(
        root: &'a Path,
        log: &'a Segments<F>,
        heals: bool,
        known_end: Option<u64>,
    ) -> Self {
        Self {
            root,
            log,
            heals,
            known_end,
            healed: Vec::new(),
            last_seen: LastSeen::default(),
            missing_from: None,
            marks: Vec::new(),
        }
    }

    /// Checks from `start` to `limit`, or to where the log ends; returns that place.
    /// `missing` says for a good record from where its queue must be completed.
    pub(super) fn run(
        &mut self,
        start: u64,
        limit: Option<u64>,
        missing: impl Fn(u64, &RecordView<'_>) -> Option<u64>,
    ) -> Result<u64, StoreError> {
        let log = self.log;
        let limit = limit.unwrap_or(log.max_offset());
        let mut walk = Walk::from(start);
        loop {
            let offset = walk.offset();
            let is_good = match walk.step(log, limit).map_err(log_io)? {
                Step::End => return Ok(offset),
                Step::Blank => {
                    let next = walk.offset();
                    if next >= limit {
                        // RocketMQ ends the log at a filler that nothing follows, and so
                        // overwrites it.
                        return Ok(if limit == log.max_offset() {
                            offset
                        } else {
                            next
                        });
                    }
                    continue;
                }
                Step::Record(bytes) => match good_record(offset, bytes) {
                    Some(record) if self.known_end.is_some() || !is_torn(offset, &record) => {
                        self.note(offset, &record, missing(offset, &record));
                        true
                    }
                    _ => false,
                },
                Step::Neither => false,
            };
            if is_good {
                continue;
            }
            if self.known_end.is_some_and(|known_end| offset >= known_end) {
                return Ok(offset);
            }
            let Some(resume) = damage::next_record(log, offset, limit, &self.last_seen)? else {
                return Ok(offset);
            };
            self.mend(offset, resume)?;
            walk = Walk::from(resume);
        }
    }

    fn note(&mut self, offset: u64, record: &RecordView<'_>, missing_from: Option<u64>) {
        self.last_seen.note(record);
        self.missing_from = match (self.missing_from, missing_from) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        };
        let is_due = |(last, _): &(u64, i64)| offset - last.min(&offset) >= MARK_BYTES;
        if self.marks.last().is_none_or(is_due) {
            self.marks.push((offset, record.store_timestamp_ms));
        }
    }

    /// Heals or refuses the damaged range before a valid record.
    fn mend(&mut self, from: u64, to: u64) -> Result<(), StoreError> {
        let what = format!("bytes {from} to {to} of the commit log are no records");
        if !self.heals {
            let root = self.root.display().to_string();
            let what = format!("{what}; set damagePolicy=heal to save and overwrite them");
            return Err(StoreError::Damaged { root, what });
        }
        tracing::error!("{what}; saving them to mqstack/quarantine and overwriting them");
        heal(
            self.root,
            self.log,
            from,
            to,
            self.last_seen.store_timestamp_ms,
        )?;
        self.healed.push((from, to));
        Ok(())
    }

    /// Damaged ranges that were healed, from the first checked to the last.
    pub(in crate::store) fn healed_ranges(&self) -> &[(u64, u64)] {
        &self.healed
    }

    /// Store time of the last good record, 0 for none.
    pub(super) fn last_store_timestamp_ms(&self) -> i64 {
        self.last_seen.store_timestamp_ms
    }

    /// Least offset from which a queue must be completed.
    pub(super) fn missing_from(&self) -> Option<u64> {
        self.missing_from
    }

    /// A place at or before the first record stored after `timestamp_ms`; None if none was.
    pub(super) fn first_after(&self, timestamp_ms: i64) -> Option<u64> {
        let after = self.marks.iter().position(|(_, time)| *time > timestamp_ms);
        let at = after.unwrap_or(self.marks.len()).checked_sub(1);
        at.or(after).map(|at| self.marks[at].0)
    }
}

/// A record that is whole and where it says. No topic holds zeros, lost bytes do.
pub(in crate::store) fn good_record(offset: u64, bytes: &[u8]) -> Option<RecordView<'_>> {
    let record = RecordView::parse(bytes, CheckCrc::Yes).ok()?;
    let is_sound = record.physical_offset == offset.cast_signed() && !record.topic.contains('\0');
    is_sound.then_some(record)
}

/// Whether a part of the properties never reached the disk. The checksum covers the body alone, so
/// such a record looks whole; but a lost sector, or the lost end of one, reads as zeros, and where
/// a sector or a record ends there is text.
fn is_torn(offset: u64, record: &RecordView<'_>) -> bool {
    let end = offset + record.size() as u64;
    let from = end - record.properties.len() as u64;
    let mut ends = (from / SECTOR_BYTES + 1..=end / SECTOR_BYTES).map(|at| at * SECTOR_BYTES);
    let is_zero = |at: u64| record.properties.get((at - from) as usize - 1) == Some(&0);
    !record.properties.is_empty() && (is_zero(end) || ends.any(is_zero))
}
