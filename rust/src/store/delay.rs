//! Delivers delayed messages: follows each level's queue of the schedule topic and stores every
//! message again, in its real topic, when it is due.
//!
//! Messages of one level are due in the order they were stored, so the first one not due ends a
//! level's turn; the thread sleeps until the earliest of those, or an arrival. Progress is the
//! queue offset per level, kept in `config/delayOffset.json`; what was delivered after its last
//! save is delivered again after a crash, as in RocketMQ.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::consume_queues::ConsumeQueues;
use super::signal::{Signal, Woken};
use super::state::State;
use super::types::{PutRequest, PutStatus, StoreError};
use crate::clock::Clock;
use crate::format::consume_queue::QueueEntry;
use crate::format::delay_levels::DelayLevels;
use crate::format::fastjson;
use crate::format::message::{CheckCrc, RecordView, SCHEDULE_TOPIC};
use crate::format::properties;

const FILE_NAME: &str = "delayOffset.json";
/// Messages of one level delivered before the next level has its turn.
const TURN_MESSAGES: usize = 1_000;
/// A put that was refused is tried again after this long.
const RETRY_MS: i64 = 100;
/// Longest sleep: a wall clock that is set forward is noticed after this.
const SLEEP_MS_MAX: i64 = 1_000;
/// Half messages are never delivered from here.
const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";

/// Reads the record at a physical offset, and stores a message.
pub(crate) trait Delivery: Send + Sync + 'static {
    /// The record, None if it is gone.
    fn record_at(&self, physical_offset: i64) -> Option<Vec<u8>>;
    /// Stores a message; nobody waits for the flush.
    fn put(&self, request: &PutRequest<'_>) -> PutStatus;
}

/// How far each level is, and what wakes the thread.
pub(crate) struct Delay {
    levels: DelayLevels,
    queues: Arc<ConsumeQueues>,
    clock: Arc<dyn Clock>,
    signal: Signal,
    /// Next queue offset by level - 1.
    offsets: Vec<AtomicI64>,
    /// What the file says.
    saved: Mutex<Vec<i64>>,
}

impl Delay {
    /// Levels as far as the file says, within what their queues hold.
    pub(crate) fn load(
        levels: DelayLevels,
        queues: Arc<ConsumeQueues>,
        clock: Arc<dyn Clock>,
        state: &State,
    ) -> Result<Self, StoreError> {
        let bytes = state.load(FILE_NAME, |bytes| parse(bytes).is_some())?;
        let table = bytes.and_then(|bytes| parse(&bytes)).unwrap_or_default();
        let offset_of = |level: i32| {
            let offset = table.get(&level).copied().unwrap_or(0);
            let queue = queues.get(SCHEDULE_TOPIC, level - 1);
            let range = queue.map_or((0, 0), |queue| (queue.min_offset(), queue.max_offset()));
            offset.clamp(range.0, range.1)
        };
        let offsets: Vec<i64> = (1..=levels.max_level()).map(offset_of).collect();
        Ok(Self {
            levels,
            queues,
            clock,
            signal: Signal::default(),
            saved: Mutex::new(offsets.clone()),
            offsets: offsets.into_iter().map(AtomicI64::new).collect(),
        })
    }

    /// A message arrived in the schedule topic.
    pub(crate) fn notify(&self) {
        self.signal.ring();
    }

    /// Writes the offsets if they changed since the last save.
    pub(crate) fn save(&self, state: &State) -> Result<(), StoreError> {
        let mut saved = self.saved.lock();
        let offsets = self.offsets();
        if *saved != offsets {
            state.save(FILE_NAME, render(&offsets).as_bytes())?;
            *saved = offsets;
        }
        Ok(())
    }

    /// Per level from 1: its offset and the end of its queue.
    pub(crate) fn progress(&self) -> Vec<(i64, i64)> {
        let end = |queue_id| {
            let queue = self.queues.get(SCHEDULE_TOPIC, queue_id);
            queue.map_or(0, |queue| queue.max_offset())
        };
        self.offsets().into_iter().zip((0..).map(end)).collect()
    }

    fn offsets(&self) -> Vec<i64> {
        self.offsets
            .iter()
            .map(|offset| offset.load(Ordering::Acquire))
            .collect()
    }

    fn run(&self, delivery: &impl Delivery) {
        loop {
            let next_ms = self.deliver_due(delivery);
            let seen = self.ends();
            let sleep_ms = (next_ms - self.clock.wall_ms()).clamp(0, SLEEP_MS_MAX);
            let sleep = Duration::from_millis(sleep_ms.unsigned_abs());
            if sleep.is_zero() {
                // More is due; only look whether to stop.
                if self.signal.wait(None, || true) == Woken::Stop {
                    return;
                }
            } else if self.signal.wait(Some(sleep), || self.ends() != seen) == Woken::Stop {
                return;
            }
        }
    }

    fn ends(&self) -> Vec<i64> {
        self.progress().into_iter().map(|(_, end)| end).collect()
    }

    /// Gives each level a turn; returns when to come again, milliseconds since the epoch.
    fn deliver_due(&self, delivery: &impl Delivery) -> i64 {
        (1..=self.levels.max_level())
            .map(|level| self.deliver_level(level, delivery))
            .min()
            .unwrap_or(i64::MAX)
    }

    fn deliver_level(&self, level: i32, delivery: &impl Delivery) -> i64 {
        let Some(queue) = self.queues.get(SCHEDULE_TOPIC, level - 1) else {
            return i64::MAX;
        };
        let Some(next) = usize::try_from(level - 1)
            .ok()
            .and_then(|at| self.offsets.get(at))
        else {
            return i64::MAX;
        };
        // Units below the minimum have expired.
        next.fetch_max(queue.min_offset(), Ordering::AcqRel);
        for _ in 0..TURN_MESSAGES {
            let offset = next.load(Ordering::Acquire);
            let Some(entry) = queue.entry(offset) else {
                return i64::MAX;
            };
            let now_ms = self.clock.wall_ms();
            let due_ms = self.due_ms(level, &entry, now_ms);
            if due_ms > now_ms {
                return due_ms;
            }
            if deliver(&entry, delivery) != PutStatus::Ok {
                return now_ms + RETRY_MS;
            }
            next.store(offset + 1, Ordering::Release);
        }
        0
    }

    /// The entry's tags code is its delivery time, unless that is further than the level's delay:
    /// then the clock was set back or the table changed, and the message goes now.
    fn due_ms(&self, level: i32, entry: &QueueEntry, now_ms: i64) -> i64 {
        let latest_ms = self.levels.deliver_at_ms(level, now_ms);
        if entry.tags_code > latest_ms {
            now_ms
        } else {
            entry.tags_code
        }
    }
}

/// Stores the message in its real topic; one that cannot be delivered is skipped.
fn deliver(entry: &QueueEntry, delivery: &impl Delivery) -> PutStatus {
    let Some(bytes) = delivery.record_at(entry.physical_offset) else {
        tracing::warn!(
            offset = entry.physical_offset,
            "a delayed message is gone, skipping it"
        );
        return PutStatus::Ok;
    };
    let Some(status) = real_request(&bytes, |request| delivery.put(request)) else {
        tracing::warn!(
            offset = entry.physical_offset,
            "a delayed message has no real topic"
        );
        return PutStatus::Ok;
    };
    match status {
        // It will not get better: RocketMQ would try for ever and hold up the level.
        PutStatus::MessageIllegal | PutStatus::PropertiesSizeExceeded => {
            tracing::error!(
                offset = entry.physical_offset,
                ?status,
                "dropping a delayed message"
            );
            PutStatus::Ok
        }
        PutStatus::FlushDiskTimeout
        | PutStatus::FlushSlaveTimeout
        | PutStatus::SlaveNotAvailable => PutStatus::Ok,
        other => other,
    }
}

/// The message as it goes to its real topic. DELAY, REAL_TOPIC and REAL_QID stay in the text, as
/// in RocketMQ.
fn real_request<R>(bytes: &[u8], put: impl FnOnce(&PutRequest<'_>) -> R) -> Option<R> {
    let record = RecordView::parse(bytes, CheckCrc::No).ok()?;
    let topic = properties::get_str(record.properties, properties::REAL_TOPIC)?;
    let queue_id = properties::get_str(record.properties, properties::REAL_QUEUE_ID)?;
    if topic == HALF_TOPIC {
        return None;
    }
    Some(put(&PutRequest {
        topic: &topic,
        queue_id: queue_id.parse().ok()?,
        flag: record.flag,
        sys_flag: record.sys_flag,
        born_timestamp_ms: record.born_timestamp_ms,
        born_host: record.born_host,
        store_host: record.store_host,
        reconsume_times: record.reconsume_times,
        prepared_transaction_offset: 0,
        body: record.body,
        properties: record.properties,
        wait_store_ok: false,
        delay_level: 0,
    }))
}

/// The delivering thread; dropping stops it.
pub(crate) struct DelayThread {
    delay: Arc<Delay>,
    thread: Option<JoinHandle<()>>,
}

impl DelayThread {
    /// Starts delivering.
    pub(crate) fn start(delay: Arc<Delay>, delivery: impl Delivery) -> io::Result<Self> {
        let seen = Arc::clone(&delay);
        let run = move || seen.run(&delivery);
        let thread = Some(thread::Builder::new().name("mq-delay".into()).spawn(run)?);
        Ok(Self { delay, thread })
    }
}

impl Drop for DelayThread {
    fn drop(&mut self) {
        self.delay.signal.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

fn parse(bytes: &[u8]) -> Option<BTreeMap<i32, i64>> {
    let text = fastjson::to_strict(std::str::from_utf8(bytes).ok()?).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let Some(table) = value.get("offsetTable") else {
        return value.is_object().then(BTreeMap::new);
    };
    let pair = |(level, offset): (&String, &Value)| Some((level.parse().ok()?, offset.as_i64()?));
    table.as_object()?.iter().map(pair).collect()
}

fn render(offsets: &[i64]) -> String {
    let mut text = String::from("{\n\t\"offsetTable\":{");
    for (at, offset) in offsets.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{}:{offset}", at + 1);
    }
    text.push_str("\n\t}\n}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::message::Version;

    #[test]
    fn the_file_is_read_and_written_as_java_does() {
        let golden = b"{\n\t\"offsetTable\":{1:2,2:2,3:2\n\t}\n}";
        let table = parse(golden).unwrap();
        assert_eq!(table, BTreeMap::from([(1, 2), (2, 2), (3, 2)]));
        assert_eq!(render(&[2, 2, 2]).as_bytes(), golden);
        assert_eq!(parse(b"{}"), Some(BTreeMap::new()));
        assert_eq!(
            parse(b"{\"offsetTable\":{\"1\":7}}"),
            Some(BTreeMap::from([(1, 7)]))
        );
        assert_eq!(parse(b"{\"offsetTable\":{1:"), None);
    }

    #[test]
    fn only_a_message_with_a_real_topic_is_delivered() {
        let deliver = |properties: &[u8]| {
            let host = "127.0.0.1:1".parse().unwrap();
            let record = RecordView {
                version: Version::V1,
                body_crc: 0,
                queue_id: 0,
                flag: 3,
                queue_offset: 9,
                physical_offset: 0,
                sys_flag: 0,
                born_timestamp_ms: 5,
                born_host: host,
                store_timestamp_ms: 6,
                store_host: host,
                reconsume_times: 2,
                prepared_transaction_offset: 7,
                body: b"body",
                topic: SCHEDULE_TOPIC,
                properties,
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            real_request(&bytes, |request| {
                assert_eq!(
                    (request.delay_level, request.prepared_transaction_offset),
                    (0, 0)
                );
                assert_eq!((request.flag, request.reconsume_times), (3, 2));
                assert_eq!(request.properties, properties);
                (request.topic.to_owned(), request.queue_id)
            })
        };
        let delivered = deliver(b"DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x014");
        assert_eq!(delivered, Some(("T".to_owned(), 4)));
        assert_eq!(deliver(b"REAL_TOPIC\x01T"), None);
        assert_eq!(deliver(b"REAL_TOPIC\x01T\x02REAL_QID\x01x"), None);
        let half = format!("REAL_TOPIC\x01{HALF_TOPIC}\x02REAL_QID\x010");
        assert_eq!(deliver(half.as_bytes()), None);
    }
}
