//! Reads records from the schedule topic and puts their messages to the real topics.

use std::io;
use std::sync::Arc;

use crate::scan::record::{self, Place, RecordFault};
use crate::types::{Put, PutRequest, PutResult};
use crate::write::put::Puts;
use mq_format::consume_queue::QueueEntry;
use mq_format::message::{BLANK_BYTES, CheckCrc, Head, RecordView};
use mq_format::properties;

/// Delayed delivery to this topic is refused.
pub(crate) const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// Bytes read at once; a longer record is read alone.
const SPAN_BYTES: i64 = 256 << 10;
/// Longest gap between two records that are read together.
const GAP_BYTES: i64 = 4 << 10;

/// Reads the log and stores messages.
pub(crate) trait Delivery: Send + Sync + 'static {
    /// Reads from one file of the log, as much as fits; returns 0 if the data is gone.
    fn read(&self, physical_offset: i64, out: &mut [u8]) -> io::Result<usize>;
    /// Stores a message without waiting for the flush.
    fn put(&self, request: &PutRequest<'_>) -> PutResult;
}

/// The [`Delivery`] of a store.
pub(crate) struct Redelivery(pub(crate) Arc<Puts>);

impl Delivery for Redelivery {
    fn read(&self, physical_offset: i64, out: &mut [u8]) -> io::Result<usize> {
        let log = &self.0.flusher.log;
        log.read_at(physical_offset.cast_unsigned(), out)
    }

    fn put(&self, request: &PutRequest<'_>) -> PutResult {
        match self.0.one(request) {
            Put::Done(result) | Put::Parked(result, _) => result,
        }
    }
}

/// Reads the records of some queue entries, in order. Records close together are read at once.
pub(crate) struct Spans<'a> {
    entries: &'a [QueueEntry],
    bytes: Vec<u8>,
    /// Offset of the first byte.
    from: i64,
}

impl<'a> Spans<'a> {
    /// Starts without reading.
    pub(crate) fn new(entries: &'a [QueueEntry]) -> Self {
        Self {
            entries,
            bytes: Vec::new(),
            from: 0,
        }
    }

    /// Returns the record of `entry` at `place` of the schedule topic, or its fault after a second
    /// read. Ask for entries in order. The body is checked, because storing a damaged body again
    /// would give it a valid checksum.
    pub(crate) fn record(
        &mut self,
        entry: &QueueEntry,
        place: Place<'_>,
        delivery: &impl Delivery,
    ) -> io::Result<Result<RecordView<'_>, RecordFault>> {
        if self.slice(entry).is_none() {
            self.read(entry, delivery)?;
        }
        if self.check(entry, place).is_err() {
            self.read(entry, delivery)?;
        }
        if let Err(wrong) = self.check(entry, place) {
            return Ok(Err(wrong));
        }
        let bytes = self.slice(entry).unwrap_or_default();
        Ok(RecordView::parse(bytes, CheckCrc::No).map_err(RecordFault::from))
    }

    fn check(&self, entry: &QueueEntry, place: Place<'_>) -> Result<(), RecordFault> {
        let Some(bytes) = self.slice(entry) else {
            let size = usize::try_from(entry.size_bytes).unwrap_or(0);
            return Err(RecordFault::Short { size });
        };
        record::check_queued(bytes, entry.physical_offset, place)
    }

    fn slice(&self, entry: &QueueEntry) -> Option<&[u8]> {
        let at = usize::try_from(entry.physical_offset.saturating_sub(self.from)).ok()?;
        let size = usize::try_from(entry.size_bytes).ok()?;
        self.bytes.get(at..at.checked_add(size)?)
    }

    /// Reads the record and the ones close after it.
    fn read(&mut self, entry: &QueueEntry, delivery: &impl Delivery) -> io::Result<()> {
        self.bytes.clear();
        self.from = entry.physical_offset;
        let mut end = entry.end_offset();
        if end - self.from > SPAN_BYTES && !self.is_record(entry, delivery)? {
            return Ok(());
        }
        let passed = self.entries.iter().skip_while(|other| *other != entry);
        for other in passed.skip(1) {
            // A damaged entry may say any offset.
            let gap = other.physical_offset.saturating_sub(end);
            let is_near = (0..=GAP_BYTES).contains(&gap);
            if !is_near || other.end_offset() - self.from > SPAN_BYTES {
                break;
            }
            end = other.end_offset();
        }
        let length = usize::try_from(end - self.from).unwrap_or(0);
        self.bytes.resize(length, 0);
        let count = delivery.read(self.from, &mut self.bytes);
        self.bytes.truncate(*count.as_ref().unwrap_or(&0));
        count.map(drop)
    }

    /// Whether a record of the entry's size starts there. Checked before a large allocation.
    fn is_record(&self, entry: &QueueEntry, delivery: &impl Delivery) -> io::Result<bool> {
        let mut head = [0; BLANK_BYTES];
        delivery.read(self.from, &mut head)?;
        let size = usize::try_from(entry.size_bytes).unwrap_or(0);
        Ok(Head::parse(&head) == Head::Record(size))
    }
}

/// Puts a message to its real topic; None if it has none. As in RocketMQ, the properties keep
/// DELAY, REAL_TOPIC and REAL_QID.
pub(crate) fn real_request<R>(
    record: &RecordView<'_>,
    put: impl FnOnce(&PutRequest<'_>) -> R,
) -> Option<R> {
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
        was_accepted: true,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_format::message::{SCHEDULE_TOPIC, Version};

    /// A log of zeros.
    struct Zeros;

    impl Delivery for Zeros {
        fn read(&self, _: i64, out: &mut [u8]) -> io::Result<usize> {
            Ok(out.len())
        }

        fn put(&self, _: &PutRequest<'_>) -> PutResult {
            unreachable!("no record is good")
        }
    }

    #[test]
    fn an_entry_with_an_absurd_offset_has_no_record() {
        let entry = |physical_offset| QueueEntry {
            physical_offset,
            size_bytes: 100,
            tags_code: 0,
        };
        let place = Place {
            topic: SCHEDULE_TOPIC,
            queue_id: 0,
            queue_offset: 0,
        };
        for absurd in [i64::MIN, i64::MAX] {
            let entries = [entry(1 << 20), entry(absurd), entry(1 << 20)];
            let mut spans = Spans::new(&entries);
            for entry in &entries {
                assert!(spans.record(entry, place, &Zeros).unwrap().is_err());
            }
        }
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
            real_request(&record, |request| {
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
