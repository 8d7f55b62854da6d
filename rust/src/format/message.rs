//! The commit-log record, and the filler that ends a file. All integers are big-endian.
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
//! `b` and `s` are 8 (IPv4: address, port as int) or 20 (IPv6), told by two bits of the system
//! flag. In version 2 (RocketMQ 5, topics above 127 bytes) the topic length has 2 bytes.
//!
//! The filler is `remaining bytes of the file | BLANK_MAGIC`; what follows it is not defined.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::bytes::{Cursor, CursorError};
use crate::format::delay_levels::DelayLevels;
use crate::format::properties;

mod error;
pub mod sys_flag;
#[cfg(test)]
mod tests;
mod write;

pub use error::RecordError;
pub use write::{
    Assigned, STATED_BYTES, add_property, blank, patch, stated_offset, stated_store_timestamp,
    stated_sys_flag,
};

/// Magic of a record, version 1.
pub const MAGIC: i32 = 0xDAA3_20A7_u32.cast_signed();
/// Magic of a record, version 2: two bytes of topic length.
pub const MAGIC_V2: i32 = 0xDAA3_20AB_u32.cast_signed();
/// Magic of the filler at the end of a file.
pub const BLANK_MAGIC: i32 = 0xCBD4_3194_u32.cast_signed();
/// Bytes of the filler; every file keeps as many free behind its last record.
pub const BLANK_BYTES: usize = 8;
/// Longest topic name, bytes.
pub const TOPIC_BYTES_MAX: usize = 127;
/// Longest properties text, bytes.
pub const PROPERTIES_BYTES_MAX: usize = i16::MAX as usize;
/// Where delayed messages wait.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

/// Bytes of a version 1 record with IPv4 hosts and empty body, topic and properties.
const FIXED_BYTES: usize = 91;
/// Which layout a record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One byte of topic length.
    V1,
    /// Two bytes of topic length.
    V2,
}

/// Whether to compare the body with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckCrc {
    /// Compare.
    Yes,
    /// The caller trusts the bytes or has checked them.
    No,
}

/// What the first 8 bytes at a place in the log announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// A record of so many bytes.
    Record(usize),
    /// The filler: the log goes on in the next file.
    Blank,
    /// Neither: the end of the log, or damage.
    Neither,
}

impl Head {
    /// Reads the first [`BLANK_BYTES`] bytes of a place in the log.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut cursor = Cursor::new(bytes);
        match (cursor.i32(), cursor.i32()) {
            (Ok(size), Ok(MAGIC | MAGIC_V2)) => match usize::try_from(size) {
                Ok(size) if size >= FIXED_BYTES => Self::Record(size),
                _ => Self::Neither,
            },
            (Ok(_), Ok(BLANK_MAGIC)) => Self::Blank,
            _ => Self::Neither,
        }
    }
}

/// A record's fields, borrowed from its bytes or about to be encoded.
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
    /// Where the record starts, bytes from the start of the log.
    pub physical_offset: i64,
    /// See [`sys_flag`]; encoding sets the two IPv6 bits from the hosts.
    pub sys_flag: i32,
    /// When the producer made the message, milliseconds since the epoch.
    pub born_timestamp_ms: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// When the broker stored it, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
    /// The broker's address.
    pub store_host: SocketAddr,
    /// How often the message was consumed and failed.
    pub reconsume_times: i32,
    /// Physical offset of the half message, else 0.
    pub prepared_transaction_offset: i64,
    /// Body as stored, maybe compressed.
    pub body: &'a [u8],
    /// Topic name.
    pub topic: &'a str,
    /// Properties text, see [`properties`].
    pub properties: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads the record at the start of `bytes`; what follows it is ignored.
    pub fn parse(bytes: &'a [u8], check: CheckCrc) -> Result<Self, RecordError> {
        let mut cursor = Cursor::new(bytes);
        let total = cursor.i32()?;
        let version = match cursor.i32()? {
            MAGIC => Version::V1,
            MAGIC_V2 => Version::V2,
            BLANK_MAGIC => return Err(RecordError::Blank),
            other => return Err(RecordError::Magic(other)),
        };
        let total =
            usize::try_from(total).map_err(|_| CursorError::NegativeLength(total.into()))?;
        if total > bytes.len() {
            return Err(RecordError::Incomplete {
                needed: total,
                available: bytes.len(),
            });
        }
        // Clamp to the record, so that a wrong length inside it cannot reach its neighbour.
        let mut cursor = Cursor::new(&bytes[..total]);
        cursor.take(BLANK_BYTES)?;
        let view = Self::parse_fields(&mut cursor, version)?;
        if cursor.remaining() != 0 {
            return Err(RecordError::Size {
                total,
                computed: cursor.position(),
            });
        }
        if check == CheckCrc::Yes && !view.body.is_empty() {
            let computed = body_crc(view.body);
            if computed != view.body_crc {
                return Err(RecordError::BodyCrc {
                    stored: view.body_crc,
                    computed,
                });
            }
        }
        Ok(view)
    }

    /// Reads what follows the magic.
    fn parse_fields(cursor: &mut Cursor<'a>, version: Version) -> Result<Self, RecordError> {
        let body_crc = cursor.u32()?;
        let queue_id = cursor.i32()?;
        let flag = cursor.i32()?;
        let queue_offset = cursor.i64()?;
        let physical_offset = cursor.i64()?;
        let sys_flag = cursor.i32()?;
        let born_timestamp_ms = cursor.i64()?;
        let born_host = read_host(cursor, sys_flag & sys_flag::BORN_HOST_V6 != 0)?;
        let store_timestamp_ms = cursor.i64()?;
        let store_host = read_host(cursor, sys_flag & sys_flag::STORE_HOST_V6 != 0)?;
        let reconsume_times = cursor.i32()?;
        let prepared_transaction_offset = cursor.i64()?;
        let body_length = cursor.i32()?;
        let body = cursor.take_signed(body_length.into())?;
        let topic_length = match version {
            Version::V1 => usize::from(cursor.u8()?),
            Version::V2 => usize::from(cursor.u16()?),
        };
        let topic = cursor.take(topic_length)?;
        let topic = std::str::from_utf8(topic).map_err(|_| RecordError::Topic)?;
        let properties_length = cursor.i16()?;
        let properties = cursor.take_signed(properties_length.into())?;
        Ok(Self {
            version,
            body_crc,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp_ms,
            born_host,
            store_timestamp_ms,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body,
            topic,
            properties,
        })
    }

    /// The tags code of the record's queue entry: the hash of TAGS, or for a delayed message the
    /// time of its delivery.
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

/// CRC32 of a body as RocketMQ stores it: without the top bit.
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

/// Java's `String.hashCode`: over UTF-16 code units, wrapping.
pub fn java_hash(text: &str) -> i32 {
    java_hash_on(0, text.as_bytes())
}

/// The hash of a longer text, of which `hash` is that of the part before `bytes`. Bytes that are
/// not UTF-8 are replaced first, as Java does.
pub fn java_hash_on(hash: i32, bytes: &[u8]) -> i32 {
    let add = |hash: i32, unit: i32| hash.wrapping_mul(31).wrapping_add(unit);
    if bytes.is_ascii() {
        return bytes
            .iter()
            .fold(hash, |hash, byte| add(hash, (*byte).into()));
    }
    let text = String::from_utf8_lossy(bytes);
    text.encode_utf16()
        .fold(hash, |hash, unit| add(hash, unit.into()))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a port above 65535 was never a port"
)]
fn read_host(cursor: &mut Cursor<'_>, ipv6: bool) -> Result<SocketAddr, CursorError> {
    let address = if ipv6 {
        let mut octets = [0; 16];
        octets.copy_from_slice(cursor.take(16)?);
        IpAddr::V6(Ipv6Addr::from(octets))
    } else {
        IpAddr::V4(Ipv4Addr::from(cursor.u32()?))
    };
    Ok(SocketAddr::new(address, cursor.u32()? as u16))
}
