//! The checkpoint and the state files against the log and the queues.

use serde_json::Value;

use super::Check;
use crate::format::message::SCHEDULE_TOPIC;
use crate::store::scan::groups::{STATE_FILES, parse_state, state_bytes};
use crate::store::types::StoreError;

/// Names of the checkpoint's times.
const TIMES: [&str; 3] = ["log", "queue", "index"];

impl Check<'_> {
    /// The checkpoint must not be ahead of the last record: what was on disk is gone, then.
    pub(super) fn checkpoint(&mut self) -> Result<(), StoreError> {
        let Some(times) = self.state.checkpoint_ms else {
            if self.report.records > 0 {
                let what = "there is none: the next open checks the whole log".to_owned();
                self.notice("checkpoint", "checkpoint", -1, what);
            }
            return Ok(());
        };
        let last = self.last_store_timestamp_ms;
        for (name, time) in TIMES.iter().zip(times) {
            if time > last && !self.state.is_locked {
                let what = format!(
                    "says that the {name} was on disk up to {time} ms, the last record is of {last}"
                );
                self.find("checkpoint", "checkpoint", -1, what);
            }
        }
        Ok(())
    }

    /// State files that cannot be read, and offsets beyond the end of their queues.
    pub(super) fn states(&mut self) -> Result<(), StoreError> {
        for name in STATE_FILES {
            let Some(bytes) = state_bytes(&self.scan.root, name)? else {
                continue;
            };
            let Some(table) = parse_state(&bytes) else {
                self.unusable(name)?;
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

    fn unusable(&mut self, name: &str) -> Result<(), StoreError> {
        let copy = state_bytes(&self.scan.root, &format!("{name}.bak"))?;
        let then = if copy.is_some_and(|bytes| parse_state(&bytes).is_some()) {
            "its previous copy can"
        } else {
            "nor can a previous copy"
        };
        let what = format!("cannot be read, {then}");
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

    /// A committed offset, whose key is topic@group.
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
                let what = format!("committed {offset}, there is no such queue");
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

    /// One past the last message of a queue, one that is not queued yet too.
    fn next_offset(&self, topic: &str, queue_id: i32) -> Option<i64> {
        let checked = self.queues.get(topic)?.get(&queue_id)?;
        Some(checked.queue.max_offset().max(checked.next_offset))
    }
}

fn object<'a>(table: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let rows = table.get(name).and_then(Value::as_object);
    rows.into_iter().flatten()
}
