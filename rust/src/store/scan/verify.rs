//! Checking a store directory: every record, every queue unit, every index entry.

use std::collections::HashMap;
use std::sync::Arc;

use super::{FINDINGS_MAX, Finding, LogDirectory, Report, Scan, log_error};
use crate::format::consume_queue::QueueEntry;
use crate::format::index::key_hash;
use crate::format::message::{CheckCrc, RecordError, RecordView, sys_flag};
use crate::format::properties;
use crate::log::Access;
use crate::store::consume_queue::ConsumeQueue;
use crate::store::consume_queues::{ConsumeQueues, queue_directories};
use crate::store::files::{io_error, offset_files};
use crate::store::index::index_paths;
use crate::store::index_file::IndexFile;
use crate::store::recover::damage::{LastSeen, next_record};
use crate::store::types::StoreError;
use crate::store::walk::{LogRead, Step, Walk};

/// Records or entries between two calls of `progress`.
const PROGRESS_EVERY: u64 = 256;

/// A check under way.
struct Check<'a> {
    scan: &'a Scan,
    progress: &'a mut dyn FnMut(i64) -> bool,
    report: Report,
    queues: Queues,
    steps: u64,
}

/// Queues by topic and id, with how many of their units belong to records seen.
type Queues = HashMap<String, HashMap<i32, (Arc<ConsumeQueue>, i64)>>;

/// The caller asked to stop.
struct Stopped;

pub(super) fn verify(
    scan: &Scan,
    progress: &mut dyn FnMut(i64) -> bool,
) -> Result<Report, StoreError> {
    let mut check = Check {
        scan,
        progress,
        report: Report::default(),
        queues: Queues::new(),
        steps: 0,
    };
    check.files()?;
    check.load_queues()?;
    let Ok(log_end) = check.log()? else {
        return Ok(check.report);
    };
    check.queues(log_end);
    check.index(log_end)?;
    Ok(check.report)
}

impl Check<'_> {
    fn find(&mut self, kind: &'static str, place: impl Into<String>, offset: i64, what: String) {
        self.report.finding_count += 1;
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(Finding {
                kind,
                place: place.into(),
                offset,
                what,
            });
        }
    }

    /// Lets the caller know and stop.
    fn step(&mut self, offset: i64) -> Result<(), Stopped> {
        self.steps += 1;
        let is_due = self.steps.is_multiple_of(PROGRESS_EVERY);
        if is_due && !(self.progress)(offset) {
            return Err(Stopped);
        }
        Ok(())
    }

    /// Commit-log files: one length, one behind the other.
    fn files(&mut self) -> Result<(), StoreError> {
        let files = offset_files(&self.scan.root.join("commitlog"))?;
        let bytes = self.scan.layout.commit_log_file_bytes.unwrap_or(0);
        let mut expected = files.first().map_or(0, |file| file.offset);
        for file in files {
            let place = file.path.display().to_string();
            if file.bytes != bytes {
                let what = format!("{} bytes, the first file has {bytes}", file.bytes);
                self.find("file", place, -1, what);
            } else if file.offset != expected {
                let what = format!("starts at {}, expected {expected}", file.offset);
                self.find("file", place, -1, what);
            }
            expected = file.offset + bytes;
        }
        Ok(())
    }

    fn load_queues(&mut self) -> Result<(), StoreError> {
        let root = &self.scan.root;
        let file_bytes = self.scan.layout.consume_queue_file_bytes;
        for (topic, queue_id, path) in queue_directories(&root.join("consumequeue"))? {
            match ConsumeQueues::load_one(root, file_bytes, &topic, queue_id) {
                Ok(Some(queue)) => {
                    queue.set_min_from(self.scan.min_physical_offset());
                    let of_topic = self.queues.entry(topic).or_default();
                    of_topic.insert(queue_id, (queue, 0));
                }
                Ok(None) => {}
                Err(StoreError::UnknownLayout { what, .. }) => {
                    self.find("file", path.display().to_string(), -1, what);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Every record; returns where the log ends.
    fn log(&mut self) -> Result<Result<u64, Stopped>, StoreError> {
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
        last_seen.note(&record);
        self.report.records += 1;
        self.report.record_bytes += bytes.len() as u64;
        if sys_flag::is_queued(record.sys_flag) {
            self.queued(&record, bytes.len());
        }
    }

    /// A record against its queue unit.
    fn queued(&mut self, record: &RecordView<'_>, size: usize) {
        let place = format!("{}/{}", record.topic, record.queue_id);
        let of_topic = self.queues.get_mut(record.topic);
        let Some((queue, seen)) = of_topic.and_then(|queues| queues.get_mut(&record.queue_id))
        else {
            let what = format!("no queue for the record at {}", record.physical_offset);
            return self.find("queue_missing", place, record.queue_offset, what);
        };
        let expected = (
            record.physical_offset,
            i32::try_from(size).unwrap_or(i32::MAX),
        );
        match queue.unit(record.queue_offset) {
            Some(unit) if (unit.physical_offset, unit.size_bytes) == expected => *seen += 1,
            Some(unit) if unit.is_used() => {
                let what = format!("points to {unit:?}, the record is at {expected:?}");
                self.find("queue_entry", place, record.queue_offset, what);
            }
            _ => {
                let what = format!("no unit for the record at {}", record.physical_offset);
                self.find("queue_missing", place, record.queue_offset, what);
            }
        }
    }

    /// Queue units that belong to no record seen.
    fn queues(&mut self, log_end: u64) {
        for (topic, queues) in std::mem::take(&mut self.queues) {
            for (queue_id, (queue, seen)) in queues {
                let (min, max) = (queue.min_offset(), queue.max_offset());
                self.report.queue_entries += (max - min).unsigned_abs();
                if seen == max - min {
                    continue;
                }
                for offset in min..max {
                    let unit = queue.unit(offset);
                    if let Some(what) = unit.and_then(|unit| self.stray(&topic, &unit, log_end)) {
                        self.find("queue_entry", format!("{topic}/{queue_id}"), offset, what);
                    }
                }
            }
        }
    }

    /// What is wrong with a unit, if anything: it must point to a record of its topic, or to one
    /// dispatched to several queues.
    fn stray(&self, topic: &str, unit: &QueueEntry, log_end: u64) -> Option<String> {
        if unit.is_filler() {
            return None;
        }
        if unit.end_offset() > log_end.cast_signed() {
            return Some(format!("points to {unit:?}, the log ends at {log_end}"));
        }
        let record = record_at(&self.scan.log, unit.physical_offset);
        let is_own = record.is_some_and(|bytes| {
            RecordView::parse(&bytes, CheckCrc::No).is_ok_and(|record| {
                record.topic == topic
                    || properties::get(record.properties, "INNER_MULTI_DISPATCH").is_some()
            })
        });
        (!is_own).then(|| format!("points to {unit:?}, which is no record of the topic"))
    }

    fn index(&mut self, log_end: u64) -> Result<(), StoreError> {
        let Some(layout) = self.scan.index_layout() else {
            return Ok(());
        };
        for (name, path) in index_paths(&self.scan.root)? {
            let place = format!("index/{name}");
            let file = match IndexFile::open(&path, layout, Access::Read) {
                Ok(file) => file,
                Err(error) => {
                    self.find("file", place, -1, error.to_string());
                    continue;
                }
            };
            let header = file.header().map_err(io_error(&path))?;
            for at in 1..header.index_count {
                let entry = file.entry(at).map_err(io_error(&path))?;
                if self.step(entry.physical_offset).is_err() {
                    return Ok(());
                }
                self.report.index_entries += 1;
                let offset = entry.physical_offset;
                // Records that expired leave their entries behind.
                if offset >= self.scan.min_physical_offset()
                    && !(offset < log_end.cast_signed() && self.has_key(offset, entry.key_hash))
                {
                    let what = format!("entry {at} is no key of the record at {offset}");
                    self.find("index_entry", place.clone(), offset, what);
                }
            }
        }
        Ok(())
    }

    fn has_key(&self, offset: i64, hash: i32) -> bool {
        let Some(bytes) = record_at(&self.scan.log, offset) else {
            return false;
        };
        RecordView::parse(&bytes, CheckCrc::No).is_ok_and(|record| {
            let unique = properties::get_str(record.properties, properties::UNIQ_KEY);
            let keys = properties::get_str(record.properties, properties::KEYS);
            let keys = keys.as_deref().unwrap_or_default().split(' ');
            let mut keys = unique.as_deref().into_iter().chain(keys);
            keys.any(|key| key_hash(record.topic, key) == hash)
        })
    }
}

/// The bytes of the record at an offset, None if there is none or it cannot be read.
fn record_at(log: &LogDirectory, offset: i64) -> Option<Vec<u8>> {
    let mut walk = Walk::from(u64::try_from(offset).ok()?);
    match walk.step(log, u64::MAX) {
        Ok(Step::Record(bytes)) => Some(bytes.to_vec()),
        _ => None,
    }
}
