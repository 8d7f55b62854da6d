//! Encodes records, and patches the fields that are set under the put lock.

use std::net::{IpAddr, SocketAddr};

use super::{
    BLANK_BYTES, BLANK_MAGIC, FIXED_BYTES, MAGIC, MAGIC_V2, PROPERTIES_BYTES_MAX, RecordView,
    Version, at, body_crc, sys_flag,
};
use crate::properties::{NAME_END, PAIR_END};

/// Largest number of bytes that [`stated_offset`] and [`stated_store_timestamp`] need.
pub const STATED_BYTES: usize = at::BORN_HOST + 8 + IPV6_EXTRA_BYTES + 8;

/// Returns the store time in a record, milliseconds since the epoch; None if there are too few
/// bytes.
pub fn stated_store_timestamp(record: &[u8]) -> Option<i64> {
    let (flag, _) = record.get(at::SYS_FLAG..)?.split_first_chunk()?;
    let is_ipv6 = i32::from_be_bytes(*flag) & sys_flag::BORN_HOST_V6 != 0;
    let host_bytes = 8 + if is_ipv6 { IPV6_EXTRA_BYTES } else { 0 };
    let (bytes, _) = record
        .get(at::BORN_HOST + host_bytes..)?
        .split_first_chunk()?;
    Some(i64::from_be_bytes(*bytes))
}

/// Returns the log offset in a record; None if there are too few bytes.
pub fn stated_offset(record: &[u8]) -> Option<i64> {
    let (bytes, _) = record.get(at::PHYSICAL_OFFSET..)?.split_first_chunk()?;
    Some(i64::from_be_bytes(*bytes))
}

/// Returns the system flag of an encoded record; None if there are too few bytes.
pub fn stated_sys_flag(record: &[u8]) -> Option<i32> {
    let (bytes, _) = record.get(at::SYS_FLAG..)?.split_first_chunk()?;
    Some(i32::from_be_bytes(*bytes))
}

/// Bytes before the body if both hosts are IPv6.
const HEAD_BYTES_MAX: usize = 88 + 2 * IPV6_EXTRA_BYTES;
/// Additional bytes of an IPv6 host compared with an IPv4 one.
const IPV6_EXTRA_BYTES: usize = 12;

impl RecordView<'_> {
    /// Size of the whole record, bytes.
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
    /// The caller has checked the limits: body below 2 GiB, topic at most
    /// [`super::TOPIC_BYTES_MAX`] bytes (255 in version 2), properties at most
    /// [`PROPERTIES_BYTES_MAX`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let size = self.size();
        let start = out.len();
        out.reserve(size);
        out.extend_from_slice(self.head().written());
        self.encode_rest(self.body, &[self.properties], out);
        debug_assert_eq!(out.len() - start, size);
    }

    /// Appends the record's bytes to `out` without the body; returns the position of the body in
    /// `out`. The limits are those in [`Self::encode`].
    pub fn encode_around(&self, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(self.head().written());
        let body_at = out.len();
        self.encode_rest(&[], &[self.properties], out);
        body_at
    }

    /// Encodes the fields before the body.
    #[expect(clippy::cast_possible_truncation, reason = "as of `encode`")]
    fn head(&self) -> HeadWriter {
        let mut head = HeadWriter {
            bytes: [0; HEAD_BYTES_MAX],
            length: 0,
        };
        head.put((self.size() as u32).to_be_bytes());
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
        head
    }

    /// Appends body, topic and properties; the properties come in pieces.
    #[expect(clippy::cast_possible_truncation, reason = "as of `encode`")]
    fn encode_rest(&self, body: &[u8], properties: &[&[u8]], out: &mut Vec<u8>) {
        out.extend_from_slice(body);
        match self.version {
            Version::V1 => out.push(self.topic.len() as u8),
            Version::V2 => out.extend_from_slice(&(self.topic.len() as u16).to_be_bytes()),
        }
        out.extend_from_slice(self.topic.as_bytes());
        let length: usize = properties.iter().map(|piece| piece.len()).sum();
        out.extend_from_slice(&(length as u16).to_be_bytes());
        properties
            .iter()
            .for_each(|piece| out.extend_from_slice(piece));
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
}

/// Records that differ in flag, body and properties; the common fields are encoded once.
pub struct Alike<'a> {
    like: RecordView<'a>,
    head: HeadWriter,
}

impl<'a> Alike<'a> {
    /// Creates a template from this record.
    pub fn to(record: RecordView<'a>) -> Self {
        let like = RecordView {
            body: &[],
            properties: &[],
            ..record
        };
        let head = like.head();
        Self { like, head }
    }

    /// Appends a record and returns its size; the properties come in pieces. It has the same limits
    /// as [`RecordView::encode`].
    #[expect(clippy::cast_possible_truncation, reason = "limits are the caller's")]
    pub fn encode(&self, flag: i32, body: &[u8], properties: &[&[u8]], out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(self.head.written());
        self.like.encode_rest(body, properties, out);
        let record = &mut out[start..];
        let size = record.len();
        let mut put = |at: usize, field: [u8; 4]| record[at..at + 4].copy_from_slice(&field);
        put(0, (size as u32).to_be_bytes());
        put(at::BODY_CRC, body_crc(body).to_be_bytes());
        put(at::FLAG, flag.to_be_bytes());
        put(self.head.length - 4, (body.len() as u32).to_be_bytes());
        size
    }
}

/// Fields of a record that are known only under the put lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned {
    /// Entry number in the queue.
    pub queue_offset: i64,
    /// Start of the record, bytes from the start of the log.
    pub physical_offset: i64,
    /// Store time, milliseconds since the epoch.
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

/// Appends a property to an encoded record, whose properties have `text_bytes`; returns their new
/// length. None if that is too long; then nothing is changed.
///
/// # Panics
/// If `record` is not a record with properties of that length.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked, or the caller's limit"
)]
pub fn add_property(
    record: &mut Vec<u8>,
    text_bytes: usize,
    name: &str,
    value: &[u8],
) -> Option<usize> {
    let has_end = text_bytes == 0 || record.last() == Some(&PAIR_END);
    let added = usize::from(!has_end) + name.len() + 1 + value.len();
    let length_at = record.len() - text_bytes - 2;
    if text_bytes + added > PROPERTIES_BYTES_MAX {
        return None;
    }
    if !has_end {
        record.push(PAIR_END);
    }
    record.extend_from_slice(name.as_bytes());
    record.push(NAME_END);
    record.extend_from_slice(value);
    let (size, text_bytes) = (record.len() as u32, text_bytes + added);
    record[..4].copy_from_slice(&size.to_be_bytes());
    record[length_at..length_at + 2].copy_from_slice(&(text_bytes as u16).to_be_bytes());
    Some(text_bytes)
}

/// Returns the blank record for a file with `remaining` bytes left.
pub fn blank(remaining: u32) -> [u8; BLANK_BYTES] {
    let mut bytes = [0; BLANK_BYTES];
    bytes[..4].copy_from_slice(&remaining.to_be_bytes());
    bytes[4..].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
    bytes
}

/// Collects the fields before the body, so that the output grows once for all of them.
struct HeadWriter {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl HeadWriter {
    fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    #[inline]
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.length..self.length + N].copy_from_slice(&field);
        self.length += N;
    }

    #[inline]
    fn put_host(&mut self, host: SocketAddr) {
        match host.ip() {
            IpAddr::V4(address) => self.put(address.octets()),
            IpAddr::V6(address) => self.put(address.octets()),
        }
        self.put(u32::from(host.port()).to_be_bytes());
    }
}
