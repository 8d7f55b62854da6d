//! When delayed messages are due. Their queue entries hold the due time: the store time plus the
//! delay of the level. A broker may use other delays than RocketMQ's defaults, but one per level.

use std::collections::BTreeMap;

use super::Check;
use mq_format::message::{RecordView, SCHEDULE_TOPIC};
use mq_format::properties;

/// The number of entries with each delay of a queue, and the first such entry.
#[derive(Debug, Default)]
pub(super) struct Delays(BTreeMap<(i32, i64), Seen>);

#[derive(Debug, Default)]
struct Seen {
    count: u64,
    first: i64,
    is_usual: bool,
}

impl Check<'_> {
    /// Notes the delay of an entry; returns the fault if the record contradicts the queue.
    pub(super) fn delay(
        &mut self,
        (queue_id, offset): (i32, i64),
        record: &RecordView<'_>,
        tags_code: i64,
    ) -> Option<String> {
        let level = properties::get_str(record.properties, properties::DELAY);
        let level = level.and_then(|level| level.parse::<i32>().ok());
        if level != queue_id.checked_add(1) {
            return Some(format!(
                "the record has DELAY {level:?}, but it is in queue {queue_id}"
            ));
        }
        let tags = properties::get(record.properties, properties::TAGS);
        let tags = tags.map_or(0, |tags| mq_format::message::java_hash_on(0, tags).into());
        // Java's recovery does not know the due time and writes the hash of the tags instead.
        if tags_code == tags {
            return None;
        }
        // RocketMQ before 3.5, whose clients set no UNIQ_KEY, read the clock twice: once for the
        // due time, once for the store time.
        let is_old = properties::get(record.properties, properties::UNIQ_KEY).is_none();
        let usual_ms = record.tags_code(&self.levels);
        let due_ms = match is_old && tags_code.abs_diff(usual_ms) < CLOCKS_APART_MS {
            true => usual_ms,
            false => tags_code,
        };
        let delay_ms = due_ms.wrapping_sub(record.store_timestamp_ms);
        let met = self.delays.0.entry((queue_id, delay_ms)).or_insert(Seen {
            first: offset,
            ..Seen::default()
        });
        met.count += 1;
        met.is_usual = due_ms == usual_ms;
        None
    }

    /// Reports delays that only one message has: a level has one delay, unless an operator changed
    /// it.
    pub(super) fn delay_times(&mut self) {
        let delays = std::mem::take(&mut self.delays.0);
        for ((queue_id, delay_ms), met) in &delays {
            let mut others = delays.range((*queue_id, i64::MIN)..=(*queue_id, i64::MAX));
            let has_others = others.any(|((_, other), _)| other != delay_ms);
            if met.is_usual || met.count > 1 {
                continue;
            }
            let place = format!("{SCHEDULE_TOPIC}/{queue_id}");
            let what = format!("due {delay_ms} ms after its store time, unlike all other messages");
            match has_others || !(0..=DELAY_MAX_MS).contains(delay_ms) {
                true => self.find("delay_time", place, met.first, what),
                false => self.notice("delay_time", place, met.first, what),
            }
        }
    }
}

/// Largest difference between these two clock reads, milliseconds.
const CLOCKS_APART_MS: u64 = 1_000;
/// Longest plausible delay, milliseconds.
const DELAY_MAX_MS: i64 = 100 * 366 * 24 * 3_600_000;
