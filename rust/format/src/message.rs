//! The commit log record, and the blank record that ends a file. All integers are big-endian.
//!
//! ```text
//!  0        4        8        12       16       20                28                36
//!  +--------+--------+--------+--------+--------+-----------------+-----------------+--------+
//!  | total  | magic  | body   | queue  | flag   | queue offset    | physical offset | sys    |
//!  | size   |        | CRC    | id     |        |                 |                 | flag   |
//!  +--------+--------+--------+--------+--------+-----------------+-----------------+--------+
//! 40                48                48+b              56+b              56+b+s
//!  +-----------------+-----------------+-----------------+-----------------+--------+
//!  | born timestamp  | born host (b)   | store timestamp | store host (s)  | recons.|
//!  +-----------------+-----------------+-----------------+-----------------+--------+
//! 60+b+s            68+b+s  72+b+s
//!  +-----------------+-------+--------+------+-------+------+------------+
//!  | prepared        | body  | body   | topic| topic | prop | properties |
//!  | transaction off.| len 4 |        | len 1|       | len 2|            |
//!  +-----------------+-------+--------+------+-------+------+------------+
//! ```
//! `b` and `s` are 8 (IPv4: address, port as int) or 20 (IPv6), depending on two bits of the system
//! flag. In version 2 (RocketMQ 5, topics above 127 bytes) the topic length has 2 bytes.
//!
//! The blank record is `remaining bytes of the file
//! BLANK_MAGIC`; the bytes after it are undefined.

use std::net::SocketAddr;

use crate::delay_levels::DelayLevels;
use crate::properties;

mod error;
mod fields;
pub mod sys_flag;
#[cfg(test)]
mod tests;
mod write;

pub use error::RecordError;
use fields::Fields;
pub use write::{
    Alike, Assigned, STATED_BYTES, add_property, blank, patch, stated_offset,
    stated_store_timestamp, stated_sys_flag,
};

/// Magic of a record, version 1.
pub const MAGIC: i32 = 0xDAA3_20A7_u32.cast_signed();
/// Magic of a record, version 2: two bytes of topic length.
pub const MAGIC_V2: i32 = 0xDAA3_20AB_u32.cast_signed();
/// Magic of the blank record at the end of a file.
pub const BLANK_MAGIC: i32 = 0xCBD4_3194_u32.cast_signed();
/// Bytes of the blank record; every file keeps this many free after its last record.
pub const BLANK_BYTES: usize = 8;
/// Longest topic name, bytes.
pub const TOPIC_BYTES_MAX: usize = 127;
/// Longest properties text, bytes.
pub const PROPERTIES_BYTES_MAX: usize = i16::MAX as usize;
/// Bytes that a new message's properties leave free for the properties of a redelivery.
pub const RETRY_ROOM_BYTES: usize = 640;
/// Topic of delayed messages.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// The topic from which a topic that a send creates takes its settings.
pub const TEMPLATE_TOPIC: &str = "TBW102";
/// Prefix of the names of retry topics.
pub const RETRY_PREFIX: &str = "%RETRY%";

/// Offsets of the fields before the hosts, bytes from the start of a record.
mod at {
    pub const BODY_CRC: usize = 8;
    pub const QUEUE_ID: usize = 12;
    pub const FLAG: usize = 16;
    pub const QUEUE_OFFSET: usize = 20;
    pub const PHYSICAL_OFFSET: usize = 28;
    pub const SYS_FLAG: usize = 36;
    pub const BORN_TIMESTAMP: usize = 40;
    pub const BORN_HOST: usize = 48;
}

/// Bytes of a version 1 record with IPv4 hosts and empty body, topic and properties.
const FIXED_BYTES: usize = 91;
/// Layout of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One byte of topic length.
    V1,
    /// Two bytes of topic length.
    V2,
}

/// Whether to verify the checksum of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckCrc {
    /// Verify it.
    Yes,
    /// The caller trusts the bytes or has checked them.
    No,
}

/// Kind of the data at a position in the log, from its first 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// A record of this many bytes.
    Record(usize),
    /// The blank record: the log continues in the next file.
    Blank,
    /// Neither: the end of the log, or damage.
    Neither,
}

impl Head {
    /// Reads the first [`BLANK_BYTES`] bytes at a position in the log.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Self {
        let Some(head) = bytes.first_chunk::<BLANK_BYTES>() else {
            return Self::Neither;
        };
        let [s0, s1, s2, s3, magic @ ..] = *head;
        match i32::from_be_bytes(magic) {
            MAGIC | MAGIC_V2 => match usize::try_from(i32::from_be_bytes([s0, s1, s2, s3])) {
                Ok(size) if size >= FIXED_BYTES => Self::Record(size),
                _ => Self::Neither,
            },
            BLANK_MAGIC => Self::Blank,
            _ => Self::Neither,
        }
    }
}

/// The fields of a record, borrowed from its bytes or to be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Layout.
    pub version: Version,
    /// CRC32 of the body without its top bit, see [`body_crc`].
    pub body_crc: u32,
    /// Queue of the topic.
    pub queue_id: i32,
    /// The user's flag.
    pub flag: i32,
    /// Entry number in the queue.
    pub queue_offset: i64,
    /// Start of the record, bytes from the start of the log.
    pub physical_offset: i64,
    /// See [`sys_flag`]; encoding sets the two IPv6 bits from the hosts.
    pub sys_flag: i32,
    /// Time at which the producer made the message, milliseconds since the epoch.
    pub born_timestamp_ms: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// Time at which the broker stored it, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
    /// The broker's address.
    pub store_host: SocketAddr,
    /// Number of failed deliveries.
    pub reconsume_times: i32,
    /// Physical offset of the half message, or 0.
    pub prepared_transaction_offset: i64,
    /// Body as stored; it may be compressed.
    pub body: &'a [u8],
    /// Topic name.
    pub topic: &'a str,
    /// Properties text, see [`properties`].
    pub properties: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads the record at the start of `bytes`; bytes after it are ignored.
    pub fn parse(bytes: &'a [u8], check: CheckCrc) -> Result<Self, RecordError> {
        let fields = Fields::of(bytes)?;
        let body = fields.body();
        let body_crc = u32::from_be_bytes(fields.array(at::BODY_CRC)?);
        if check == CheckCrc::Yes {
            fields.check_body()?;
        }
        let store_timestamp = fields.store_timestamp;
        let after_hosts = fields.body - fields::TO_BODY;
        Ok(Self {
            version: fields.version,
            body_crc,
            queue_id: fields.int(at::QUEUE_ID)?,
            flag: fields.int(at::FLAG)?,
            queue_offset: fields.long(at::QUEUE_OFFSET)?,
            physical_offset: fields.long(at::PHYSICAL_OFFSET)?,
            sys_flag: fields.sys_flag,
            born_timestamp_ms: fields.long(at::BORN_TIMESTAMP)?,
            born_host: fields.host(at::BORN_HOST, sys_flag::BORN_HOST_V6)?,
            store_timestamp_ms: fields.long(store_timestamp)?,
            store_host: fields.host(store_timestamp + 8, sys_flag::STORE_HOST_V6)?,
            reconsume_times: fields.int(after_hosts)?,
            prepared_transaction_offset: fields.long(after_hosts + 4)?,
            body,
            topic: fields.topic()?,
            properties: fields.properties(),
        })
    }

    /// Returns the fields from which queues and index are built.
    pub fn outline(&self) -> Outline<'a> {
        Outline {
            queue_id: self.queue_id,
            queue_offset: self.queue_offset,
            sys_flag: self.sys_flag,
            store_timestamp_ms: self.store_timestamp_ms,
            topic: self.topic,
            properties: self.properties,
        }
    }

    /// Returns [`Outline::tags_code`].
    pub fn tags_code(&self, levels: &DelayLevels) -> i64 {
        self.outline().tags_code(levels)
    }
}

/// The fields of a record from which queues and index are built; they are cheaper to read than all
/// fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline<'a> {
    /// Queue of the topic.
    pub queue_id: i32,
    /// Entry number in the queue.
    pub queue_offset: i64,
    /// See [`sys_flag`].
    pub sys_flag: i32,
    /// Time at which the broker stored it, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
    /// Topic name.
    pub topic: &'a str,
    /// Properties text, see [`properties`].
    pub properties: &'a [u8],
}

impl<'a> Outline<'a> {
    /// Reads the record at the start of `bytes`, which [`RecordView::parse`] must accept. Does not
    /// read the body.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let fields = Fields::of(bytes)?;
        Ok(Self {
            queue_id: fields.int(at::QUEUE_ID)?,
            queue_offset: fields.long(at::QUEUE_OFFSET)?,
            sys_flag: fields.sys_flag,
            store_timestamp_ms: fields.long(fields.store_timestamp)?,
            topic: fields.topic()?,
            properties: fields.properties(),
        })
    }

    /// Like [`Self::parse`] for any bytes: also verifies the checksum of the body.
    #[inline]
    pub fn parse_checked(bytes: &'a [u8]) -> Result<Self, RecordError> {
        Fields::of(bytes)?.check_body()?;
        Self::parse(bytes)
    }

    /// Returns the tags code of the record's queue entry: the hash of TAGS, or for a delayed
    /// message its delivery time.
    pub fn tags_code(&self, levels: &DelayLevels) -> i64 {
        if self.topic == SCHEDULE_TOPIC {
            let level = properties::get_str(self.properties, properties::DELAY);
            let level = level.and_then(|text| text.parse::<i32>().ok()).unwrap_or(0);
            if level > 0 {
                return levels.deliver_at_ms(level, self.store_timestamp_ms);
            }
        }
        let tags = properties::get(self.properties, properties::TAGS);
        tags.map_or(0, |tags| java_hash_on(0, tags).into())
    }
}

/// Returns the CRC32 of a body as RocketMQ stores it, without the top bit.
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

/// Whether a body matches its stored checksum. A checksum of 0 matches any body: an empty body has
/// it, and so has every message of a batch that a rocketmq-rust broker stored.
pub fn is_body_sound(body: &[u8], stored_crc: u32) -> bool {
    stored_crc == 0 || body_crc(body) == stored_crc
}

/// Returns Java's `String.hashCode`: over UTF-16 code units, wrapping.
pub fn java_hash(text: &str) -> i32 {
    java_hash_on(0, text.as_bytes())
}

/// Continues a hash: `hash` is the hash of the text before `bytes`. Bytes that are not UTF-8 are
/// replaced first, as Java does.
pub fn java_hash_on(hash: i32, bytes: &[u8]) -> i32 {
    let add = |hash: i32, unit: i32| hash.wrapping_mul(31).wrapping_add(unit);
    if bytes.is_ascii() {
        let (eights, rest) = bytes.as_chunks();
        let hash = eights
            .iter()
            .fold(hash, |hash, eight| hash_eight(hash, *eight));
        return rest
            .iter()
            .fold(hash, |hash, byte| add(hash, (*byte).into()));
    }
    let text = String::from_utf8_lossy(bytes);
    text.encode_utf16()
        .fold(hash, |hash, unit| add(hash, unit.into()))
}

/// Hashes eight ASCII characters at once; one by one, each would wait for the multiplication
/// before.
fn hash_eight(hash: i32, eight: [u8; 8]) -> i32 {
    const BYTES: u64 = 0x00FF_00FF_00FF_00FF;
    const PAIRS: u64 = 0x0000_FFFF_0000_FFFF;
    const HALF: i32 = 31 * 31 * 31 * 31;
    let all = u64::from_le_bytes(eight);
    // No sum overflows into its neighbor: sums are at most 127 * 32, and then times 31 * 31 + 1.
    let pairs = (all & BYTES) * 31 + (all >> 8 & BYTES);
    let fours = (pairs & PAIRS) * (31 * 31) + (pairs >> 16 & PAIRS);
    #[expect(clippy::cast_possible_truncation, reason = "its two halves")]
    let [first, second] = [fours as i32, (fours >> 32) as i32];
    let hash = hash.wrapping_mul(HALF).wrapping_add(first);
    hash.wrapping_mul(HALF).wrapping_add(second)
}
