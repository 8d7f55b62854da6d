//! The hash-slot index file: header, slots, entries.
//!
//! ```text
//! 0        8        16          24        32           36          40
//! ┌────────┬────────┬───────────┬─────────┬────────────┬───────────┐
//! │ begin  │ end    │ begin     │ end     │ used slots │ next entry│  header: times in ms,
//! │ time   │ time   │ physical  │ physical│ i32        │ i32       │  offsets in bytes
//! ├────────┴────────┴───────────┴─────────┴────────────┴───────────┤
//! │ slots: i32 each, the newest entry whose hash falls there, or 0 │
//! ├────────────────────────────────────────────────────────────────┤
//! │ entries: key hash i32 | physical i64 | seconds i32 | prev i32  │  entry 0 is never used
//! └────────────────────────────────────────────────────────────────┘
//! ```
//! Everything is big-endian. "Next entry" starts at 1; 0 means that nothing was written yet.

use crate::message::java_hash_on;
use crate::properties;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 40;
/// Bytes of one slot.
pub const SLOT_BYTES: usize = 4;
/// Bytes of one entry.
pub const ENTRY_BYTES: usize = 20;

/// First 40 bytes of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexHeader {
    /// Store time of the first message, milliseconds since the epoch.
    pub begin_timestamp_ms: i64,
    /// Store time of the last message, milliseconds since the epoch.
    pub end_timestamp_ms: i64,
    /// Physical offset of the first message.
    pub begin_physical_offset: i64,
    /// Physical offset of the last message.
    pub end_physical_offset: i64,
    /// Slots whose chain is not empty (as RocketMQ counts them).
    pub hash_slot_count: i32,
    /// Number of the next entry; at most 1 means that the file has none.
    pub index_count: i32,
}

impl IndexHeader {
    /// The header as stored.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.begin_timestamp_ms.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.end_timestamp_ms.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.begin_physical_offset.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.end_physical_offset.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.hash_slot_count.to_be_bytes());
        bytes[36..].copy_from_slice(&self.index_count.to_be_bytes());
        bytes
    }

    /// Reads a stored header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let long = |at: usize| i64::from_be_bytes(field(bytes, at));
        let int = |at: usize| i32::from_be_bytes(field(bytes, at));
        Self {
            begin_timestamp_ms: long(0),
            end_timestamp_ms: long(8),
            begin_physical_offset: long(16),
            end_physical_offset: long(24),
            hash_slot_count: int(32),
            index_count: int(36),
        }
    }

    /// Seconds from the file's first message to `store_timestamp_ms`, as an entry holds them.
    pub fn time_difference_seconds(&self, store_timestamp_ms: i64) -> i32 {
        if self.begin_timestamp_ms <= 0 {
            return 0;
        }
        let seconds = store_timestamp_ms.saturating_sub(self.begin_timestamp_ms) / 1000;
        i32::try_from(seconds.max(0)).unwrap_or(i32::MAX)
    }

    /// Store time of an entry: whole seconds after the first message, milliseconds since the epoch.
    pub fn entry_timestamp_ms(&self, time_difference_seconds: i32) -> i64 {
        let difference_ms = i64::from(time_difference_seconds) * 1000;
        self.begin_timestamp_ms.saturating_add(difference_ms)
    }
}

/// One key of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// [`key_hash`] of topic and key.
    pub key_hash: i32,
    /// Start of the record, bytes from the start of the log.
    pub physical_offset: i64,
    /// Seconds after the file's first message.
    pub time_difference_seconds: i32,
    /// The entry before this one in the slot's chain, 0 for none.
    pub previous: i32,
}

impl IndexEntry {
    /// The entry as stored.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(&self.key_hash.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.physical_offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.time_difference_seconds.to_be_bytes());
        bytes[16..].copy_from_slice(&self.previous.to_be_bytes());
        bytes
    }

    /// Reads a stored entry.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        Self {
            key_hash: i32::from_be_bytes(field(bytes, 0)),
            physical_offset: i64::from_be_bytes(field(bytes, 4)),
            time_difference_seconds: i32::from_be_bytes(field(bytes, 12)),
            previous: i32::from_be_bytes(field(bytes, 16)),
        }
    }
}

/// Sizes of an index file; every file of a store has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLayout {
    /// Hash slots (`maxHashSlotNum`).
    pub slots: u32,
    /// Entries, the unused entry 0 included (`maxIndexNum`).
    pub entries: u32,
}

impl IndexLayout {
    /// Bytes of a whole file.
    pub fn file_bytes(&self) -> u64 {
        self.entry_position(self.entries)
    }

    /// Returns the layout of a file of `file_bytes`. The caller may know slots, entries, both or
    /// neither. If neither is known, RocketMQ's ratio of four entries per slot is assumed, because
    /// the length alone does not determine both. None if no layout has that length.
    pub fn of_file(file_bytes: u64, slots: Option<u32>, entries: Option<u32>) -> Option<Self> {
        const DEFAULT_RATIO: u64 = 4;
        let (slot, entry) = (SLOT_BYTES as u64, ENTRY_BYTES as u64);
        let body = file_bytes.checked_sub(HEADER_BYTES as u64)?;
        let slots = match (slots, entries) {
            (Some(slots), _) => u64::from(slots),
            (None, Some(entries)) => body.checked_sub(u64::from(entries) * entry)? / slot,
            (None, None) => body / (slot + DEFAULT_RATIO * entry),
        };
        let of_entries = body.checked_sub(slots * slot)?;
        let found = Self {
            slots: u32::try_from(slots).ok()?,
            entries: u32::try_from(of_entries / entry).ok()?,
        };
        let is_known = entries.is_none_or(|entries| entries == found.entries);
        (is_known && found.slots > 0 && found.file_bytes() == file_bytes).then_some(found)
    }

    /// Returns the position of a slot in the file, bytes.
    pub fn slot_position(&self, slot: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(slot) * SLOT_BYTES as u64
    }

    /// Returns the position of an entry in the file, bytes.
    pub fn entry_position(&self, index: u32) -> u64 {
        self.slot_position(self.slots) + u64::from(index) * ENTRY_BYTES as u64
    }

    /// Returns the slot of a key hash; `key_hash` is never negative.
    pub fn slot_of(&self, key_hash: i32) -> u32 {
        key_hash.unsigned_abs() % self.slots
    }
}

/// Returns RocketMQ's hash of `topic#key`: the absolute value of Java's string hash, or 0 for the
/// one int without an absolute value.
pub fn key_hash(topic: &str, key: &str) -> i32 {
    let mut hasher = KeyHasher::default();
    hasher.set_topic(topic);
    hasher.hash(key.as_bytes())
}

/// Computes [`key_hash`] of many keys, most of which have the same topic as the key before.
#[derive(Debug, Default)]
pub struct KeyHasher {
    topic: String,
    /// Hash of the topic and the separator.
    prefix: i32,
}

impl KeyHasher {
    /// Sets the topic of the next keys.
    pub fn set_topic(&mut self, topic: &str) {
        if self.topic != topic || topic.is_empty() {
            topic.clone_into(&mut self.topic);
            self.prefix = java_hash_on(java_hash_on(0, topic.as_bytes()), b"#");
        }
    }

    /// Returns the hash of a key. Bytes that are not UTF-8 are replaced first, as Java does.
    pub fn hash(&self, key: &[u8]) -> i32 {
        java_hash_on(self.prefix, key).checked_abs().unwrap_or(0)
    }
}

/// Returns the keys by which RocketMQ indexes a message: its unique key, then each of its `KEYS`
/// (`IndexService#buildIndex`).
#[inline]
pub fn indexed_keys(properties: &[u8]) -> impl Iterator<Item = &[u8]> {
    let [unique, keys] = properties::find(properties, [properties::UNIQ_KEY, properties::KEYS]);
    let keys = keys.unwrap_or_default().split(|byte| *byte == b' ');
    let all = unique.into_iter().chain(keys);
    all.filter(|key| !key.is_empty())
}

/// Whether a message of `topic` is indexed with a key of this hash.
pub fn has_key_hash(topic: &str, properties: &[u8], key_hash: i32) -> bool {
    let mut hasher = KeyHasher::default();
    hasher.set_topic(topic);
    indexed_keys(properties).any(|key| hasher.hash(key) == key_hash)
}

/// Returns a field of fixed size. Positions come from the layouts above, so they are in bounds.
fn field<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    let mut out = [0; SIZE];
    out.copy_from_slice(&bytes[at..at + SIZE]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_entry_have_the_documented_layout() {
        let header = IndexHeader {
            begin_timestamp_ms: 1,
            end_timestamp_ms: 2,
            begin_physical_offset: 3,
            end_physical_offset: 4,
            hash_slot_count: 5,
            index_count: 6,
        };
        let bytes = header.encode();
        assert_eq!((bytes[7], bytes[15], bytes[23], bytes[31]), (1, 2, 3, 4));
        assert_eq!((bytes[35], bytes[39]), (5, 6));
        assert_eq!(IndexHeader::decode(&bytes), header);
        let entry = IndexEntry {
            key_hash: 7,
            physical_offset: 8,
            time_difference_seconds: 9,
            previous: 10,
        };
        let bytes = entry.encode();
        assert_eq!((bytes[3], bytes[11], bytes[15], bytes[19]), (7, 8, 9, 10));
        assert_eq!(IndexEntry::decode(&bytes), entry);
    }

    #[test]
    fn default_sizes_give_rocketmqs_file() {
        let layout = IndexLayout {
            slots: 5_000_000,
            entries: 20_000_000,
        };
        assert_eq!(layout.file_bytes(), 420_000_040);
        assert_eq!(IndexLayout::of_file(420_000_040, None, None), Some(layout));
    }

    #[test]
    fn the_layout_follows_from_the_length() {
        let layout = IndexLayout {
            slots: 100,
            entries: 500,
        };
        let bytes = layout.file_bytes();
        assert_eq!(IndexLayout::of_file(bytes, Some(100), None), Some(layout));
        assert_eq!(IndexLayout::of_file(bytes, None, Some(500)), Some(layout));
        assert_eq!(IndexLayout::of_file(bytes, Some(100), Some(400)), None);
        assert_eq!(IndexLayout::of_file(bytes, None, None), None);
        assert_eq!(IndexLayout::of_file(7, None, None), None);
    }

    #[test]
    fn hashes_like_java() {
        assert_eq!(key_hash("polygenelubricants", ""), {
            let hash = i32::MIN.wrapping_mul(31).wrapping_add(i32::from(b'#'));
            hash.wrapping_abs()
        });
        // "Aa#BB" and "BB#Aa" collide as "Aa" and "BB" do.
        assert_eq!(key_hash("Aa", "BB"), key_hash("BB", "Aa"));
        assert!(key_hash("TopicTest", "日本-€") >= 0);
    }

    #[test]
    fn time_difference_is_clamped() {
        let header = IndexHeader {
            begin_timestamp_ms: 10_000,
            ..IndexHeader::default()
        };
        assert_eq!(header.time_difference_seconds(12_999), 2);
        assert_eq!(header.time_difference_seconds(1), 0);
        assert_eq!(header.time_difference_seconds(i64::MAX), i32::MAX);
        assert_eq!(IndexHeader::default().time_difference_seconds(12_999), 0);
        assert_eq!(header.entry_timestamp_ms(2), 12_000);
    }
}
