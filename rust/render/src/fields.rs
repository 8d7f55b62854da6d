//! A record whose fields are decoded one by one, on access.
//!
//! [`RecordView`] decodes all fields, hosts included. When millions of records become rows, that
//! takes longer than the rest of the work. Both accept and refuse the same bytes; a test compares
//! them.

use mq_format::message::{
    CheckCrc, MAGIC, MAGIC_V2, RecordError, RecordView, is_body_sound, sys_flag,
};

/// Position of the born host, bytes; all fields before it have fixed positions.
const BORN_HOST_AT: usize = 48;

/// A parsed record.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    /// The whole record.
    pub bytes: &'a [u8],
    /// The body as stored.
    pub body: &'a [u8],
    /// Topic name.
    pub topic: &'a str,
    /// Properties text.
    pub properties: &'a [u8],
    /// Position of the store time; the store host follows it.
    store_time_at: usize,
    /// Position of the reconsume count, which follows the store host.
    tail_at: usize,
}

macro_rules! number {
    ($name:ident, $type:ty, $place:expr) => {
        /// The record's field of this name.
        #[inline(always)]
        pub fn $name(&self) -> $type {
            let place: fn(&Self) -> usize = $place;
            <$type>::from_be_bytes(array(self.bytes, place(self)))
        }
    };
}

impl<'a> Fields<'a> {
    number!(stored_crc, u32, |_| 8);
    number!(queue_id, i32, |_| 12);
    number!(flag, i32, |_| 16);
    number!(queue_offset, i64, |_| 20);
    number!(physical_offset, i64, |_| 28);
    number!(sys_flag, i32, |_| 36);
    number!(born_timestamp_ms, i64, |_| 40);
    number!(store_timestamp_ms, i64, |fields| fields.store_time_at);
    number!(reconsume_times, i32, |fields| fields.tail_at);
    number!(prepared_transaction_offset, i64, |fields| fields.tail_at
        + 4);

    /// Reads the record at the start of `bytes`; ignores the bytes after it.
    #[inline]
    pub fn parse(bytes: &'a [u8], check: CheckCrc) -> Result<Self, RecordError> {
        let found = Self::find(bytes).filter(|fields| check == CheckCrc::No || fields.is_sound());
        if let Some(fields) = found {
            return Ok(fields);
        }
        // `RecordView` reports the reason. If it accepts the record, the two disagree about the
        // size.
        let seen = RecordView::parse(bytes, check)?;
        Err(RecordError::Size {
            total: bytes.len(),
            computed: seen.size(),
        })
    }

    /// None if the bytes do not start with a record.
    #[inline]
    fn find(bytes: &'a [u8]) -> Option<Self> {
        let total = usize::try_from(i32::from_be_bytes(*bytes.first_chunk()?)).ok()?;
        let bytes = bytes.get(..total)?;
        if total < BORN_HOST_AT {
            return None;
        }
        let version = i32::from_be_bytes(array(bytes, 4));
        let flags = i32::from_be_bytes(array(bytes, 36));
        let length = |bit| if flags & bit == 0 { 8 } else { 20 };
        let store_time_at = BORN_HOST_AT + length(sys_flag::BORN_HOST_V6);
        let tail_at = store_time_at + 8 + length(sys_flag::STORE_HOST_V6);
        let rest = bytes.get(tail_at + 12..)?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        let (body, rest) = rest.split_at_checked(length)?;
        let (length, rest) = match version {
            MAGIC => rest
                .split_first()
                .map(|(length, rest)| (usize::from(*length), rest))?,
            MAGIC_V2 => {
                let (length, rest) = rest.split_first_chunk()?;
                (usize::from(u16::from_be_bytes(*length)), rest)
            }
            _ => return None,
        };
        let (topic, rest) = rest.split_at_checked(length)?;
        let (length, properties) = rest.split_first_chunk()?;
        if i16::from_be_bytes(*length) as usize != properties.len() {
            return None;
        }
        Some(Self {
            bytes,
            body,
            topic: std::str::from_utf8(topic).ok()?,
            properties,
            store_time_at,
            tail_at,
        })
    }

    /// Whether the body matches its checksum.
    pub fn is_sound(&self) -> bool {
        is_body_sound(self.body, self.stored_crc())
    }

    /// Whether the body is compressed.
    #[inline]
    pub fn is_compressed(&self) -> bool {
        self.sys_flag() & sys_flag::COMPRESSED != 0
    }

    /// Address and port of the producer, as stored.
    #[inline]
    pub fn born_host(&self) -> &'a [u8] {
        &self.bytes[BORN_HOST_AT..self.store_time_at]
    }

    /// Address and port of the broker, as stored.
    #[inline]
    pub fn store_host(&self) -> &'a [u8] {
        &self.bytes[self.store_time_at + 8..self.tail_at]
    }

    /// System flags, born time and born host.
    #[inline]
    pub fn born_part(&self) -> &'a [u8] {
        &self.bytes[36..self.store_time_at]
    }

    /// Store time and host, reconsume times and prepared transaction offset.
    #[inline]
    pub fn stored_part(&self) -> &'a [u8] {
        &self.bytes[self.store_time_at..self.tail_at + 12]
    }
}

/// The `N` bytes at `at`; the caller has checked that they exist.
#[inline(always)]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[at..at + N]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_testing::stores::records;

    fn check(bytes: &[u8]) {
        let expected = RecordView::parse(bytes, CheckCrc::Yes);
        let found = Fields::parse(bytes, CheckCrc::Yes);
        let (Ok(expected), Ok(found)) = (&expected, &found) else {
            assert_eq!(found.err(), expected.err());
            return;
        };
        assert_eq!(found.bytes, &bytes[..expected.size()]);
        assert_eq!(found.stored_crc(), expected.body_crc);
        assert_eq!(found.queue_id(), expected.queue_id);
        assert_eq!(found.flag(), expected.flag);
        assert_eq!(found.queue_offset(), expected.queue_offset);
        assert_eq!(found.physical_offset(), expected.physical_offset);
        assert_eq!(found.sys_flag(), expected.sys_flag);
        assert_eq!(found.born_timestamp_ms(), expected.born_timestamp_ms);
        assert_eq!(found.store_timestamp_ms(), expected.store_timestamp_ms);
        assert_eq!(found.reconsume_times(), expected.reconsume_times);
        let prepared = expected.prepared_transaction_offset;
        assert_eq!(found.prepared_transaction_offset(), prepared);
        let texts = (expected.body, expected.topic, expected.properties);
        assert_eq!((found.body, found.topic, found.properties), texts);
        let port = |host: &[u8]| host[host.len() - 2..].to_vec();
        assert_eq!(
            port(found.born_host()),
            expected.born_host.port().to_be_bytes()
        );
        assert_eq!(
            port(found.store_host()),
            expected.store_host.port().to_be_bytes()
        );
    }

    #[test]
    fn fields_and_record_view_accept_the_same_records() {
        for store in ["store", "store-ext"] {
            let (bytes, count) = records(store);
            let mut rest = &bytes[..];
            while let Ok(record) = RecordView::parse(rest, CheckCrc::No) {
                check(rest);
                rest = &rest[record.size()..];
            }
            assert!(rest.is_empty() && count > 0);
        }
    }

    #[test]
    fn fields_and_record_view_agree_on_damaged_records() {
        let (bytes, _) = records("store");
        let first = &bytes[..RecordView::parse(&bytes, CheckCrc::No).unwrap().size()];
        for length in 0..first.len() {
            check(&first[..length]);
        }
        for at in 0..first.len() {
            for change in [1, 0x10, 0x20, 0x80, 0xFF] {
                let mut bytes = first.to_vec();
                bytes[at] ^= change;
                check(&bytes);
            }
        }
    }
}
