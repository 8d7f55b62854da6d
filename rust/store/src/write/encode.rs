//! Encodes put requests as records. This is the part of a put that needs no lock.

use std::borrow::Cow;
use std::sync::Arc;

use super::queue_offsets::LightQueues;
use crate::settings::MultiDispatch;
use crate::types::{PutRequest, PutStatus};
use mq_format::bytes::{Cursor, CursorError};
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{
    self, Alike, PROPERTIES_BYTES_MAX, RecordView, SCHEDULE_TOPIC, TOPIC_BYTES_MAX, Version,
    body_crc, sys_flag,
};
use mq_format::{multi_dispatch, properties};

/// A buffer of consecutive encoded records, reused for every put.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    /// The records without queue offset, physical offset and store timestamp, which are patched
    /// later.
    pub(crate) bytes: Vec<u8>,
    /// Position in `bytes` at which the target's body is inserted.
    body_at: usize,
    /// Length of each record.
    pub(crate) sizes: Vec<usize>,
    /// Length of the properties at the end of the last record.
    text_bytes: usize,
    /// The single record enters further queues, whose offsets must still be added.
    pub(crate) is_multi_dispatch: bool,
}

impl Encoded {
    fn clear(&mut self) {
        self.bytes.clear();
        self.sizes.clear();
        self.body_at = 0;
        self.is_multi_dispatch = false;
    }

    /// The pieces of all bytes in order; `body` is the target's.
    pub(crate) fn around<'b>(&'b self, body: &'b [u8]) -> [&'b [u8]; 3] {
        let (before, behind) = self.bytes.split_at(self.body_at);
        [before, body, behind]
    }

    /// The properties of the last record.
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.text_bytes..]
    }

    /// Adds a property to the single record; false if the properties become too long.
    pub(crate) fn add_property(&mut self, name: &str, value: &[u8]) -> bool {
        let added = message::add_property(&mut self.bytes, self.text_bytes, name, value);
        self.text_bytes = added.unwrap_or(self.text_bytes);
        self.sizes[0] = self.bytes.len();
        added.is_some()
    }

    /// Adds a record. If `is_left`, its body is left to the target.
    fn push(&mut self, record: &RecordView<'_>, is_left: bool) {
        let text;
        let mut record = *record;
        let closing = closing(record.properties, record.properties.len());
        if !closing.is_empty() {
            text = [record.properties, closing].concat();
            record.properties = &text;
        }
        match is_left {
            true => self.body_at = record.encode_around(&mut self.bytes),
            false => record.encode(&mut self.bytes),
        }
        self.sizes.push(record.size());
        self.text_bytes = record.properties.len();
    }

    /// Like [`Self::push`], for a message of a batch.
    fn push_alike(
        &mut self,
        alike: &Alike<'_>,
        item: &BatchItem<'_>,
        [own, end, common]: [&[u8]; 3],
    ) -> Result<(), PutStatus> {
        let length = own.len() + end.len() + common.len();
        if length > PROPERTIES_BYTES_MAX {
            check_properties(&[own, end, common].concat())?;
        }
        let mut from_last = [common, end, own].into_iter();
        let last = from_last.find(|piece| !piece.is_empty());
        let closing = closing(last.unwrap_or_default(), length);
        let pieces = [own, end, common, closing];
        let size = alike.encode(item.flag, item.body, &pieces, &mut self.bytes);
        self.sizes.push(size);
        self.text_bytes = length + closing.len();
        Ok(())
    }
}

/// The queue that the records enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Topic name; the schedule topic for a delayed message.
    pub(crate) topic: &'a str,
    /// Queue of the topic.
    pub(crate) queue_id: i32,
    /// Whether records of this transaction type enter the queue.
    pub(crate) is_queued: bool,
    /// Body of a single record, which is copied directly to the log; empty if the encoded bytes
    /// have it.
    pub(crate) body: &'a [u8],
}

/// Checks limits and encodes records.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// Most bytes of a body or a batch.
    pub(crate) max_message_bytes: usize,
    /// The table of delay levels.
    pub(crate) levels: DelayLevels,
    /// Whether messages enter the queues in INNER_MULTI_DISPATCH.
    pub(crate) multi_dispatch: MultiDispatch,
    pub(crate) light_queues: Arc<LightQueues>,
}

impl Encoder {
    /// Encodes one message. A delayed one goes to the schedule topic; properties keep its real
    /// topic and queue.
    pub(crate) fn encode_one<'a>(
        &self,
        request: &PutRequest<'a>,
        out: &mut Encoded,
    ) -> Result<Target<'a>, PutStatus> {
        out.clear();
        let mut target = self.check(request)?;
        let mut text = Cow::Borrowed(request.properties);
        if request.delay_level > 0 && target.is_queued {
            let level = self.levels.clamp(request.delay_level);
            text = Cow::Owned(delayed_properties(request, level));
            target = Target {
                topic: SCHEDULE_TOPIC,
                queue_id: level - 1,
                ..target
            };
        }
        let is_multi_dispatch =
            self.multi_dispatch.enabled && multi_dispatch::dispatch_names(&text).next().is_some();
        if is_multi_dispatch {
            if !request.was_accepted && self.light_queues.are_too_many() {
                return Err(PutStatus::LmqConsumeQueueNumExceeded);
            }
            // Drop the producer's offsets. Also drop WAIT, which RocketMQ removes when it adds the
            // offsets.
            for name in [properties::INNER_MULTI_QUEUE_OFFSET, properties::WAIT] {
                properties::remove(text.to_mut(), name);
            }
        }
        check_properties(&text)?;
        if !is_multi_dispatch {
            target.body = request.body;
        }
        out.push(&record(request, target, &text), !is_multi_dispatch);
        out.is_multi_dispatch = is_multi_dispatch;
        Ok(target)
    }

    /// Encodes each message of a batch body as one record. A message is `total | magic 0 | crc 0 |
    /// flag | body length | body | properties length (2) | properties`. The batch's properties are
    /// appended to each message's own.
    pub(crate) fn encode_batch<'a>(
        &self,
        request: &PutRequest<'a>,
        out: &mut Encoded,
    ) -> Result<Target<'a>, PutStatus> {
        out.clear();
        let target = self.check(request)?;
        let transaction = request.sys_flag & sys_flag::TRANSACTION_MASK;
        if transaction != 0 || request.delay_level > 0 || request.body.is_empty() {
            return Err(PutStatus::MessageIllegal);
        }
        check_properties(request.properties)?;
        let mut cursor = Cursor::new(request.body);
        let mut text;
        let none = PutRequest {
            body: &[],
            prepared_transaction_offset: 0,
            ..*request
        };
        let alike = Alike::to(record(&none, target, &[]));
        while cursor.remaining() > 0 {
            let item = BatchItem::read(&mut cursor).map_err(|_| PutStatus::MessageIllegal)?;
            let mut pieces = properties::merged(item.properties, request.properties);
            if self.multi_dispatch.enabled {
                // As in RocketMQ, a batch takes no offsets in other queues; a producer must not set
                // any either.
                text = pieces.concat();
                properties::remove(&mut text, properties::INNER_MULTI_QUEUE_OFFSET);
                pieces = [&text, &[], &[]];
            }
            out.push_alike(&alike, &item, pieces)?;
        }
        Ok(target)
    }

    fn check<'a>(&self, request: &PutRequest<'a>) -> Result<Target<'a>, PutStatus> {
        let is_body_fit = request.was_accepted || request.body.len() <= self.max_message_bytes;
        if request.topic.is_empty() || request.topic.len() > TOPIC_BYTES_MAX || !is_body_fit {
            return Err(PutStatus::MessageIllegal);
        }
        let is_queued = sys_flag::is_queued(request.sys_flag);
        Ok(Target {
            topic: request.topic,
            queue_id: request.queue_id,
            is_queued,
            body: &[],
        })
    }
}

/// A separator for the end of properties that end in a zero; `last` are the last of `length` bytes.
/// After a crash, a record that ends in zeros could be one whose end was not written. Readers
/// ignore the separator.
fn closing(last: &[u8], length: usize) -> &'static [u8] {
    match last.ends_with(&[0]) && length < PROPERTIES_BYTES_MAX {
        true => &[properties::PAIR_END],
        false => &[],
    }
}

/// One message of a batch body.
struct BatchItem<'a> {
    flag: i32,
    body: &'a [u8],
    properties: &'a [u8],
}

impl<'a> BatchItem<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, CursorError> {
        let total = cursor.i32()?;
        // The total includes itself. Limit the cursor to it, and require that nothing is left.
        let mut item = Cursor::new(cursor.take_signed(i64::from(total) - 4)?);
        let (_magic, _crc) = (item.i32()?, item.i32()?);
        let flag = item.i32()?;
        let body_length = item.i32()?;
        let body = item.take_signed(body_length.into())?;
        let properties_length = item.i16()?;
        let properties = item.take_signed(properties_length.into())?;
        item.finish()?;
        Ok(Self {
            flag,
            body,
            properties,
        })
    }
}

fn record<'a>(request: &PutRequest<'a>, target: Target<'a>, text: &'a [u8]) -> RecordView<'a> {
    RecordView {
        version: Version::V1,
        body_crc: body_crc(request.body),
        queue_id: target.queue_id,
        flag: request.flag,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: request.sys_flag,
        born_timestamp_ms: request.born_timestamp_ms,
        born_host: request.born_host,
        store_timestamp_ms: 0,
        store_host: request.store_host,
        reconsume_times: request.reconsume_times,
        prepared_transaction_offset: request.prepared_transaction_offset,
        body: request.body,
        topic: target.topic,
        properties: text,
    }
}

fn delayed_properties(request: &PutRequest<'_>, level: i32) -> Vec<u8> {
    let mut text = request.properties.to_vec();
    let level = level.to_string();
    if properties::get(&text, properties::DELAY) != Some(level.as_bytes()) {
        properties::set(&mut text, properties::DELAY, level.as_bytes());
    }
    properties::set(&mut text, properties::REAL_TOPIC, request.topic.as_bytes());
    let queue_id = request.queue_id.to_string();
    properties::set(&mut text, properties::REAL_QUEUE_ID, queue_id.as_bytes());
    text.pop(); // RocketMQ writes the text again, without a separator at its end.
    text
}

/// As in RocketMQ, too many characters are illegal, and too many bytes exceed the size.
fn check_properties(text: &[u8]) -> Result<(), PutStatus> {
    if text.len() <= PROPERTIES_BYTES_MAX {
        return Ok(());
    }
    let characters = String::from_utf8_lossy(text).encode_utf16().count();
    Err(if characters > PROPERTIES_BYTES_MAX {
        PutStatus::MessageIllegal
    } else {
        PutStatus::PropertiesSizeExceeded
    })
}
