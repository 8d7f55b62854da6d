//! When delayed messages are due: their units hold the time, which is that of storing and the
//! delay of the level. A broker may have other delays than RocketMQ's, but one for a level.

use std::collections::BTreeMap;

use super::Check;
use mq_format::message::{RecordView, SCHEDULE_TOPIC};
use mq_format::properties;

/// How often each delay was met in a queue, and the first unit that has it.
#[derive(Debug, Default)]
pub(super) struct Delays(BTreeMap<(i32, i64), Met>);

#[derive(Debug, Default)]
struct Met {
    count: u64,
    first: i64,
    is_usual: bool,
}

impl Check<'_> {
    /// The delay of a unit; what is wrong with the record itself.
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
                "the record says DELAY {level:?}, the queue is {queue_id}"
            ));
        }
        let tags = properties::get(record.properties, properties::TAGS);
        let tags = tags.map_or(0, |tags| mq_format::message::java_hash_on(0, tags).into());
        // Java's recovery does not know when a message is due.
        if tags_code == tags {
            return None;
        }
        // RocketMQ before 3.5, whose clients set no UNIQ_KEY, read one clock for the time at which
        // a message is due, and another one for its store time.
        let is_old = properties::get(record.properties, properties::UNIQ_KEY).is_none();
        let usual_ms = record.tags_code(&self.levels);
        let due_ms = match is_old && tags_code.abs_diff(usual_ms) < CLOCKS_APART_MS {
            true => usual_ms,
            false => tags_code,
        };
        let delay_ms = due_ms.wrapping_sub(record.store_timestamp_ms);
        let met = self.delays.0.entry((queue_id, delay_ms)).or_insert(Met {
            first: offset,
            ..Met::default()
        });
        met.count += 1;
        met.is_usual = due_ms == usual_ms;
        None
    }

    /// Delays that a single message has: a level has one, unless it was set anew in between.
    pub(super) fn delay_times(&mut self) {
        let delays = std::mem::take(&mut self.delays.0);
        for ((queue_id, delay_ms), met) in &delays {
            let mut others = delays.range((*queue_id, i64::MIN)..=(*queue_id, i64::MAX));
            let has_others = others.any(|((_, other), _)| other != delay_ms);
            if met.is_usual || met.count > 1 {
                continue;
            }
            let place = format!("{SCHEDULE_TOPIC}/{queue_id}");
            let what = format!("due {delay_ms} ms after it was stored, as no other message");
            match has_others || !(0..=DELAY_MAX_MS).contains(delay_ms) {
                true => self.find("delay_time", place, met.first, what),
                false => self.notice("delay_time", place, met.first, what),
            }
        }
    }
}

/// Two clocks of an old RocketMQ differ by less, milliseconds.
const CLOCKS_APART_MS: u64 = 1_000;
/// A longer delay is none, milliseconds.
const DELAY_MAX_MS: i64 = 100 * 366 * 24 * 3_600_000;
