//! Finds records that are missing in their queues. Lost queues and lost ends of queues are noticed
//! in the checked part of the log; after a clean stop, that is the last files and the start of each
//! other file.
//!
//! One record is enough to notice a missing queue. After a clean stop, a queue with records only in
//! the unchecked parts of older files is not noticed; `mqstore verify` reads all of them.

use std::cell::{OnceCell, RefCell};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::seen::{SeenQueues, SeenRecords};
use crate::derive::queues::queue::ConsumeQueue;
use crate::derive::queues::table::ConsumeQueues;
use crate::scan::log_io;
use crate::scan::log_scanner::{LogScanner, Step};
use crate::types::StoreError;
use mq_format::fastjson;
use mq_format::message::{CheckCrc, RecordView, SCHEDULE_TOPIC, sys_flag};
use mq_format::multi_dispatch;
use mq_log::Segments;
use mq_statefile::StateFiles;

/// Bytes read of each file.
const SAMPLE_BYTES: u64 = 64 << 10;

/// Finds records that are in no queue.
pub(super) struct MissingEntries<'a> {
    root: PathBuf,
    queues: &'a ConsumeQueues,
    /// Read when a queue is missing; None if no topic table can be read.
    topics: OnceCell<Option<HashSet<String>>>,
    /// Queues whose first entries are lost.
    headless: RefCell<Vec<Arc<ConsumeQueue>>>,
}

impl<'a> MissingEntries<'a> {
    pub(super) fn new(root: &Path, queues: &'a ConsumeQueues) -> Self {
        Self {
            root: root.to_owned(),
            queues,
            topics: OnceCell::new(),
            headless: RefCell::default(),
        }
    }

    /// Log offset at which dispatch must start so that all records in `seen` are in their queues;
    /// None if they are.
    pub(super) fn dispatch_start(&self, seen: &SeenQueues) -> Option<u64> {
        seen.least(|topic, queue_id, seen| self.from(topic, queue_id, seen))
    }

    /// Like `missing`, for records of one queue: the offset of the first record that the queue
    /// lacks, or the start of the log if the queue does not exist.
    pub(super) fn from(&self, topic: &str, queue_id: i32, seen: SeenRecords) -> Option<u64> {
        match self.queues.get(topic, queue_id) {
            None => self.is_known(topic).then_some(0),
            Some(queue) if seen.last >= queue.max_offset() => Some(first_missing(&queue, seen)),
            Some(queue) if self.queues.begins_deleted(&queue) => None,
            Some(queue) if seen.first < queue.written().0 => {
                let mut headless = self.headless.borrow_mut();
                if headless.iter().all(|other| !Arc::ptr_eq(other, &queue)) {
                    headless.push(queue);
                }
                None
            }
            Some(_) => None,
        }
    }

    /// Whether a topic still exists. Messages of a deleted topic stay in the log.
    pub(super) fn is_known(&self, topic: &str) -> bool {
        let is_system = topic == SCHEDULE_TOPIC || topic.starts_with("RMQ_SYS_");
        // Light queues are not in the topic table.
        let is_light = multi_dispatch::is_lmq(topic);
        let is_listed = |topics: &HashSet<String>| topics.contains(topic);
        let topics = || self.topics.get_or_init(|| known_topics(&self.root));
        is_system || is_light || topics().as_ref().is_none_or(is_listed)
    }

    /// Checks the first records of each file before `before`. Returns the log offset at which
    /// dispatch must start if one of them is in no queue.
    pub(super) fn sample(&self, log: &Segments, before: u64) -> Result<Option<u64>, StoreError> {
        let mut from: Option<u64> = None;
        for start in log.starts().into_iter().filter(|start| *start < before) {
            let mut scanner = LogScanner::from(start);
            while scanner.offset() < start + SAMPLE_BYTES {
                let offset = scanner.offset();
                let step = scanner.step(log, log.next_file_start(start));
                let Step::Record(bytes) = step.map_err(log_io)? else {
                    break;
                };
                let Ok(record) = RecordView::parse(bytes, CheckCrc::No) else {
                    break;
                };
                if sys_flag::is_queued(record.sys_flag) {
                    let seen = SeenRecords {
                        first: record.queue_offset,
                        first_physical: offset,
                        last: record.queue_offset,
                        last_physical: offset,
                    };
                    let lost = self.from(record.topic, record.queue_id, seen);
                    from = from.into_iter().chain(lost).min();
                }
            }
        }
        Ok(from)
    }

    /// Removes the queues whose first entries are lost, so that they are rebuilt; true if there
    /// were any.
    pub(super) fn remove_headless(&self) -> Result<bool, StoreError> {
        let headless = self.headless.take();
        for queue in &headless {
            tracing::warn!(
                topic = queue.topic(),
                queue_id = queue.queue_id(),
                "rebuilding a consume queue: its first files are missing"
            );
            self.queues.remove(queue)?;
        }
        Ok(!headless.is_empty())
    }
}

/// A log offset at or before the first record in `seen` that a queue lacks.
fn first_missing(queue: &ConsumeQueue, seen: SeenRecords) -> u64 {
    let end = queue.end_physical().cast_unsigned();
    match seen.first.cmp(&queue.max_offset()) {
        Ordering::Equal => seen.first_physical,
        Ordering::Less if (seen.first_physical..seen.last_physical).contains(&end) => end,
        Ordering::Less => seen.first_physical,
        // Records before the first one in `seen` are missing, too.
        Ordering::Greater => end.min(seen.first_physical),
    }
}

/// The topics of `config/topics.json`; None if it is missing or cannot be read.
fn known_topics(root: &Path) -> Option<HashSet<String>> {
    let parse = |bytes: &[u8]| -> Option<HashSet<String>> {
        let text = fastjson::to_strict(std::str::from_utf8(bytes).ok()?).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        let table = value.get("topicConfigTable")?.as_object()?;
        Some(table.keys().cloned().collect())
    };
    let loaded = StateFiles::new(root).load("topics.json", |bytes| parse(bytes).is_some());
    parse(&loaded.ok()??)
}
