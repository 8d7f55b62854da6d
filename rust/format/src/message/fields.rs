//! Positions of the fields of a record, after its lengths were checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{BLANK_MAGIC, MAGIC, MAGIC_V2, RecordError, Version, at, sys_flag};
use crate::bytes::CursorError;

/// Bytes between the store host and the body.
pub(super) const TO_BODY: usize = 16;
/// Bytes of the store timestamp.
const TIMESTAMP_BYTES: usize = 8;

/// A record cut into its fields, which follow each other without gap or overlap.
pub(super) struct Fields<'a> {
    /// The bytes of the record, and no more.
    bytes: &'a [u8],
    pub(super) version: Version,
    pub(super) sys_flag: i32,
    /// Start of the field, like the fields below.
    pub(super) store_timestamp: usize,
    pub(super) body: usize,
    topic_length: usize,
    topic: usize,
    properties: usize,
}

impl<'a> Fields<'a> {
    /// Finds the fields of the record at the start of `bytes`.
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let total = i32::from_be_bytes(array(bytes, 0)?);
        let version = match i32::from_be_bytes(array(bytes, 4)?) {
            MAGIC => Version::V1,
            MAGIC_V2 => Version::V2,
            BLANK_MAGIC => return Err(RecordError::Blank),
            other => return Err(RecordError::Magic(other)),
        };
        let total = length(total.into())?;
        // Limited to the record, so that a wrong length inside it cannot reach the next record.
        let Some(bytes) = bytes.get(..total) else {
            return Err(RecordError::Incomplete {
                needed: total,
                available: bytes.len(),
            });
        };
        let sys_flag = i32::from_be_bytes(array(bytes, at::SYS_FLAG)?);
        let store_timestamp = at::BORN_HOST + host_bytes(sys_flag, sys_flag::BORN_HOST_V6);
        let store_host = store_timestamp + TIMESTAMP_BYTES;
        let body = store_host + host_bytes(sys_flag, sys_flag::STORE_HOST_V6) + TO_BODY;
        let body_length = i32::from_be_bytes(array(bytes, body - 4)?);
        let topic_length = body + length(body_length.into())?;
        let (topic, topic_bytes) = match version {
            Version::V1 => (topic_length + 1, array::<1>(bytes, topic_length)?[0].into()),
            Version::V2 => {
                let found = u16::from_be_bytes(array(bytes, topic_length)?);
                (topic_length + 2, usize::from(found))
            }
        };
        let properties = topic + topic_bytes + 2;
        let properties_length = i16::from_be_bytes(array(bytes, properties - 2)?);
        let end = properties + length(properties_length.into())?;
        if end > total {
            return Err(short(bytes, properties, end - properties).into());
        }
        if end < total {
            return Err(RecordError::Size {
                total,
                computed: end,
            });
        }
        Ok(Self {
            bytes,
            version,
            sys_flag,
            store_timestamp,
            body,
            topic_length,
            topic,
            properties,
        })
    }

    #[inline]
    pub(super) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], CursorError> {
        array(self.bytes, at)
    }

    #[inline]
    pub(super) fn int(&self, at: usize) -> Result<i32, CursorError> {
        Ok(i32::from_be_bytes(array(self.bytes, at)?))
    }

    #[inline]
    pub(super) fn long(&self, at: usize) -> Result<i64, CursorError> {
        Ok(i64::from_be_bytes(array(self.bytes, at)?))
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a valid port is at most 65535"
    )]
    pub(super) fn host(&self, at: usize, ipv6_flag: i32) -> Result<SocketAddr, CursorError> {
        let address = match host_bytes(self.sys_flag, ipv6_flag) {
            8 => IpAddr::V4(Ipv4Addr::from(self.array::<4>(at)?)),
            _ => IpAddr::V6(Ipv6Addr::from(self.array::<16>(at)?)),
        };
        let port_at = at + host_bytes(self.sys_flag, ipv6_flag) - 4;
        Ok(SocketAddr::new(address, self.int(port_at)? as u16))
    }

    #[inline]
    pub(super) fn body(&self) -> &'a [u8] {
        &self.bytes[self.body..self.topic_length]
    }

    /// Verifies the checksum of the body, if it has one.
    #[inline]
    pub(super) fn check_body(&self) -> Result<(), RecordError> {
        let stored = u32::from_be_bytes(self.array(at::BODY_CRC)?);
        match super::is_body_sound(self.body(), stored) {
            true => Ok(()),
            false => {
                let computed = super::body_crc(self.body());
                Err(RecordError::BodyCrc { stored, computed })
            }
        }
    }

    #[inline]
    pub(super) fn topic(&self) -> Result<&'a str, RecordError> {
        let topic = &self.bytes[self.topic..self.properties - 2];
        std::str::from_utf8(topic).map_err(|_| RecordError::Topic)
    }

    #[inline]
    pub(super) fn properties(&self) -> &'a [u8] {
        &self.bytes[self.properties..]
    }
}

#[inline]
fn host_bytes(sys_flag: i32, ipv6_flag: i32) -> usize {
    if sys_flag & ipv6_flag == 0 { 8 } else { 20 }
}

#[inline]
fn length(field: i64) -> Result<usize, CursorError> {
    usize::try_from(field).map_err(|_| CursorError::NegativeLength(field))
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], CursorError> {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(found) => Ok(*found),
        None => Err(short(bytes, at, N)),
    }
}

#[cold]
fn short(bytes: &[u8], position: usize, needed: usize) -> CursorError {
    CursorError::Short {
        position,
        needed,
        remaining: bytes.len().saturating_sub(position),
    }
}
