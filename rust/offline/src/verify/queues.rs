//! Checks consume queues: each entry against its record, and each record against its entry.

use std::collections::HashSet;
use std::sync::Arc;

use super::Check;
use crate::view::queue_offsets;
use mq_format::consume_queue::QueueEntry;
use mq_format::message::{CheckCrc, RecordView, SCHEDULE_TOPIC, sys_flag};
use mq_format::multi_dispatch;
use mq_store::inspect::ConsumeQueue;
use mq_store::inspect::offset_files;
use mq_store::{ReadMode, StoreError};

/// Bytes of entries read at once per queue; small because a store has many queues.
const WINDOW_BYTES: usize = 1_280;

/// A queue and the records found for it.
pub(super) struct Checked {
    pub(super) queue: Arc<ConsumeQueue>,
    /// Entries whose records were found.
    seen: i64,
    /// One past the highest queue offset of a record.
    pub(super) next_offset: i64,
    /// A window of entries, and the queue offset of its first.
    window: (i64, Vec<QueueEntry>),
}

impl Checked {
    /// The entry at a queue offset.
    fn entry(&mut self, offset: i64) -> Option<QueueEntry> {
        let (from, entries) = &self.window;
        let at = usize::try_from(offset.checked_sub(*from)?).ok();
        if let Some(entry) = at.and_then(|at| entries.get(at)) {
            return Some(*entry);
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

    /// Checks that the files of a queue and of its extension have one length and leave no gap.
    fn queue_files(&mut self, queue: &ConsumeQueue) -> Result<(), StoreError> {
        let ext = queue.ext.as_ref().map(|ext| &ext.files);
        for files in [Some(&queue.files), ext].into_iter().flatten() {
            let found = offset_files(&files.directory)?;
            let mut expected = found.first().map_or(0, |first| first.offset);
            for file in found {
                let what = if file.bytes != files.file_bytes {
                    format!("has {} bytes, expected {}", file.bytes, files.file_bytes)
                } else if file.offset != expected {
                    format!("starts at {}, expected {expected}", file.offset)
                } else {
                    expected += file.bytes;
                    continue;
                };
                expected = file.offset.saturating_add(files.file_bytes);
                self.find("file", file.path.display().to_string(), -1, what);
            }
        }
        Ok(())
    }

    /// Compares a record with its entry in one queue, given as topic, queue id and queue offset.
    pub(super) fn check_queued(
        &mut self,
        (topic, queue_id, offset): (&str, i32, i64),
        record: &RecordView<'_>,
        size: usize,
        tags_code: i64,
    ) {
        let start = record.physical_offset;
        if start < self.deletions.log_end_of(topic) {
            *self.deleted.entry(topic.to_owned()).or_default() += 1;
            return;
        }
        let of_topic = self.queues.get_mut(topic);
        let checked = of_topic.and_then(|queues| queues.get_mut(&queue_id));
        let Some(checked) = checked else {
            return self.on_missing_queue((topic, queue_id, offset), start);
        };
        checked.next_offset = checked.next_offset.max(offset.saturating_add(1));
        let at = (start, i32::try_from(size).unwrap_or(i32::MAX));
        let wrong = match checked.entry(offset) {
            Some(entry) if (entry.physical_offset, entry.size_bytes) == at => {
                checked.seen += 1;
                let queue = Arc::clone(&checked.queue);
                self.sequences.jump((topic, queue_id, offset), start, None);
                self.tags_code((&queue, offset), &entry, record, tags_code)
            }
            // The queue was deleted and created again, so its offsets started at 0 again.
            Some(entry) if entry.is_used() && !entry.is_hole() && entry.physical_offset > start => {
                return self.superseded(start);
            }
            Some(entry) if entry.is_used() => {
                Some(format!("points to {entry:?}, the record is at {at:?}"))
            }
            _ => return self.on_missing_entry((topic, queue_id, offset), start),
        };
        if let Some(what) = wrong {
            self.find("queue_entry", format!("{topic}/{queue_id}"), offset, what);
        }
    }

    fn superseded(&mut self, start: i64) {
        let first = if self.superseded.0 == 0 {
            start
        } else {
            self.superseded.1
        };
        self.superseded = (self.superseded.0 + 1, first);
    }

    /// The fault of an entry's tags code, or of its unit in the extension.
    fn tags_code(
        &mut self,
        (queue, offset): (&ConsumeQueue, i64),
        entry: &QueueEntry,
        record: &RecordView<'_>,
        expected: i64,
    ) -> Option<String> {
        let mut found = entry.tags_code;
        if entry.is_extension_address() {
            let mut reader = queue.tags_codes(ReadMode::Wait);
            let Ok(Some(ext)) = reader.unit(entry) else {
                return Some(format!("{entry:?} points to nothing in the extension"));
            };
            self.report.extension_units += 1;
            if ext.store_timestamp_ms != record.store_timestamp_ms {
                let (stated, stored) = (ext.store_timestamp_ms, record.store_timestamp_ms);
                return Some(format!(
                    "its extension says it was stored at {stated} ms, the record says {stored} ms"
                ));
            }
            found = ext.tags_code;
        }
        if queue.topic() == SCHEDULE_TOPIC {
            return self.delay((queue.queue_id(), offset), record, found);
        }
        (expected != found).then(|| format!("has tags code {found}, its record has {expected}"))
    }

    /// Handles a record whose queue is not on disk: the topic was deleted, the store was not
    /// closed, or the queue was lost.
    fn on_missing_queue(&mut self, (topic, queue_id, offset): (&str, i32, i64), start: i64) {
        if !self.is_known(topic) {
            *self.deleted.entry(topic.to_owned()).or_default() += 1;
            return;
        }
        let starts_at_0 = self.scan.min_physical_offset() == 0;
        self.past_end((topic, queue_id, offset), start, starts_at_0.then_some(0));
    }

    /// Whether a topic still exists. Messages of a deleted topic stay in the log.
    fn is_known(&self, topic: &str) -> bool {
        let is_system = topic == SCHEDULE_TOPIC || topic.starts_with("RMQ_SYS_");
        let is_listed = |topics: &HashSet<String>| topics.contains(topic);
        // Light queues are not in the topic table.
        is_system
            || multi_dispatch::is_lmq(topic)
            || self.topics.as_ref().is_none_or(is_listed)
            || self.queues.contains_key(topic)
    }

    /// Handles a record without an entry in an existing queue.
    fn on_missing_entry(&mut self, (topic, queue_id, offset): (&str, i32, i64), start: i64) {
        let checked = self.queues.get_mut(topic);
        let checked = checked.and_then(|queues| queues.get_mut(&queue_id));
        let Some(checked) = checked else {
            return;
        };
        let (min, max) = (checked.queue.min_offset(), checked.queue.max_offset());
        // A queue that starts at another offset than 0 has lost its first file.
        let is_anew = checked.queue.written().0 == 0;
        let begins_later = is_anew
            && checked.entry(min).is_some_and(|first| {
                first.is_used() && !first.is_hole() && first.physical_offset > start
            });
        if begins_later {
            return self.superseded(start);
        }
        if offset >= max {
            return self.past_end((topic, queue_id, offset), start, Some(max));
        }
        let what = format!("no entry for the record at {start}");
        self.find("queue_missing", format!("{topic}/{queue_id}"), offset, what);
    }

    /// Handles a record after the end of its queue. That is damage if the store was closed, and
    /// normal after a crash. `least` is the end of the queue.
    fn past_end(
        &mut self,
        (topic, queue_id, offset): (&str, i32, i64),
        start: i64,
        least: Option<i64>,
    ) {
        let place = format!("{topic}/{queue_id}");
        if self.state.is_clean {
            let what = format!("no entry for the record at {start}");
            return self.find("queue_missing", place, offset, what);
        }
        if let Some(expected) = self.sequences.jump((topic, queue_id, offset), start, least) {
            let what = format!("the record at {start} has queue offset {offset}, not {expected}");
            return self.find("queue_offset", place, offset, what);
        }
        let first = if self.past_end.0 == 0 {
            start
        } else {
            self.past_end.1
        };
        self.past_end = (self.past_end.0 + 1, first);
    }

    pub(super) fn report_past_end(&mut self) {
        let (count, first) = self.past_end;
        if count > 0 {
            let what = format!("{count} messages from here on are not in their queues yet");
            self.notice("queue_behind", "commitlog", first, what);
        }
        let (count, first) = self.superseded;
        if count > 0 {
            let what = format!("{count} messages belong to queues that were deleted and recreated");
            self.notice("superseded", "commitlog", first, what);
        }
        for (topic, count) in std::mem::take(&mut self.deleted) {
            let what = match self.deletions.log_end_of(&topic) {
                0 => "belong to this topic, which is not in config/topics.json",
                _ => "were deleted with this topic",
            };
            self.notice(
                "deleted_topic",
                topic,
                -1,
                format!("{count} messages {what}"),
            );
        }
    }

    /// Reports queue entries for which no record was found.
    pub(super) fn queues(&mut self, log_end: u64) {
        for (topic, queues) in std::mem::take(&mut self.queues) {
            for (queue_id, mut checked) in queues {
                let (min, max) = (checked.queue.min_offset(), checked.queue.max_offset());
                self.report.queue_entries += (max - min).unsigned_abs();
                if checked.seen == max - min {
                    continue;
                }
                for offset in min..max {
                    let Some(entry) = checked.entry(offset) else {
                        continue;
                    };
                    let what = self.entry_fault((&checked.queue, offset), &entry, log_end);
                    if let Some(what) = what {
                        self.find("queue_entry", format!("{topic}/{queue_id}"), offset, what);
                    }
                }
            }
        }
    }

    /// The fault of an entry: it must point to a record with this queue and offset.
    fn entry_fault(
        &self,
        (queue, offset): (&ConsumeQueue, i64),
        entry: &QueueEntry,
        log_end: u64,
    ) -> Option<String> {
        if entry.is_hole() {
            return None;
        }
        if !entry.is_used() {
            return Some("was never written".to_owned());
        }
        if entry.end_offset() > log_end.cast_signed() {
            return Some(format!("points to {entry:?}, the log ends at {log_end}"));
        }
        let (at, size) = (entry.physical_offset, entry.size_bytes);
        let record = self.scan.log.record(at, Some(size), CheckCrc::No);
        let is_own = matches!(record, Ok(Some(bytes)) if {
            let is_own = |record: RecordView<'_>| {
                let mut offsets = queue_offsets(&record, queue.topic(), queue.queue_id());
                sys_flag::is_queued(record.sys_flag) && offsets.any(|own| own == offset)
            };
            RecordView::parse(&bytes, CheckCrc::No).is_ok_and(is_own)
        });
        (!is_own).then(|| format!("points to {entry:?}, which is no record of this queue offset"))
    }
}
