//! The commit log: its files, every record, and each record against its queues.

use super::{Check, Stopped};
use crate::format::message::{CheckCrc, RecordError, RecordView, SCHEDULE_TOPIC, sys_flag};
use crate::format::multi_dispatch;
use crate::store::recover::damage::{LastSeen, next_record};
use crate::store::scan::log_error;
use crate::store::types::StoreError;
use crate::store::walk::{LogRead, Step, Walk};

/// Store times of neighbours may differ that much in the wrong direction, milliseconds.
const STEP_BACK_MS: i64 = 60_000;

impl Check<'_> {
    /// Commit-log files: one length, one behind the other.
    pub(super) fn files(&mut self) -> Result<(), StoreError> {
        let files = self.scan.log.files()?;
        let bytes = self.scan.layout.commit_log_file_bytes.unwrap_or(0);
        let mut expected = files.first().map_or(0, |file| file.offset);
        for file in files {
            let place = file.path.display().to_string();
            if file.bytes != bytes {
                let what = format!("{} bytes, files of this log have {bytes}", file.bytes);
                self.find("file", place, -1, what);
            } else if file.offset != expected {
                let what = format!("starts at {}, expected {expected}", file.offset);
                self.find("file", place, -1, what);
            }
            expected = file.offset.saturating_add(bytes);
        }
        Ok(())
    }

    /// Every record; returns where the log ends.
    pub(super) fn log(&mut self) -> Result<Result<u64, Stopped>, StoreError> {
        let log = &self.scan.log;
        let limit = log.max_offset();
        let mut last_seen = LastSeen::default();
        let mut walk = Walk::from(log.min_offset());
        loop {
            let offset = walk.offset();
            if self.step(offset.cast_signed()).is_err() {
                return Ok(Err(Stopped));
            }
            let failed = log_error(offset.cast_signed());
            match walk.step(log, limit).map_err(failed)? {
                Step::End => return Ok(Ok(offset)),
                Step::Blank => {}
                Step::Record(bytes) => self.record(offset, bytes, &mut last_seen),
                Step::Neither => {
                    let Some(next) = next_record(log, offset, limit, &last_seen)? else {
                        return Ok(Ok(offset));
                    };
                    let what = format!("{} bytes are no record, then records go on", next - offset);
                    self.find("record", "commitlog", offset.cast_signed(), what);
                    walk = Walk::from(next);
                }
            }
        }
    }

    fn record(&mut self, offset: u64, bytes: &[u8], last_seen: &mut LastSeen) {
        let at = offset.cast_signed();
        let record = match RecordView::parse(bytes, CheckCrc::Yes) {
            Ok(record) => record,
            Err(error) => {
                let is_crc = matches!(error, RecordError::BodyCrc { .. });
                let kind = if is_crc { "crc" } else { "record" };
                return self.find(kind, "commitlog", at, error.to_string());
            }
        };
        if record.physical_offset != at {
            let what = format!("the record says it starts at {}", record.physical_offset);
            return self.find("physical_offset", "commitlog", at, what);
        }
        self.store_time(at, &record);
        last_seen.note(&record);
        self.report.records += 1;
        self.report.record_bytes += bytes.len() as u64;
        self.keys.note(&record);
        if sys_flag::is_queued(record.sys_flag) {
            let (topic, queue_id, offset) = (record.topic, record.queue_id, record.queue_offset);
            let of_delay = topic == SCHEDULE_TOPIC;
            let tags_code = (!of_delay).then(|| record.tags_code(&self.levels));
            self.queued((topic, queue_id, offset), &record, bytes.len(), tags_code);
            for (name, offset) in multi_dispatch::dispatches(record.properties) {
                let queue_id = multi_dispatch::queue_id_in(name, queue_id, true);
                let tags_code = Some(record.tags_code(&self.levels));
                self.queued((name, queue_id, offset), &record, bytes.len(), tags_code);
            }
        }
    }

    /// A record's store time against its neighbours'.
    fn store_time(&mut self, at: i64, record: &RecordView<'_>) {
        let (last, time) = (self.last_store_timestamp_ms, record.store_timestamp_ms);
        if time < last.saturating_sub(STEP_BACK_MS) {
            let what = format!("stored at {time} ms, the record before at {last} ms");
            self.notice("store_time", "commitlog", at, what);
        }
        self.last_store_timestamp_ms = time;
    }
}
