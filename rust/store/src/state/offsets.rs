//! Committed consumer offsets: group and topic to queue to offset, saved in
//! `config/consumerOffset.json` as in RocketMQ.
//!
//! With light queues enabled, all offsets are in `config/lmqConsumerOffset.json`. Those of light
//! groups (`%LMQ%...`) are in a table of their own, because a light queue has no id.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::types::StoreError;
use mq_format::multi_dispatch;
use mq_statefile::{Aside, StateFiles, json};

const FILE_NAME: &str = "consumerOffset.json";
const LMQ_FILE_NAME: &str = "lmqConsumerOffset.json";
const TABLE: &str = "offsetTable";
const LMQ_TABLE: &str = "lmqOffsetTable";
/// Queue id of a light group's offset in memory.
const LMQ_QUEUE_ID: i32 = 0;
const NO_OFFSET: &str = "not an offset";
/// Groups copied per lock, so that commits need not wait for all.
const GROUPS_AT_ONCE: usize = 64;

pub(crate) type ByQueue = BTreeMap<i32, i64>;
/// Nested, so that a look-up needs no joined key.
pub(crate) type ByGroup = HashMap<String, HashMap<String, ByQueue>>;

/// The committed offsets in memory; [`Offsets::save`] writes them after a change.
#[derive(Debug, Default)]
pub struct Offsets {
    lmq_enabled: bool,
    pub(crate) groups: RwLock<ByGroup>,
    /// Number of offsets in `groups`; changed under its lock.
    pub(crate) count: AtomicUsize,
    /// Offsets set by an operator that their groups have not pulled yet.
    pub(crate) resets: Resets,
    /// Number of changes, so that an unchanged table is not written again.
    pub(crate) version: AtomicU64,
    saved_version: Mutex<u64>,
}

/// Group, topic and queue.
type Place = (String, String, i32);

/// Resets that their groups have not pulled yet. While there are none, a check takes no lock.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    count: AtomicUsize,
    offsets: Mutex<HashMap<Place, i64>>,
}

impl Resets {
    /// Whether a reset of this queue is pending.
    pub(crate) fn is_pending(&self, group: &str, topic: &str, queue_id: i32) -> bool {
        self.with(|offsets| offsets.contains_key(&place(group, topic, queue_id)))
            .unwrap_or(false)
    }

    pub(super) fn set(&self, place: Place, offset: i64) {
        let mut offsets = self.offsets.lock();
        offsets.insert(place, offset);
        self.count.store(offsets.len(), Ordering::Release);
    }

    pub(super) fn forget(&self, is_gone: impl Fn(&Place) -> bool) {
        let _ = self.with(|offsets| offsets.retain(|place, _| !is_gone(place)));
    }

    /// Runs `work` on the table unless the table is empty.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut HashMap<Place, i64>) -> T) -> Option<T> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut offsets = self.offsets.lock();
        let result = work(&mut offsets);
        self.count.store(offsets.len(), Ordering::Release);
        Some(result)
    }
}

pub(super) fn place(group: &str, topic: &str, queue_id: i32) -> Place {
    (group.to_owned(), topic.to_owned(), queue_id)
}

impl Offsets {
    /// Reads the table from its file or the previous copy; empty if both are missing. When light
    /// queues are enabled for the first time, takes the offsets of the other file; RocketMQ would
    /// lose them.
    pub fn load(state: &StateFiles, lmq_enabled: bool) -> Result<Self, StoreError> {
        let names = match lmq_enabled {
            true => &[LMQ_FILE_NAME, FILE_NAME][..],
            false => &[FILE_NAME],
        };
        let mut groups = None;
        for name in names {
            if groups.is_none()
                && let Some((found, aside)) = state.load_checked(name, parse)?
            {
                state.set_aside(name, &aside);
                groups = Some(found);
            }
        }
        let groups = groups.unwrap_or_default();
        let by_queue = groups.values().flat_map(HashMap::values);
        Ok(Self {
            count: AtomicUsize::new(by_queue.map(BTreeMap::len).sum()),
            groups: RwLock::new(groups),
            lmq_enabled,
            ..Self::default()
        })
    }

    /// Saves the table if it changed since the last save.
    pub fn save(&self, state: &StateFiles) -> Result<(), StoreError> {
        let mut saved_version = self.saved_version.lock();
        // Read the version before the table: a change in between is then saved now and once more
        // later.
        let version = self.version.load(Ordering::Acquire);
        if *saved_version == version {
            return Ok(());
        }
        let (name, text) = match self.lmq_enabled {
            true => (LMQ_FILE_NAME, render_with_lmq(self.all())),
            false => (FILE_NAME, render(&self.all())),
        };
        state.save(name, text.as_bytes())?;
        *saved_version = version;
        Ok(())
    }

    /// The committed offset of a group in a queue.
    pub fn get(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        let queue_id = self.queue_id_in(group, queue_id);
        let groups = self.groups.read();
        groups.get(group)?.get(topic)?.get(&queue_id).copied()
    }

    /// Commits an offset, which may be lower than before. Has no effect while a reset of this queue
    /// is pending, because late commits would undo the reset.
    ///
    /// Returns false if this would be the group's first offset in this queue and all groups
    /// together have `entries_max` offsets. Groups that clients invent must not fill the memory.
    pub fn commit(
        &self,
        group: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
        entries_max: usize,
    ) -> bool {
        self.resets.is_pending(group, topic, queue_id)
            || self.set_within(group, topic, queue_id, offset, entries_max)
    }

    pub(crate) fn set(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.set_within(group, topic, queue_id, offset, usize::MAX);
    }

    fn set_within(
        &self,
        group: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
        entries_max: usize,
    ) -> bool {
        let queue_id = self.queue_id_in(group, queue_id);
        let mut groups = self.groups.write();
        let queues = groups
            .get_mut(group)
            .and_then(|topics| topics.get_mut(topic));
        match queues.and_then(|queues| queues.get_mut(&queue_id)) {
            Some(known) => *known = offset,
            None if self.count.load(Ordering::Relaxed) >= entries_max => return false,
            None => {
                let topics = entry_or_default(&mut groups, group);
                entry_or_default(topics, topic).insert(queue_id, offset);
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(groups);
        self.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Number of committed offsets of all groups.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn queue_id_in(&self, group: &str, queue_id: i32) -> i32 {
        multi_dispatch::queue_id_in(group, queue_id, self.lmq_enabled)
    }

    /// All committed offsets: topic@group to queue to offset.
    ///
    /// Copies a few groups per lock, because a commit blocks a worker of the server and must not
    /// wait for all of them. A group added meanwhile may be missing.
    pub fn all(&self) -> BTreeMap<String, ByQueue> {
        let names: Vec<String> = self.groups.read().keys().cloned().collect();
        let mut all = BTreeMap::new();
        for part in names.chunks(GROUPS_AT_ONCE) {
            let groups = self.groups.read();
            let found = part.iter().filter_map(|group| groups.get_key_value(group));
            for (group, topics) in found {
                for (topic, queues) in topics {
                    all.insert(format!("{topic}@{group}"), queues.clone());
                }
            }
        }
        all
    }
}

/// `entry` that allocates a key only for a new entry.
pub(crate) fn entry_or_default<'a, V: Default>(
    map: &'a mut HashMap<String, V>,
    key: &str,
) -> &'a mut V {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), V::default());
    }
    map.get_mut(key).expect("inserted above")
}

/// Parses RocketMQ's file into usable and unusable entries; Err if none is usable. Java writes
/// queue ids as bare numbers.
fn parse(bytes: &[u8]) -> Result<(ByGroup, Vec<Aside>), String> {
    let file = json::object(bytes, &[TABLE, LMQ_TABLE])?;
    let mut groups = ByGroup::new();
    let mut aside = Vec::new();
    for (key, queues) in json::table(&file, TABLE)? {
        if let Err(reason) = take_row(&mut groups, key, queues, &mut aside) {
            aside.push(set_aside(key.clone(), reason, queues));
        }
    }
    for (key, offset) in json::table(&file, LMQ_TABLE)? {
        match (topic_and_group(key), offset.as_i64()) {
            (Ok((topic, group)), Some(offset)) => {
                by_queue(&mut groups, topic, group).insert(LMQ_QUEUE_ID, offset);
            }
            (Err(reason), _) => aside.push(set_aside(key.clone(), reason, offset)),
            (Ok(_), None) => aside.push(set_aside(key.clone(), NO_OFFSET, offset)),
        }
    }
    match aside.first() {
        Some(first) if groups.is_empty() => Err(format!("{}: {}", first.name, first.reason)),
        _ => Ok((groups, aside)),
    }
}

/// Adds the queues of `topic@group`; queues without an offset are set aside.
fn take_row(
    groups: &mut ByGroup,
    key: &str,
    queues: &Value,
    aside: &mut Vec<Aside>,
) -> Result<(), &'static str> {
    let (topic, group) = topic_and_group(key)?;
    let queues = queues.as_object().ok_or("not a table of queues")?;
    for (queue_id, offset) in queues {
        match (queue_id.parse(), offset.as_i64()) {
            (Ok(queue_id), Some(offset)) => {
                by_queue(groups, topic, group).insert(queue_id, offset);
            }
            (Err(_), _) => {
                aside.push(set_aside(
                    format!("{key} {queue_id}"),
                    "no queue id",
                    offset,
                ));
            }
            (Ok(_), None) => aside.push(set_aside(format!("{key} {queue_id}"), NO_OFFSET, offset)),
        }
    }
    Ok(())
}

fn topic_and_group(key: &str) -> Result<(&str, &str), &'static str> {
    let (topic, group) = key.split_once('@').ok_or("not topic@group")?;
    let bad = json::bad_name(topic).or_else(|| json::bad_name(group));
    bad.map_or(Ok((topic, group)), Err)
}

fn set_aside(name: String, reason: &str, entry: &Value) -> Aside {
    Aside {
        name,
        reason: reason.to_owned(),
        entry: entry.to_string(),
    }
}

fn by_queue<'a>(groups: &'a mut ByGroup, topic: &str, group: &str) -> &'a mut ByQueue {
    entry_or_default(entry_or_default(groups, group), topic)
}

/// RocketMQ's text of the table, with sorted keys.
fn render(table: &BTreeMap<String, ByQueue>) -> String {
    let mut text = String::from("{");
    render_table(&mut text, table);
    text.push_str("\n}");
    text
}

/// RocketMQ's text if light queues are enabled.
fn render_with_lmq(mut table: BTreeMap<String, ByQueue>) -> String {
    let is_lmq = |key: &str| {
        let group = key.split_once('@').map_or("", |(_, group)| group);
        multi_dispatch::is_lmq(group)
    };
    let mut text = format!("{{\n\t\"{LMQ_TABLE}\":{{");
    let mut is_empty = true;
    for (key, queues) in table.iter().filter(|(key, _)| is_lmq(key)) {
        if let Some(offset) = queues.get(&LMQ_QUEUE_ID) {
            let comma = if is_empty { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(text, "{comma}\n\t\t{}:{offset}", Value::from(key.as_str()));
            is_empty = false;
        }
    }
    text.push_str(if is_empty { "}," } else { "\n\t}," });
    table.retain(|key, _| !is_lmq(key));
    render_table(&mut text, &table);
    text.push_str("\n}");
    text
}

/// fastjson's pretty mode. A map with number keys is on one line, and its closing bracket on the
/// next.
fn render_table(text: &mut String, table: &BTreeMap<String, ByQueue>) {
    let _ = write!(text, "\n\t\"{TABLE}\":{{");
    for (at, (key, queues)) in table.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let key = Value::from(key.as_str());
        let _ = write!(text, "{comma}\n\t\t{key}:{{");
        for (at, (queue_id, offset)) in queues.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{queue_id}:{offset}");
        }
        text.push_str("\n\t\t}");
    }
    if !table.is_empty() {
        text.push_str("\n\t");
    }
    text.push('}');
}

#[cfg(test)]
mod tests;
