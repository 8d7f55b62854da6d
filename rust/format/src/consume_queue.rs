//! One entry of a consume queue: position and size of a record, and the hash of its tags.
//!
//! ```text
//!  0               8        12              20
//! ┌───────────────┬────────┬───────────────┐
//! │ physical i64  │ size   │ tags code i64 │   big-endian; unused entries are all zero
//! └───────────────┴────────┴───────────────┘
//! ```

use crate::consume_queue_ext;

/// Bytes of one entry.
pub const ENTRY_BYTES: usize = 20;

/// An entry of a consume queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueEntry {
    /// Start of the record, bytes from the start of the log.
    pub physical_offset: i64,
    /// Bytes of the record.
    pub size_bytes: i32,
    /// Java hash of the tags, sign-extended; a delivery time in the schedule topic.
    pub tags_code: i64,
}

impl QueueEntry {
    /// Stands for a queue offset without a record; written before the first entry of a queue that
    /// does not start at 0.
    pub const HOLE: Self = Self {
        physical_offset: 0,
        size_bytes: i32::MAX,
        tags_code: 0,
    };

    /// The tags code of a hole: it is no hash, no extension address, and no possible delivery time.
    pub const HOLE_TAGS_CODE: i64 = i64::from_be_bytes(*b"mqstack\0");

    /// Returns the entry for a queue offset whose record was lost to damage, before this entry. It
    /// points to the same record, which RocketMQ therefore reads twice. If it pointed nowhere,
    /// RocketMQ would take it for the last entry of its log file and skip the rest of that file.
    pub fn hole_before(&self) -> Self {
        Self {
            tags_code: Self::HOLE_TAGS_CODE,
            ..*self
        }
    }

    /// Encodes the entry.
    #[inline]
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let [p0, p1, p2, p3, p4, p5, p6, p7] = self.physical_offset.to_be_bytes();
        let [s0, s1, s2, s3] = self.size_bytes.to_be_bytes();
        let [t0, t1, t2, t3, t4, t5, t6, t7] = self.tags_code.to_be_bytes();
        [
            p0, p1, p2, p3, p4, p5, p6, p7, s0, s1, s2, s3, t0, t1, t2, t3, t4, t5, t6, t7,
        ]
    }

    /// Decodes an entry; every bit pattern is accepted, so check [`Self::is_used`].
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let [p0, p1, p2, p3, p4, p5, p6, p7, s0, s1, s2, s3, tags @ ..] = *bytes;
        Self {
            physical_offset: i64::from_be_bytes([p0, p1, p2, p3, p4, p5, p6, p7]),
            size_bytes: i32::from_be_bytes([s0, s1, s2, s3]),
            tags_code: i64::from_be_bytes(tags),
        }
    }

    /// Decodes all entries of a buffer, without an incomplete last one.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.as_chunks().0.iter().map(Self::decode)
    }

    /// Whether the entry was written (RocketMQ's rule; fillers count as written).
    pub fn is_used(&self) -> bool {
        self.physical_offset >= 0 && self.size_bytes > 0
    }

    /// Whether the entry stands for no record.
    pub fn is_hole(&self) -> bool {
        self.tags_code == Self::HOLE_TAGS_CODE
            || (self.physical_offset == 0 && self.size_bytes == i32::MAX)
    }

    /// Whether `tags_code` is an address in the consume queue extension, so that it says nothing
    /// about the tags.
    pub fn is_extension_address(&self) -> bool {
        consume_queue_ext::is_address(self.tags_code)
    }

    /// First byte after the record, bytes from the start of the log.
    #[inline]
    pub fn end_offset(&self) -> i64 {
        self.physical_offset
            .saturating_add(i64::from(self.size_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_the_documented_layout() {
        let entry = QueueEntry {
            physical_offset: 0x0102,
            size_bytes: 190,
            tags_code: -2,
        };
        let bytes = entry.encode();
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes[8..12], [0, 0, 0, 190]);
        assert_eq!(bytes[12..], [255, 255, 255, 255, 255, 255, 255, 254]);
        assert_eq!(QueueEntry::decode(&bytes), entry);
        assert_eq!(entry.end_offset(), 0x0102 + 190);
    }

    #[test]
    fn zeros_are_unused_and_fillers_are_used() {
        assert!(!QueueEntry::decode(&[0; ENTRY_BYTES]).is_used());
        assert!(QueueEntry::HOLE.is_used() && QueueEntry::HOLE.is_hole());
        let entry = QueueEntry {
            physical_offset: 190,
            size_bytes: 100,
            tags_code: 7,
        };
        let hole = entry.hole_before();
        assert!(hole.is_used() && hole.is_hole() && !entry.is_hole());
        assert!(!hole.is_extension_address() && hole.end_offset() == entry.end_offset());
    }

    #[test]
    fn extension_addresses_lie_below_every_int() {
        let with_tags_code = |tags_code| QueueEntry {
            tags_code,
            ..QueueEntry::HOLE
        };
        assert!(with_tags_code(i64::MIN).is_extension_address());
        assert!(with_tags_code(-2_147_483_649).is_extension_address());
        assert!(!with_tags_code(i64::from(i32::MIN)).is_extension_address());
    }
}
