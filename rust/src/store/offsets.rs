//! Committed consumer offsets: group and topic to queue to offset, kept in
//! `config/consumerOffset.json` as RocketMQ does.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use super::state::State;
use super::types::StoreError;
use crate::format::fastjson;

const FILE_NAME: &str = "consumerOffset.json";

type ByQueue = BTreeMap<i32, i64>;
/// Nested so that a look-up needs no joined key.
type ByGroup = HashMap<String, HashMap<String, ByQueue>>;

/// The committed offsets, in memory; [`Offsets::save`] writes them when they changed.
#[derive(Debug, Default)]
pub struct Offsets {
    groups: RwLock<ByGroup>,
    /// Counts changes, so that an unchanged table is not written again.
    version: AtomicU64,
    saved_version: Mutex<u64>,
}

impl Offsets {
    /// Reads the table from its file, or its copy; missing is empty.
    pub fn load(state: &State) -> Result<Self, StoreError> {
        let bytes = state.load(FILE_NAME, |bytes| parse(bytes).is_some())?;
        let groups = bytes.and_then(|bytes| parse(&bytes)).unwrap_or_default();
        Ok(Self {
            groups: RwLock::new(groups),
            ..Self::default()
        })
    }

    /// Writes the table if it changed since the last save.
    pub fn save(&self, state: &State) -> Result<(), StoreError> {
        let mut saved_version = self.saved_version.lock();
        // Read before the table: a change in between is written now and once more later.
        let version = self.version.load(Ordering::Acquire);
        if *saved_version == version {
            return Ok(());
        }
        state.save(FILE_NAME, render(&self.all()).as_bytes())?;
        *saved_version = version;
        Ok(())
    }

    /// The committed offset of a group in a queue.
    pub fn get(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        let groups = self.groups.read();
        groups.get(group)?.get(topic)?.get(&queue_id).copied()
    }

    /// Commits an offset; it may go back, as a reset does.
    pub fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let mut groups = self.groups.write();
        let topics = entry_or_default(&mut groups, group);
        entry_or_default(topics, topic).insert(queue_id, offset);
        drop(groups);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Every committed offset: topic@group to queue to offset.
    pub fn all(&self) -> BTreeMap<String, ByQueue> {
        let groups = self.groups.read();
        let of_group = |(group, topics): (&String, &HashMap<String, ByQueue>)| {
            let joined =
                |(topic, queues): (&String, &ByQueue)| (format!("{topic}@{group}"), queues.clone());
            topics.iter().map(joined).collect::<Vec<_>>()
        };
        groups.iter().flat_map(of_group).collect()
    }

    /// Forgets a group; returns how many queues had a committed offset.
    pub fn remove_group(&self, group: &str) -> usize {
        let removed = self.groups.write().remove(group).unwrap_or_default();
        let count = removed.values().map(BTreeMap::len).sum();
        if count > 0 {
            self.version.fetch_add(1, Ordering::Release);
        }
        count
    }
}

/// `entry` without allocating the key of an entry that exists.
fn entry_or_default<'a, V: Default>(map: &'a mut HashMap<String, V>, key: &str) -> &'a mut V {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), V::default());
    }
    map.get_mut(key).expect("inserted above")
}

/// Reads RocketMQ's file; None when it is not one. Java writes the queue ids as bare numbers.
fn parse(bytes: &[u8]) -> Option<ByGroup> {
    let text = fastjson::to_strict(std::str::from_utf8(bytes).ok()?).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let mut groups = ByGroup::new();
    let Some(table) = value.get("offsetTable") else {
        return value.is_object().then_some(groups);
    };
    for (key, queues) in table.as_object()? {
        let (topic, group) = key.split_once('@')?;
        let topics = entry_or_default(&mut groups, group);
        let by_queue = entry_or_default(topics, topic);
        for (queue_id, offset) in queues.as_object()? {
            by_queue.insert(queue_id.parse().ok()?, offset.as_i64()?);
        }
    }
    Some(groups)
}

/// RocketMQ's text of the table, keys sorted: fastjson's pretty mode, in which a map with
/// number keys stays on one line with its closing bracket on the next.
fn render(table: &BTreeMap<String, ByQueue>) -> String {
    let mut text = String::from("{\n\t\"offsetTable\":{");
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
    text.push_str("}\n}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reopened(state: &State) -> BTreeMap<String, ByQueue> {
        Offsets::load(state).unwrap().all()
    }

    #[test]
    fn commits_survive_a_save_and_a_removal_too() {
        let root = tempfile::tempdir().unwrap();
        let state = State::new(root.path());
        let offsets = Offsets::load(&state).unwrap();
        offsets.commit("g", "T", 1, 7);
        offsets.commit("g", "T", 0, 5);
        offsets.commit("other", "%RETRY%g", 0, 1);
        assert_eq!(offsets.get("g", "T", 1), Some(7));
        assert_eq!(offsets.get("g", "T", 2), None);
        assert_eq!(offsets.get("nobody", "T", 1), None);
        offsets.save(&state).unwrap();
        assert_eq!(reopened(&state), offsets.all());
        assert_eq!(offsets.all()["T@g"], BTreeMap::from([(0, 5), (1, 7)]));
        assert_eq!(offsets.remove_group("g"), 2);
        offsets.save(&state).unwrap();
        assert_eq!(reopened(&state).len(), 1);
    }

    #[test]
    fn an_unchanged_table_is_not_written() {
        let root = tempfile::tempdir().unwrap();
        let state = State::new(root.path());
        let offsets = Offsets::load(&state).unwrap();
        offsets.save(&state).unwrap();
        assert!(!root.path().join("config").exists());
    }

    #[test]
    fn the_text_is_rocketmqs() {
        let table = BTreeMap::from([
            ("A@g".to_owned(), BTreeMap::from([(0, 5), (1, 7)])),
            ("B@g".to_owned(), BTreeMap::from([(0, 0)])),
        ]);
        let text =
            "{\n\t\"offsetTable\":{\n\t\t\"A@g\":{0:5,1:7\n\t\t},\n\t\t\"B@g\":{0:0\n\t\t}\n\t}\n}";
        assert_eq!(render(&table), text);
        assert_eq!(render(&BTreeMap::new()), "{\n\t\"offsetTable\":{}\n}");
        assert_eq!(parse(text.as_bytes()).unwrap()["g"]["A"][&1], 7);
    }

    #[test]
    fn what_is_not_an_offset_table_is_unusable() {
        assert!(parse(b"{\"offsetTable\":{\"T@g\":{0:").is_none());
        assert!(parse(b"[]").is_none());
        assert!(parse(b"{\"offsetTable\":{\"T@g\":{\"x\":1}}}").is_none());
        assert!(parse(b"{}").unwrap().is_empty());
    }
}
