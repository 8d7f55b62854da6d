//! Finds the whole and the damaged records in the reply to a pull.

use super::message::{BLANK_BYTES, Head, Outline, RecordError};

/// A record that differs from the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged {
    /// Start of the record, bytes from the start of the reply.
    pub at: usize,
    /// Size of the record, bytes; None if the size itself is damaged, so that the start of the next
    /// record is unknown.
    pub size: Option<usize>,
    /// The damage.
    pub error: RecordError,
}

/// Iterates over the records of a reply: the bytes of each, or its damage. It ends after a record
/// without a size.
pub fn records(body: &[u8]) -> impl Iterator<Item = Result<&[u8], Damaged>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let rest = body.get(start..).filter(|rest| !rest.is_empty())?;
        let checked = Outline::parse_checked(rest);
        if let (Ok(_), Head::Record(size)) = (&checked, Head::parse(rest)) {
            at += size;
            return Some(Ok(&rest[..size]));
        }
        let size = credible_size(rest);
        at = size.map_or(body.len(), |size| start + size);
        let error = checked.err().unwrap_or(RecordError::Blank);
        let at = start;
        Some(Err(Damaged { at, size, error }))
    })
}

/// Returns the damaged records of a reply.
pub fn damaged(body: &[u8]) -> Vec<Damaged> {
    records(body).filter_map(Result::err).collect()
}

/// Returns the size in the record, if the reply ends there or another record starts there.
fn credible_size(bytes: &[u8]) -> Option<usize> {
    let stated = i32::from_be_bytes(*bytes.first_chunk()?);
    let size = usize::try_from(stated).ok()?;
    let is_whole = size >= BLANK_BYTES && size <= bytes.len();
    let is_followed = || matches!(Head::parse(&bytes[size..]), Head::Record(_));
    (is_whole && (size == bytes.len() || is_followed())).then_some(size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{RecordView, Version, body_crc};

    fn record(body: &[u8]) -> Vec<u8> {
        let host = "127.0.0.1:1".parse().unwrap();
        let mut bytes = Vec::new();
        RecordView {
            version: Version::V1,
            body_crc: body_crc(body),
            queue_id: 0,
            flag: 0,
            queue_offset: 0,
            physical_offset: 0,
            sys_flag: 0,
            born_timestamp_ms: 0,
            born_host: host,
            store_timestamp_ms: 0,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            topic: "T",
            properties: b"A\x01b",
        }
        .encode(&mut bytes);
        bytes
    }

    /// Three records with one bit of the second changed; returns the damage that is found.
    fn flipped(at: usize, bit: u8) -> Vec<(usize, Option<usize>)> {
        let one = record(b"body");
        let mut reply = one.repeat(3);
        reply[one.len() + at] ^= bit;
        let found = damaged(&reply);
        found.iter().map(|found| (found.at, found.size)).collect()
    }

    #[test]
    fn records_after_a_damaged_one_are_read() {
        let size = record(b"body").len();
        assert_eq!(damaged(&record(b"body").repeat(3)), []);
        assert_eq!(damaged(&record(b"")), []);
        assert_eq!(damaged(&[]), []);
        // Magic, checksum, system flag, body length, body.
        for at in [4, 8, 39, size - 13, size - 9] {
            assert_eq!(flipped(at, 16), [(size, Some(size))], "byte {at}");
        }
        assert_eq!(flipped(3, 1), [(size, None)], "its size");
        let mut empty = record(b"");
        empty[11] ^= 1;
        assert_eq!(damaged(&empty).len(), 1, "the checksum of no body is 0");
    }

    proptest! {
        #[test]
        fn any_bytes_are_whole_or_damaged_records(
            start in 0usize..200,
            noise in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut reply = record(b"body").repeat(3);
            let start = start.min(reply.len());
            let end = (start + noise.len()).min(reply.len());
            reply.splice(start..end, noise);
            let mut behind = 0;
            for found in damaged(&reply) {
                prop_assert!(found.at >= behind && found.at < reply.len());
                behind = found.at + found.size.unwrap_or(reply.len() - found.at);
                prop_assert!(behind <= reply.len());
            }
        }
    }

    #[test]
    fn a_reply_that_is_cut_short_ends_with_a_damaged_record() {
        let one = record(b"body");
        let reply = one.repeat(2);
        for cut in 1..one.len() {
            let found = damaged(&reply[..reply.len() - cut]);
            assert_eq!((found.len(), found[0].at), (1, one.len()));
        }
    }
}
