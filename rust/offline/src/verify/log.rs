//! Checks the commit log: its files, every record, and each record against its queues.

use super::{Check, Stopped};
use crate::scan::log_error;
use mq_format::message::{self, CheckCrc, RecordError, RecordView, sys_flag};
use mq_format::multi_dispatch;
use mq_store::StoreError;
use mq_store::inspect::scan::{LastSeen, LogRead, LogScanner, Step, is_stand_in, next_record};

/// Largest backward step of store times that is no fault, milliseconds.
const STEP_BACK_MS: i64 = 60_000;

impl Check<'_> {
    /// Checks that the commit-log files have one length and leave no gap.
    pub(super) fn files(&mut self) -> Result<(), StoreError> {
        let files = self.scan.log.files()?;
        let bytes = self.scan.layout.commit_log_file_bytes.unwrap_or(0);
        let mut expected = files.first().map_or(0, |file| file.offset);
        for file in files {
            let place = file.path.display().to_string();
            if file.bytes != bytes {
                let what = format!("has {} bytes, the other log files have {bytes}", file.bytes);
                self.find("file", place, -1, what);
            } else if file.offset != expected {
                let what = format!("starts at {}, expected {expected}", file.offset);
                self.find("file", place, -1, what);
            }
            expected = file.offset.saturating_add(bytes);
        }
        Ok(())
    }

    /// Checks every record; returns the end of the log.
    pub(super) fn log(&mut self) -> Result<Result<u64, Stopped>, StoreError> {
        let log = &self.scan.log;
        let limit = log.max_offset();
        let mut last_seen = LastSeen::default();
        let mut scanner = LogScanner::from(log.min_offset());
        loop {
            let offset = scanner.offset();
            if self.step(offset.cast_signed()).is_err() {
                return Ok(Err(Stopped));
            }
            let failed = log_error(offset.cast_signed());
            match scanner.step(log, limit).map_err(failed)? {
                Step::End => return Ok(Ok(offset)),
                Step::Blank => self.blank(offset)?,
                Step::Record(bytes) => self.record(offset, bytes, &mut last_seen),
                Step::Invalid => {
                    let Some(next) = next_record(log, offset, limit, &last_seen)? else {
                        return Ok(Ok(offset));
                    };
                    let what = format!("{} bytes are no record, records follow", next - offset);
                    self.find("record", "commitlog", offset.cast_signed(), what);
                    self.sequences.lost(offset.cast_signed());
                    scanner = LogScanner::from(next);
                }
            }
        }
    }

    /// Checks that a blank record has the length of the rest of its file.
    fn blank(&mut self, offset: u64) -> Result<(), StoreError> {
        let at = offset.cast_signed();
        let mut head = [0; 4];
        let log = &self.scan.log;
        log.read_at(offset, &mut head).map_err(log_error(at))?;
        let (stated, left) = (
            u32::from_be_bytes(head),
            log.next_file_start(offset) - offset,
        );
        if u64::from(stated) != left {
            let what =
                format!("the blank record says {stated} bytes, the file has {left} bytes left");
            self.find("record", "commitlog", at, what);
        }
        Ok(())
    }

    fn record(&mut self, offset: u64, bytes: &[u8], last_seen: &mut LastSeen) {
        let at = offset.cast_signed();
        let record = match RecordView::parse(bytes, CheckCrc::Yes) {
            Ok(record) => record,
            Err(error) => {
                let is_crc = matches!(error, RecordError::BodyCrc { .. });
                let kind = if is_crc { "crc" } else { "record" };
                self.sequences.lost(at);
                return self.find(kind, "commitlog", at, error.to_string());
            }
        };
        if record.physical_offset != at {
            let what = format!("the record says it starts at {}", record.physical_offset);
            self.sequences.lost(at);
            return self.find("physical_offset", "commitlog", at, what);
        }
        self.store_time(at, &record);
        if let Some(what) = self.contradiction(&record) {
            self.find("record", "commitlog", at, what);
        }
        if is_stand_in(&record) {
            self.sequences.lost(at);
        }
        last_seen.note(&record);
        self.report.records += 1;
        self.report.record_bytes += bytes.len() as u64;
        if !self.is_indexed_as_prepared(&record) {
            self.keys.note(&record);
        }
        if sys_flag::is_queued(record.sys_flag) {
            let (topic, queue_id, offset) = (record.topic, record.queue_id, record.queue_offset);
            let tags_code = record.tags_code(&self.levels);
            self.check_queued((topic, queue_id, offset), &record, bytes.len(), tags_code);
            for (name, offset) in multi_dispatch::dispatches(record.properties) {
                let queue_id = multi_dispatch::queue_id_in(name, queue_id, true);
                self.check_queued((name, queue_id, offset), &record, bytes.len(), tags_code);
            }
        }
    }

    /// Whether a RocketMQ before 4.3 committed this message. These versions index the prepared
    /// message and not the committed one.
    fn is_indexed_as_prepared(&self, record: &RecordView<'_>) -> bool {
        if record.sys_flag & sys_flag::TRANSACTION_MASK != sys_flag::COMMIT {
            return false;
        }
        let prepared = record.prepared_transaction_offset;
        let prepared = self.scan.log.record(prepared, None, CheckCrc::No);
        matches!(prepared, Ok(Some(bytes)) if {
            let flag = message::stated_sys_flag(&bytes).unwrap_or(0);
            flag & sys_flag::TRANSACTION_MASK == sys_flag::PREPARED
        })
    }

    /// The first impossible field of a record.
    fn contradiction(&self, record: &RecordView<'_>) -> Option<String> {
        let half = record.prepared_transaction_offset;
        if half < 0 || half > record.physical_offset {
            return Some(format!(
                "says that its half message is at {half}, which is after the record"
            ));
        }
        let is_in_log = half > 0 && half >= self.scan.min_physical_offset();
        if is_in_log && !matches!(self.scan.log.record(half, None, CheckCrc::No), Ok(Some(_))) {
            return Some(format!(
                "says that its half message is at {half}, but there is no record"
            ));
        }
        if record.queue_id < 0 || record.queue_offset < 0 || record.reconsume_times < 0 {
            return Some("its queue, queue offset or retry count is negative".to_owned());
        }
        let is_compressed = record.sys_flag & sys_flag::COMPRESSED != 0;
        if is_compressed && !looks_compressed(record.body) {
            return Some("is marked as compressed, but its body is not".to_owned());
        }
        None
    }

    /// Compares a record's store time with those around it.
    fn store_time(&mut self, at: i64, record: &RecordView<'_>) {
        let (last, time) = (self.last_store_timestamp_ms, record.store_timestamp_ms);
        if time < last.saturating_sub(STEP_BACK_MS) {
            let what = format!("stored at {time} ms, the record before at {last} ms");
            self.notice("store_time", "commitlog", at, what);
        }
        self.last_store_timestamp_ms = time;
        if let Some((at, time_ms)) = self.times.outlier((at, time)) {
            let what = format!("stored at {time_ms} ms, far from the records before and after it");
            self.find("store_time", "commitlog", at, what);
        }
    }
}

/// The last two records and their store times. After a clock change all later times differ; after
/// damage only one does.
#[derive(Debug, Default)]
pub(super) struct Times(Option<(i64, i64)>, Option<(i64, i64)>);

impl Times {
    /// Adds the next record. Returns the previous one if its time is far from the times before and
    /// after it, and these are in order.
    fn outlier(&mut self, next: (i64, i64)) -> Option<(i64, i64)> {
        let (first, middle) = (self.0, self.1);
        (self.0, self.1) = (middle, Some(next));
        let (first, middle) = (first?, middle?);
        let (low, high) = (first.1, next.1);
        let is_far = middle.1 < low.saturating_sub(STEP_BACK_MS)
            || middle.1 > high.saturating_add(STEP_BACK_MS);
        (low <= high && is_far).then(|| {
            // Compare the next record with the good one, not with the damaged one.
            self.0 = Some(first);
            middle
        })
    }
}

/// Whether a body starts like zlib, LZ4 or Zstandard data.
fn looks_compressed(body: &[u8]) -> bool {
    let is_zlib = matches!(body, [head, check, ..]
        if head & 0x0F == 8 && (u32::from(*head) << 8 | u32::from(*check)) % 31 == 0);
    is_zlib
        || body.starts_with(&[0x04, 0x22, 0x4D, 0x18])
        || body.starts_with(&[0x28, 0xB5, 0x2F, 0xFD])
}
