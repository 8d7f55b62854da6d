//! Checks the checkpoint and the state files against the log and the queues.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::Check;
use crate::groups::{STATE_FILES, parse_state, state_bytes};
use mq_format::message::SCHEDULE_TOPIC;
use mq_log::fs::{self, OpenOptions, open_own};
use mq_statefile::seal::{self, Seal, Verdict};
use mq_statefile::{STATE_BYTES_MAX, StateFiles};
use mq_store::StoreError;
use mq_store::inspect::CHECKPOINT_BYTES;
use mq_store::inspect::Deletions;
use mq_store::inspect::LogFacts;
use mq_store::inspect::io_error;
use mq_store::inspect::queue_ends;

/// Directory of the checksums of state files.
const OWN_STATE: &str = "mqstack/state";
/// Names of the checkpoint's times.
const TIMES: [&str; 3] = ["log", "queue", "index"];

impl Check<'_> {
    /// Checks the checkpoint. A time after the last record means that flushed records are gone.
    pub(super) fn checkpoint(&mut self) -> Result<(), StoreError> {
        if let Some((_, bytes)) = self.scan.checkpoint_bytes()?
            && bytes != CHECKPOINT_BYTES
        {
            let what = format!("has {bytes} bytes, expected {CHECKPOINT_BYTES}");
            self.find("checkpoint", "checkpoint", -1, what);
        }
        let Some(times) = self.state.checkpoint_ms else {
            if self.report.records > 0 {
                let what = "is missing: the next open checks the whole log".to_owned();
                self.notice("checkpoint", "checkpoint", -1, what);
            }
            return Ok(());
        };
        let last = self.last_store_timestamp_ms;
        for (name, time) in TIMES.iter().zip(times) {
            if time > last && !self.state.is_locked {
                let what = format!(
                    "says that the {name} was flushed up to {time} ms, the last record has {last}"
                );
                self.find("checkpoint", "checkpoint", -1, what);
            }
        }
        Ok(())
    }

    /// Checks the files with which a start of mqstack completes what the log does not show.
    pub(super) fn own_files(&mut self) -> Result<(), StoreError> {
        let root = &self.scan.root;
        let files = [
            (
                "deleted.json",
                Deletions::is_damaged(root)?,
                "deleted messages reappear if their topic is created again",
            ),
            (
                "log.json",
                LogFacts::is_damaged(root)?,
                "the next open does not know whether an earlier repair was finished",
            ),
            (
                "queue_ends",
                queue_ends::is_damaged(root)?,
                "the next open completes the consume queues from the whole log",
            ),
        ];
        for (name, _, then) in files.into_iter().filter(|(_, is_damaged, _)| *is_damaged) {
            let what = format!("cannot be read: {then}");
            self.find("state", format!("mqstack/{name}"), -1, what);
        }
        Ok(())
    }

    /// Reports state files that are missing, damaged or unreadable, and offsets beyond the end of
    /// their queues.
    pub(super) fn states(&mut self) -> Result<(), StoreError> {
        for (name, tables) in STATE_FILES {
            self.checksums(name)?;
            let path = self.scan.root.join("config").join(name);
            let Some(bytes) = state_bytes(&self.scan.root, name)? else {
                self.without(name, tables)?;
                continue;
            };
            let known = seal::read(&seal::path_of(&self.scan.root.join("mqstack"), name))?;
            let damage = damage_of(&path, &known)?;
            let table = parse_state(&bytes, tables).filter(|_| damage.is_none());
            let Some(table) = table else {
                let damage = damage.unwrap_or("cannot be read, or is the content of another file");
                self.unusable(name, tables, damage)?;
                continue;
            };
            match name {
                "consumerOffset.json" | "lmqConsumerOffset.json" => self.offsets(name, &table),
                "delayOffset.json" => self.delay_offsets(name, &table),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks the checksum file of a state file, and the previous copy.
    fn checksums(&mut self, name: &str) -> Result<(), StoreError> {
        let side = seal::path_of(&self.scan.root.join("mqstack"), name);
        if seal::has_damaged_lines(&side).map_err(io_error(&side))? {
            let what = "the file holds a damaged checksum".to_owned();
            self.find("state", format!("mqstack/state/{name}.sum"), -1, what);
        }
        let copy = format!("{name}.bak");
        let known = seal::read(&side)?;
        let config = self.scan.root.join("config");
        if known.is_empty() && config.join(name).exists() && self.scan.root.join(OWN_STATE).exists()
        {
            let what = "no checksum: RocketMQ wrote the file, or the checksum was lost".to_owned();
            self.notice("state", format!("config/{name}"), -1, what);
        }
        if let Some(damage) = damage_of(&config.join(&copy), &known)? {
            self.find("state", format!("config/{copy}"), -1, damage.to_owned());
        }
        Ok(())
    }

    /// Reports a missing state file, unless it never existed. It did if it has a previous copy or a
    /// checksum. A broker's store with messages also needs its topic table.
    fn without(&mut self, name: &str, tables: &[&str]) -> Result<(), StoreError> {
        let root = &self.scan.root;
        let has_copy = root.join("config").join(format!("{name}.bak")).exists();
        let was_there = has_copy || StateFiles::new(root).is_lost(name)?;
        let is_needed = name == "topics.json" && self.report.records > 0 && self.is_of_broker();
        if was_there || is_needed {
            self.unusable(name, tables, "is missing")?;
        }
        Ok(())
    }

    /// Whether a broker wrote the store. The engine alone creates `mqstack` and needs no topics.
    fn is_of_broker(&self) -> bool {
        let has = |name: &str| self.scan.root.join(name).exists();
        let tables = [
            "topics.json.bak",
            "subscriptionGroup.json",
            "consumerFilter.json",
        ];
        !has("mqstack") || tables.iter().any(|name| has(&format!("config/{name}")))
    }

    fn unusable(&mut self, name: &str, tables: &[&str], damage: &str) -> Result<(), StoreError> {
        let copy = state_bytes(&self.scan.root, &format!("{name}.bak"))?;
        let then = if copy.is_some_and(|bytes| parse_state(&bytes, tables).is_some()) {
            "its previous copy can be read"
        } else {
            "there is no previous copy that can be read"
        };
        let what = format!("{damage}; {then}");
        self.find("state", format!("config/{name}"), -1, what);
        Ok(())
    }

    fn offsets(&mut self, file: &str, table: &Value) {
        for (key, by_queue) in object(table, "offsetTable") {
            for (queue_id, offset) in by_queue.as_object().into_iter().flatten() {
                self.offset(file, key, queue_id.parse().unwrap_or(-1), offset);
            }
        }
        for (key, offset) in object(table, "lmqOffsetTable") {
            self.offset(file, key, 0, offset);
        }
    }

    /// Checks a committed offset; its key is topic@group.
    fn offset(&mut self, file: &str, key: &str, queue_id: i32, offset: &Value) {
        self.report.offsets += 1;
        let place = format!("config/{file}: {key}/{queue_id}");
        let (topic, Some(offset)) = (key.split('@').next().unwrap_or(key), offset.as_i64()) else {
            return self.find("state", place, -1, format!("{offset} is no offset"));
        };
        match self.next_offset(topic, queue_id) {
            Some(end) if offset > end => {
                let what = format!("committed {offset}, the queue ends at {end}");
                self.find("offset", place, offset, what);
            }
            None if offset > 0 => {
                let what = format!("committed {offset}, but the queue does not exist");
                self.notice("offset", place, offset, what);
            }
            _ => {}
        }
    }

    fn delay_offsets(&mut self, file: &str, table: &Value) {
        for (level, offset) in object(table, "offsetTable") {
            self.report.offsets += 1;
            let queue_id = level.parse::<i32>().unwrap_or(0) - 1;
            let Some(offset) = offset.as_i64() else {
                continue;
            };
            let end = self.next_offset(SCHEDULE_TOPIC, queue_id).unwrap_or(0);
            if offset > end {
                let what = format!("delivered up to {offset}, the queue ends at {end}");
                let place = format!("config/{file}: level {level}");
                self.find("offset", place, offset, what);
            }
        }
    }

    /// One past the last message of a queue, including messages in the log that have no entry yet.
    fn next_offset(&self, topic: &str, queue_id: i32) -> Option<i64> {
        let checked = self.queues.get(topic)?.get(&queue_id)?;
        Some(checked.queue.max_offset().max(checked.next_offset))
    }
}

/// The fault of a file according to its checksum; None if it has no fault or no checksum.
fn damage_of(path: &Path, known: &[Seal]) -> Result<Option<&'static str>, StoreError> {
    let bytes = match fs::read_own(path, STATE_BYTES_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(io_error(path))?,
    };
    let file = open_own(path, OpenOptions::new().read(true));
    let seen = file
        .and_then(|file| Seal::of(&file, &bytes))
        .map_err(io_error(path))?;
    Ok(match seal::verdict(known, &seen) {
        _ if bytes.is_empty() => Some("is empty"),
        Verdict::Damaged => Some("does not match its checksum"),
        Verdict::Ours | Verdict::Unknown => None,
    })
}

/// The topics of `config/topics.json` or its previous copy; None if neither can be read.
pub(super) fn topics(root: &Path) -> Result<Option<HashSet<String>>, StoreError> {
    for name in ["topics.json", "topics.json.bak"] {
        let bytes = state_bytes(root, name)?;
        let table = bytes.and_then(|bytes| parse_state(&bytes, &["topicConfigTable"]));
        let table = table
            .as_ref()
            .and_then(|table| table.get("topicConfigTable"));
        if let Some(table) = table.and_then(Value::as_object) {
            return Ok(Some(table.keys().cloned().collect()));
        }
    }
    Ok(None)
}

fn object<'a>(table: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let rows = table.get(name).and_then(Value::as_object);
    rows.into_iter().flatten()
}
