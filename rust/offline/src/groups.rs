//! A store's state files, and what consumer groups will see of its messages.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::scan::Scan;
use mq_format::consume_queue::QueueEntry;
use mq_format::fastjson;
use mq_format::message::SCHEDULE_TOPIC;
use mq_log::fs;
use mq_statefile::json::other_content;
use mq_statefile::{STATE_BYTES_MAX, StateFiles};
use mq_store::inspect::ConsumeQueue;
use mq_store::inspect::ConsumeQueues;
use mq_store::inspect::Offsets;
use mq_store::inspect::delay_offsets;
use mq_store::inspect::{io_error, sync_directory};
use mq_store::{ReadMode, StoreError};

/// RocketMQ's state files, with the tables in each.
pub(super) const STATE_FILES: [(&str, &[&str]); 6] = [
    ("topics.json", &["topicConfigTable"]),
    ("subscriptionGroup.json", &["subscriptionGroupTable"]),
    ("consumerOffset.json", &["offsetTable", "lmqOffsetTable"]),
    ("lmqConsumerOffset.json", &["offsetTable", "lmqOffsetTable"]),
    ("consumerFilter.json", &["filterDataByTopic"]),
    ("delayOffset.json", &["offsetTable"]),
];
/// Bytes of queue entries read at once.
const ENTRIES_BYTES: usize = 64 << 10;

/// The messages of a queue that a group will receive, repeat or miss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOutlook {
    /// Consumer group.
    pub group: String,
    /// Topic of the queue.
    pub topic: String,
    /// The queue.
    pub queue_id: i32,
    /// The offset it had committed.
    pub committed: i64,
    /// The offset from which it continues.
    pub resumes_at: i64,
    /// Messages it will get from there.
    pub pending: i64,
    /// Pending messages that it had consumed before.
    pub replayed: i64,
    /// Messages it had not consumed and will never get.
    pub skipped: i64,
}

/// First and next offset of queues, by topic and queue id.
pub(super) type Bounds = BTreeMap<(String, i32), (i64, i64)>;

/// The bounds of the queues on disk. A queue that cannot be loaded has none.
pub(super) fn bounds_on_disk(scan: &Scan) -> Result<Bounds, StoreError> {
    let (queues, _) = scan.load_queues()?;
    let row = |queue: &Arc<ConsumeQueue>| {
        let key = (queue.topic().to_owned(), queue.queue_id());
        (key, (queue.min_offset(), queue.max_offset()))
    };
    Ok(queues.all().iter().map(row).collect())
}

/// The object in a state file. None if it cannot be read, or if it holds another file's content.
pub(super) fn parse_state(bytes: &[u8], tables: &[&str]) -> Option<Value> {
    let text = fastjson::to_strict(std::str::from_utf8(bytes).ok()?).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let is_other = other_content(value.as_object()?, tables).is_some();
    (!is_other).then_some(value)
}

/// The bytes of a file under `config`; None if the file is missing.
pub(super) fn state_bytes(root: &Path, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let path = root.join("config").join(name);
    match fs::read_own(&path, STATE_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(&path)(error)),
    }
}

/// Replaces state files that are missing or unreadable by their previous copy. The copy stays.
/// Returns the names of the replaced files.
pub(super) fn restore_states(root: &Path) -> Result<Vec<String>, StoreError> {
    let directory = root.join("config");
    let mut restored = Vec::new();
    for (name, tables) in STATE_FILES {
        let is_state = |bytes: &Vec<u8>| parse_state(bytes, tables).is_some();
        if state_bytes(root, name)?.as_ref().is_some_and(is_state) {
            continue;
        }
        let copy = state_bytes(root, &format!("{name}.bak"))?;
        let Some(copy) = copy.filter(is_state) else {
            continue;
        };
        let (temporary, path) = (directory.join(format!("{name}.tmp")), directory.join(name));
        fs::create_own(&temporary)
            .and_then(|file| {
                file.keep_mode(&path)?;
                file.write_all_at(&copy, 0)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(io_error(&path))?;
        restored.push(name.to_owned());
    }
    if !restored.is_empty() {
        sync_directory(&directory)?;
    }
    Ok(restored)
}

/// Computes what every group will see of its queues. `sets_back` lowers, on disk, each offset
/// beyond the end of its queue to that end, also for delay levels: a group that resumes beyond the
/// end would miss new messages.
pub(super) fn outlook(
    root: &Path,
    before: &Bounds,
    queues: &ConsumeQueues,
    sets_back: bool,
) -> Result<Vec<GroupOutlook>, StoreError> {
    let state = StateFiles::new(root);
    // With light queues enabled, all offsets are in lmqConsumerOffset.json.
    let has_light = state_bytes(root, "lmqConsumerOffset.json")?.is_some();
    let offsets = Offsets::load(&state, has_light)?;
    let earlier = earlier_offsets(root)?;
    let mut found = Vec::new();
    for (key, by_queue) in offsets.all() {
        let Some((topic, group)) = key.split_once('@') else {
            continue;
        };
        for (queue_id, committed) in by_queue {
            let queue = queues.get(topic, queue_id);
            let queue = queue.as_deref();
            let max = queue.map_or(0, ConsumeQueue::max_offset);
            let place = (topic.to_owned(), queue_id);
            let old_max = before.get(&place).map_or(max, |(_, old_max)| *old_max);
            let resumes_at = if sets_back {
                committed.min(max)
            } else {
                committed
            };
            if resumes_at != committed {
                offsets.commit(group, topic, queue_id, resumes_at, usize::MAX);
            }
            let reached = earlier.get(&(key.clone(), queue_id));
            let reached = reached.map_or(committed, |earlier| committed.max(*earlier));
            let lost = (old_max - max.max(committed)).max(0);
            let to_come = (resumes_at - max).max(0);
            found.push(GroupOutlook {
                group: group.to_owned(),
                topic: topic.to_owned(),
                queue_id,
                committed,
                resumes_at,
                pending: count_records(queue, resumes_at, max),
                replayed: count_records(queue, resumes_at, reached.min(max)),
                skipped: count_deleted(queue, resumes_at) + lost + to_come,
            });
        }
    }
    if sets_back {
        offsets.save(&state)?;
        let end = |level| {
            queues
                .get(SCHEDULE_TOPIC, level - 1)
                .map_or(0, |q| q.max_offset())
        };
        delay_offsets::set_back(&state, end)?;
    }
    Ok(found)
}

/// The offsets in the previous copy. They are higher if an operator reset a group to an earlier
/// offset.
fn earlier_offsets(root: &Path) -> Result<BTreeMap<(String, i32), i64>, StoreError> {
    let mut found = BTreeMap::new();
    let bytes = state_bytes(root, "consumerOffset.json.bak")?;
    let table = bytes.and_then(|bytes| parse_state(&bytes, &["offsetTable"]));
    let table = table.as_ref().and_then(|table| table.get("offsetTable"));
    for (key, by_queue) in table.and_then(Value::as_object).into_iter().flatten() {
        for (queue_id, offset) in by_queue.as_object().into_iter().flatten() {
            if let (Ok(queue_id), Some(offset)) = (queue_id.parse(), offset.as_i64()) {
                found.insert((key.clone(), queue_id), offset);
            }
        }
    }
    Ok(found)
}

/// Records in a range of a queue's offsets.
fn count_records(queue: Option<&ConsumeQueue>, from: i64, to: i64) -> i64 {
    queue.map_or(0, |queue| {
        let from = from.max(queue.min_offset());
        (to - from).max(0) - count_holes(queue, from, to)
    })
}

/// Queue offsets from `from` on without a record: expired, or lost to damage.
fn count_deleted(queue: Option<&ConsumeQueue>, from: i64) -> i64 {
    queue.map_or(0, |queue| {
        let (min, max) = (queue.min_offset(), queue.max_offset());
        (min - from).max(0) + count_holes(queue, from.max(min), max)
    })
}

/// Queue offsets of a range without a record.
fn count_holes(queue: &ConsumeQueue, from: i64, to: i64) -> i64 {
    let (mut at, mut holes) = (from, 0);
    let mut entries = Vec::with_capacity(ENTRIES_BYTES);
    while at < to {
        entries.clear();
        let read = queue.read(at, ENTRIES_BYTES, ReadMode::Wait, &mut entries);
        if read != Ok(true) || entries.is_empty() {
            break;
        }
        for entry in QueueEntry::decode_all(&entries) {
            holes += i64::from(entry.is_hole() && at < to);
            at += 1;
        }
    }
    holes
}
