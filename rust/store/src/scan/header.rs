//! Finds records whose queue offset does not follow the previous one. A header has no checksum, but
//! the neighbouring records of the queue show which offset it must have had.
//!
//! A record with a queue offset far ahead would turn all later messages of the queue into
//! duplicates when the queue is rebuilt from the log.

use super::blocks::Findings;
use super::damage::LastSeen;
use super::log_check::{LogCheck, Queued};
use super::log_io;
use super::repair::quarantine;
use crate::scan::log_scanner::{LogRead, LogScanner, Step};
use crate::scan::record::Belief;
use crate::types::StoreError;
use mq_format::message::{self, Assigned, RecordView, sys_flag};

/// How far the next record of a queue is searched, bytes.
const LOOK_AHEAD_BYTES: u64 = 4 << 20;
/// Most records checked this closely. A store with more of them has a cause other than bit flips.
const DOUBTS_MAX: usize = 1_000;

/// What the neighbours say about a record's queue offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They do not contradict it.
    Sound,
    /// It must have been this offset.
    Shifted(i64),
    /// The record does not belong to this queue.
    Foreign,
}

/// The records around a record, in a log that is read from its start.
pub struct Neighbours<'a, Log> {
    log: &'a Log,
    limit: u64,
    belief: Belief,
    /// Number of records checked closely so far.
    doubts: &'a mut usize,
}

impl<'a, Log: LogRead> Neighbours<'a, Log> {
    /// The records before `limit`, for a log that is completely on disk.
    pub fn new(log: &'a Log, limit: u64, doubts: &'a mut usize) -> Self {
        Self {
            log,
            limit,
            belief: Belief::in_all(log.next_file_start(0)),
            doubts,
        }
    }

    /// Whether the neighbours contradict the queue offset of a record that ends at `end`; `seen`
    /// holds the records before it.
    pub fn contradict(
        &mut self,
        seen: &LastSeen,
        record: &RecordView<'_>,
        end: u64,
    ) -> Result<bool, StoreError> {
        Ok(self.judge(seen, record, end)? != Verdict::Sound)
    }

    pub(crate) fn judge(
        &mut self,
        seen: &LastSeen,
        record: &RecordView<'_>,
        end: u64,
    ) -> Result<Verdict, StoreError> {
        let before = seen.queue_offset(record.topic, record.queue_id);
        let Some(expected) = before.and_then(|before| before.checked_add(1)) else {
            return Ok(Verdict::Sound);
        };
        let is_due = sys_flag::is_queued(record.sys_flag) && record.queue_offset != expected;
        if !is_due || *self.doubts >= DOUBTS_MAX {
            return Ok(Verdict::Sound);
        }
        *self.doubts += 1;
        Ok(match self.next_in_queue(record, end)? {
            Some(next) if next - 1 == expected => Verdict::Shifted(expected),
            Some(next) if next == expected && record.queue_offset > expected => Verdict::Foreign,
            _ => Verdict::Sound,
        })
    }

    /// The queue offset of the next record of the same queue, if one is near.
    fn next_in_queue(&self, record: &RecordView<'_>, from: u64) -> Result<Option<i64>, StoreError> {
        let mut scanner = LogScanner::from(from);
        let until = self.limit.min(from + LOOK_AHEAD_BYTES);
        while scanner.offset() < until {
            let offset = scanner.offset();
            match scanner.step(self.log, self.limit).map_err(log_io)? {
                Step::Blank => {}
                Step::Record(bytes) => {
                    let Some(next) = self.belief.record(offset, bytes) else {
                        return Ok(None);
                    };
                    let is_same = next.topic == record.topic && next.queue_id == record.queue_id;
                    if is_same && sys_flag::is_queued(next.sys_flag) && next.queue_offset > 0 {
                        return Ok(Some(next.queue_offset));
                    }
                }
                Step::Invalid | Step::End => return Ok(None),
            }
        }
        Ok(None)
    }
}

impl LogCheck<'_> {
    /// Processes the records from `at` to `to` one by one and repairs their headers. Returns the
    /// offset of the first invalid record, or `to` or beyond.
    pub(crate) fn one_by_one(
        &mut self,
        at: u64,
        to: u64,
        limit: u64,
        on_record: &impl Fn(Queued<'_>),
    ) -> Result<u64, StoreError> {
        let log = self.log;
        let mut scanner = LogScanner::from(at);
        while scanner.offset() < to {
            let offset = scanner.offset();
            let step = scanner.step(log, limit);
            let Step::Record(bytes) = step.map_err(|error| self.read_error(offset, error))? else {
                return Ok(offset);
            };
            let end = offset + bytes.len() as u64;
            let Some(mut record) = self.belief.record(offset, bytes) else {
                return Ok(offset);
            };
            match self.verdict(&record, end, limit)? {
                Verdict::Sound => {}
                Verdict::Shifted(_) | Verdict::Foreign if self.is_copy => return Ok(offset),
                Verdict::Shifted(queue_offset) => {
                    self.shift_back(&record, bytes.to_vec(), queue_offset)?;
                    record.queue_offset = queue_offset;
                }
                Verdict::Foreign => {
                    self.repair_damage(self.damage(offset, end))?;
                    continue;
                }
            }
            let findings = Findings::of(offset, &record, self.belief);
            self.take(&findings, on_record);
        }
        Ok(scanner.offset())
    }

    fn verdict(
        &mut self,
        record: &RecordView<'_>,
        end: u64,
        limit: u64,
    ) -> Result<Verdict, StoreError> {
        let mut neighbours = Neighbours {
            log: self.log,
            limit,
            belief: self.belief,
            doubts: &mut self.doubts,
        };
        neighbours.judge(&self.seen, record, end)
    }

    /// Writes the right queue offset into a record's header.
    fn shift_back(
        &mut self,
        record: &RecordView<'_>,
        mut bytes: Vec<u8>,
        queue_offset: i64,
    ) -> Result<(), StoreError> {
        let from = record.physical_offset.cast_unsigned();
        let to = from + bytes.len() as u64;
        let what = format!(
            "{}: the record has queue offset {} between {} and {} of {}/{}",
            self.place(from),
            record.queue_offset,
            queue_offset - 1,
            queue_offset + 1,
            record.topic,
            record.queue_id,
        );
        self.may_repair(from, &what)?;
        tracing::error!("{what}; saving the record to mqstack/quarantine, writing {queue_offset}");
        quarantine(self.root, self.log, from, to)?;
        let assigned = Assigned {
            queue_offset,
            physical_offset: record.physical_offset,
            store_timestamp_ms: record.store_timestamp_ms,
        };
        message::patch(&mut bytes, assigned);
        self.log.overwrite(from, &bytes).map_err(log_io)?;
        self.note_header(from, to);
        Ok(())
    }
}
