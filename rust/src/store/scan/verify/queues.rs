//! Consume queues: each unit against the record it points to, and the other way round.

use std::sync::Arc;

use super::Check;
use crate::format::consume_queue::QueueEntry;
use crate::format::message::{CheckCrc, RecordView};
use crate::store::consume_queue::ConsumeQueue;
use crate::store::files::offset_files;
use crate::store::scan::view::is_in_queue;
use crate::store::types::{ReadMode, StoreError};

/// Bytes of units read at once per queue; a store has many queues.
const WINDOW_BYTES: usize = 1_280;

/// A queue, and what of it was met.
pub(super) struct Checked {
    pub(super) queue: Arc<ConsumeQueue>,
    /// Units that belong to records seen.
    seen: i64,
    /// One past the highest queue offset of a record.
    pub(super) next_offset: i64,
    /// Some units, and the queue offset of the first.
    window: (i64, Vec<QueueEntry>),
}

impl Checked {
    /// The unit at a queue offset.
    fn unit(&mut self, offset: i64) -> Option<QueueEntry> {
        let (from, units) = &self.window;
        let at = usize::try_from(offset.checked_sub(*from)?).ok();
        if let Some(unit) = at.and_then(|at| units.get(at)) {
            return Some(*unit);
        }
        let (first, end) = self.queue.written();
        if offset < first || offset >= end {
            return None;
        }
        let mut bytes = Vec::with_capacity(WINDOW_BYTES);
        let mode = ReadMode::Wait;
        self.queue
            .read(offset, WINDOW_BYTES, mode, &mut bytes)
            .ok()?;
        self.window = (offset, QueueEntry::decode_all(&bytes).collect());
        self.window.1.first().copied()
    }
}

impl Check<'_> {
    pub(super) fn load_queues(&mut self) -> Result<(), StoreError> {
        let (queues, unsound) = self.scan.load_queues()?;
        for (path, error) in unsound {
            self.find("file", path.display().to_string(), -1, error.to_string());
        }
        for queue in queues.all() {
            self.queue_files(&queue)?;
            let checked = Checked {
                seen: 0,
                next_offset: 0,
                window: (0, Vec::new()),
                queue: Arc::clone(&queue),
            };
            let of_topic = self.queues.entry(queue.topic().to_owned()).or_default();
            of_topic.insert(queue.queue_id(), checked);
        }
        Ok(())
    }

    /// The files of a queue: one behind the other.
    fn queue_files(&mut self, queue: &ConsumeQueue) -> Result<(), StoreError> {
        let files = offset_files(&queue.files.directory)?;
        for pair in files.windows(2) {
            let expected = pair[0].offset + pair[0].bytes;
            if pair[1].offset != expected {
                let what = format!("starts at {}, expected {expected}", pair[1].offset);
                self.find("file", pair[1].path.display().to_string(), -1, what);
            }
        }
        Ok(())
    }

    /// A record against its unit in one queue: topic, queue id, queue offset.
    pub(super) fn queued(
        &mut self,
        (topic, queue_id, offset): (&str, i32, i64),
        record: &RecordView<'_>,
        size: usize,
        tags_code: Option<i64>,
    ) {
        let of_topic = self.queues.get_mut(topic);
        let checked = of_topic.and_then(|queues| queues.get_mut(&queue_id));
        let Some(checked) = checked else {
            return self.missing((topic, queue_id, offset), record, i64::MIN);
        };
        checked.next_offset = checked.next_offset.max(offset.saturating_add(1));
        let at = (
            record.physical_offset,
            i32::try_from(size).unwrap_or(i32::MAX),
        );
        let max_offset = checked.queue.max_offset();
        let wrong = match checked.unit(offset) {
            Some(unit) if (unit.physical_offset, unit.size_bytes) == at => {
                checked.seen += 1;
                let queue = Arc::clone(&checked.queue);
                self.tags_code(&queue, &unit, record, tags_code)
            }
            Some(unit) if unit.is_used() => {
                Some(format!("points to {unit:?}, the record is at {at:?}"))
            }
            _ => return self.missing((topic, queue_id, offset), record, max_offset),
        };
        if let Some(what) = wrong {
            self.find("queue_entry", format!("{topic}/{queue_id}"), offset, what);
        }
    }

    /// What is wrong with the tags code of a unit, or with its part in the extension.
    fn tags_code(
        &mut self,
        queue: &ConsumeQueue,
        unit: &QueueEntry,
        record: &RecordView<'_>,
        expected: Option<i64>,
    ) -> Option<String> {
        let mut found = unit.tags_code;
        if unit.is_extension_address() {
            let mut reader = queue.tags_codes(ReadMode::Wait);
            let Ok(Some(ext)) = reader.unit(unit) else {
                return Some(format!("{unit:?} points to nothing in the extension"));
            };
            self.report.extension_units += 1;
            if ext.store_timestamp_ms != record.store_timestamp_ms {
                let (told, stored) = (ext.store_timestamp_ms, record.store_timestamp_ms);
                return Some(format!(
                    "its extension says it was stored at {told} ms, the record at {stored} ms"
                ));
            }
            found = ext.tags_code;
        }
        let expected = expected.filter(|expected| *expected != found)?;
        Some(format!(
            "tags code {found}, that of the record is {expected}"
        ))
    }

    /// A record without a unit: damage, or what a store that was not closed may lack.
    fn missing(
        &mut self,
        (topic, queue_id, offset): (&str, i32, i64),
        record: &RecordView<'_>,
        max_offset: i64,
    ) {
        if !self.state.is_clean && offset >= max_offset {
            let first = if self.behind.0 == 0 {
                record.physical_offset
            } else {
                self.behind.1
            };
            self.behind = (self.behind.0 + 1, first);
            return;
        }
        let what = format!("no unit for the record at {}", record.physical_offset);
        self.find("queue_missing", format!("{topic}/{queue_id}"), offset, what);
    }

    pub(super) fn tell_behind(&mut self) {
        let (count, first) = self.behind;
        if count > 0 {
            let what = format!("{count} messages from here on are not in their queues yet");
            self.notice("queue_behind", "commitlog", first, what);
        }
    }

    /// Queue units that belong to no record seen.
    pub(super) fn queues(&mut self, log_end: u64) {
        for (topic, queues) in std::mem::take(&mut self.queues) {
            for (queue_id, mut checked) in queues {
                let (min, max) = (checked.queue.min_offset(), checked.queue.max_offset());
                self.report.queue_entries += (max - min).unsigned_abs();
                if checked.seen == max - min {
                    continue;
                }
                for offset in min..max {
                    let unit = checked.unit(offset);
                    let what = unit.and_then(|unit| self.stray(&checked.queue, &unit, log_end));
                    if let Some(what) = what {
                        self.find("queue_entry", format!("{topic}/{queue_id}"), offset, what);
                    }
                }
            }
        }
    }

    /// What is wrong with a unit, if anything: it must point to a record of its queue.
    fn stray(&self, queue: &ConsumeQueue, unit: &QueueEntry, log_end: u64) -> Option<String> {
        if unit.is_filler() {
            return None;
        }
        if unit.end_offset() > log_end.cast_signed() {
            return Some(format!("points to {unit:?}, the log ends at {log_end}"));
        }
        let record = self
            .scan
            .log
            .record(unit.physical_offset, None, CheckCrc::No);
        let is_own = matches!(record, Ok(Some(bytes)) if {
            RecordView::parse(&bytes, CheckCrc::No)
                .is_ok_and(|record| is_in_queue(&record, queue.topic(), queue.queue_id()))
        });
        (!is_own).then(|| format!("points to {unit:?}, which is no record of the queue"))
    }
}
