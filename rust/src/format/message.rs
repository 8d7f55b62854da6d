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

pub use error::RecordError;

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

/// Offsets of the fields before the hosts, bytes from the start of a record.
mod at {
    pub const QUEUE_OFFSET: usize = 20;
    pub const PHYSICAL_OFFSET: usize = 28;
    pub const SYS_FLAG: usize = 36;
    pub const BORN_HOST: usize = 48;
}

/// Bytes of a version 1 record with IPv4 hosts and empty body, topic and properties.
const FIXED_BYTES: usize = 91;
/// Bytes before the body if both hosts are IPv6.
const HEAD_BYTES_MAX: usize = 88 + 2 * IPV6_EXTRA_BYTES;
/// Bytes an IPv6 host takes more than an IPv4 one.
const IPV6_EXTRA_BYTES: usize = 12;

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

    /// Bytes of the whole record.
    pub fn size(&self) -> usize {
        let hosts = [self.born_host, self.store_host];
        let ipv6_hosts = hosts.iter().filter(|host| host.is_ipv6()).count();
        FIXED_BYTES
            + usize::from(self.version == Version::V2)
            + ipv6_hosts * IPV6_EXTRA_BYTES
            + self.body.len()
            + self.topic.len()
            + self.properties.len()
    }

    /// Appends the record's bytes to `out`.
    ///
    /// The caller has checked the limits: body below 2 GiB, topic at most [`TOPIC_BYTES_MAX`]
    /// bytes (255 in version 2), properties at most [`PROPERTIES_BYTES_MAX`].
    #[expect(
        clippy::cast_possible_truncation,
        reason = "limits are the caller's, stated above"
    )]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let size = self.size();
        let start = out.len();
        out.reserve(size);
        let mut head = HeadWriter {
            bytes: [0; HEAD_BYTES_MAX],
            length: 0,
        };
        head.put((size as u32).to_be_bytes());
        let magic = if self.version == Version::V1 {
            MAGIC
        } else {
            MAGIC_V2
        };
        head.put(magic.to_be_bytes());
        head.put(self.body_crc.to_be_bytes());
        head.put(self.queue_id.to_be_bytes());
        head.put(self.flag.to_be_bytes());
        head.put(self.queue_offset.to_be_bytes());
        head.put(self.physical_offset.to_be_bytes());
        head.put(self.sys_flag_with_hosts().to_be_bytes());
        head.put(self.born_timestamp_ms.to_be_bytes());
        head.put_host(self.born_host);
        head.put(self.store_timestamp_ms.to_be_bytes());
        head.put_host(self.store_host);
        head.put(self.reconsume_times.to_be_bytes());
        head.put(self.prepared_transaction_offset.to_be_bytes());
        head.put((self.body.len() as u32).to_be_bytes());
        out.extend_from_slice(&head.bytes[..head.length]);
        out.extend_from_slice(self.body);
        match self.version {
            Version::V1 => out.push(self.topic.len() as u8),
            Version::V2 => out.extend_from_slice(&(self.topic.len() as u16).to_be_bytes()),
        }
        out.extend_from_slice(self.topic.as_bytes());
        out.extend_from_slice(&(self.properties.len() as u16).to_be_bytes());
        out.extend_from_slice(self.properties);
        debug_assert_eq!(out.len() - start, size);
    }

    fn sys_flag_with_hosts(&self) -> i32 {
        let mut flag = self.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6);
        if self.born_host.is_ipv6() {
            flag |= sys_flag::BORN_HOST_V6;
        }
        if self.store_host.is_ipv6() {
            flag |= sys_flag::STORE_HOST_V6;
        }
        flag
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
        let tags = properties::get_str(self.properties, properties::TAGS);
        tags.map_or(0, |tags| java_hash(&tags).into())
    }
}

/// What only the put lock knows about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned {
    /// Entry number in the queue.
    pub queue_offset: i64,
    /// Where the record starts, bytes from the start of the log.
    pub physical_offset: i64,
    /// When it is stored, milliseconds since the epoch.
    pub store_timestamp_ms: i64,
}

/// Writes the assigned fields into an encoded record.
///
/// # Panics
/// If `record` is shorter than a record's fixed part.
pub fn patch(record: &mut [u8], assigned: Assigned) {
    let born_v6 = i32::from(record[at::SYS_FLAG + 3]) & sys_flag::BORN_HOST_V6 != 0;
    let store_timestamp = at::BORN_HOST + if born_v6 { 20 } else { 8 };
    let mut put = |at: usize, value: i64| record[at..at + 8].copy_from_slice(&value.to_be_bytes());
    put(at::QUEUE_OFFSET, assigned.queue_offset);
    put(at::PHYSICAL_OFFSET, assigned.physical_offset);
    put(store_timestamp, assigned.store_timestamp_ms);
}

/// The filler for a file of which `remaining` bytes are left.
pub fn blank(remaining: u32) -> [u8; BLANK_BYTES] {
    let mut bytes = [0; BLANK_BYTES];
    bytes[..4].copy_from_slice(&remaining.to_be_bytes());
    bytes[4..].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
    bytes
}

/// CRC32 of a body as RocketMQ stores it: without the top bit.
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

/// Java's `String.hashCode`: over UTF-16 code units, wrapping.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
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

/// Collects the fields before the body, so that the record grows once for all of them.
struct HeadWriter {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl HeadWriter {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.length..self.length + N].copy_from_slice(&field);
        self.length += N;
    }

    fn put_host(&mut self, host: SocketAddr) {
        match host.ip() {
            IpAddr::V4(address) => self.put(address.octets()),
            IpAddr::V6(address) => self.put(address.octets()),
        }
        self.put(u32::from(host.port()).to_be_bytes());
    }
}
