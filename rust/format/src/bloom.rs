//! The bloom filter that RocketMQ's broker stores with each message, to record which groups'
//! filters the message passed: its shape, the bits of a group, and the bitmap.
//!
//! Bit `p` of a bitmap is in byte `p / 8`, value `1 << p % 8`.

/// A shape: the number of bits, and how many of them each group sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BloomFilter {
    bit_count: u32,
    hash_count: u32,
}

impl BloomFilter {
    /// Returns the shape for an error rate of 1 to 99 percent (`maxErrorRateOfBloomFilter`) and an
    /// expected number of groups of at least 1 (`expectConsumerNumUseFilter`); None outside these
    /// ranges.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "RocketMQ casts as well; both numbers are small and positive"
    )]
    pub fn of(error_percent: u32, group_count: u32) -> Option<Self> {
        if !(1..=99).contains(&error_percent) || group_count == 0 {
            return None;
        }
        let rate = f64::from(error_percent);
        // RocketMQ computes the logarithms as quotients of natural ones.
        let log = |base: f64, value: f64| value.ln() / base.ln();
        let hashes = log(0.5, rate / 100.0).ceil();
        let bits = f64::from(group_count) * log(2.0, 100.0 / rate) * log(2.0, std::f64::consts::E);
        let bit_count = (bits.ceil() as u32).checked_next_multiple_of(8)?;
        Some(Self {
            bit_count,
            hash_count: hashes as u32,
        })
    }

    /// Number of bits in a bitmap (`bitNum`), a multiple of 8.
    pub fn bit_count(&self) -> u32 {
        self.bit_count
    }

    /// Number of bits that each group sets.
    pub fn hash_count(&self) -> u32 {
        self.hash_count
    }

    /// Returns the bits of a group's filter for a topic (`bitPos`).
    pub fn positions(&self, group: &str, topic: &str) -> Vec<u32> {
        let hash = murmur3(format!("{group}#{topic}").as_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (low, high) = (hash as i32, (hash >> 32) as i32);
        let position = |at: i32| {
            let combined = low.wrapping_add(high.wrapping_mul(at));
            let combined = if combined < 0 { !combined } else { combined };
            combined.unsigned_abs() % self.bit_count
        };
        (1..=self.hash_count.cast_signed()).map(position).collect()
    }

    /// Returns a bitmap without set bits.
    pub fn empty_bitmap(&self) -> Vec<u8> {
        vec![0; (self.bit_count / 8) as usize]
    }

    /// Whether a bitmap has this shape's length.
    pub fn has_length_of(&self, bitmap: &[u8]) -> bool {
        bitmap.len() == (self.bit_count / 8) as usize
    }
}

/// Sets the bits of a group; positions after the end of the bitmap are ignored.
pub fn set(bitmap: &mut [u8], positions: &[u32]) {
    for position in positions {
        if let Some(byte) = bitmap.get_mut((position / 8) as usize) {
            *byte |= 1 << (position % 8);
        }
    }
}

/// Whether all bits of a group are set: the message passed the group's filter, or the filters of
/// others with the same bits.
pub fn is_set(bitmap: &[u8], positions: &[u32]) -> bool {
    positions.iter().all(|position| {
        let byte = bitmap.get((position / 8) as usize);
        byte.is_some_and(|byte| byte & 1 << (position % 8) != 0)
    })
}

/// First 8 bytes of murmur3_128 (x64, seed 0), little-endian.
fn murmur3(bytes: &[u8]) -> u64 {
    const C1: u64 = 0x87C3_7B91_1142_53D5;
    const C2: u64 = 0x4CF5_AD43_2745_937F;
    let mix1 = |word: u64| word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |word: u64| word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let (blocks, tail) = bytes.as_chunks::<16>();
    let (mut h1, mut h2) = (0_u64, 0_u64);
    for block in blocks {
        let (first, second) = words(block);
        h1 = (h1 ^ mix1(first)).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52DC_E729);
        h2 = (h2 ^ mix2(second)).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    let (first, second) = words(&last);
    // Words of zeros mix to zero, so mixing the missing words of a tail changes nothing.
    h1 ^= mix1(first) ^ bytes.len() as u64;
    h2 ^= mix2(second) ^ bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2))
}

fn words(block: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    (both as u64, (both >> 64) as u64)
}

fn finish(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fastjson;

    fn default_filter() -> BloomFilter {
        BloomFilter::of(20, 32).unwrap()
    }

    #[test]
    fn shapes_are_rocketmqs() {
        let filter = default_filter();
        assert_eq!((filter.hash_count(), filter.bit_count()), (3, 112));
        let precise = BloomFilter::of(1, 100).unwrap();
        assert_eq!((precise.hash_count(), precise.bit_count()), (7, 960));
        assert_eq!(BloomFilter::of(0, 32), None);
        assert_eq!(BloomFilter::of(100, 32), None);
        assert_eq!(BloomFilter::of(20, 0), None);
        assert_eq!(BloomFilter::of(1, u32::MAX), None);
    }

    #[test]
    fn murmur3_of_known_texts() {
        assert_eq!(murmur3(b""), 0);
        assert_eq!(murmur3(b"hello"), 0xCBD8_A7B3_41BD_9B02);
        let long = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(murmur3(long), 0xE34B_BC7B_BC07_1B6C);
    }

    /// Every group of a consumerFilter.json has the bits that Java gave it.
    fn check_positions(text: &str) -> usize {
        let strict = fastjson::to_strict(text).unwrap();
        let value: serde_json::Value = serde_json::from_str(&strict).unwrap();
        let filter = default_filter();
        let mut count = 0;
        for topic in value["filterDataByTopic"].as_object().unwrap().values() {
            for (group, data) in topic["groupFilterData"].as_object().unwrap() {
                let bloom = &data["bloomFilterData"];
                assert_eq!(bloom["bitNum"], filter.bit_count());
                let positions = filter.positions(group, data["topic"].as_str().unwrap());
                assert_eq!(serde_json::json!(positions), bloom["bitPos"], "{group}");
                count += 1;
            }
        }
        count
    }

    #[test]
    fn groups_have_the_bits_that_java_gave_them() {
        let golden = include_str!("../../../tests/golden/config/consumerFilter.json");
        assert_eq!(check_positions(golden), 1);
        let of_ext = r#"{"filterDataByTopic":{"TopicExt":{"groupFilterData":{
            "ext_sql_2":{"bloomFilterData":{"bitNum":112,"bitPos":[37,36,35]},"topic":"TopicExt"},
            "ext_sql_1":{"bloomFilterData":{"bitNum":112,"bitPos":[80,74,68]},"topic":"TopicExt"}
        }}}}"#;
        assert_eq!(check_positions(of_ext), 2);
    }

    #[test]
    fn a_bitmap_has_the_bits_of_its_groups() {
        let filter = default_filter();
        let (one, two) = ([80, 74, 68], [37, 36, 35]);
        let mut bitmap = filter.empty_bitmap();
        assert!(filter.has_length_of(&bitmap) && !filter.has_length_of(&[]));
        set(&mut bitmap, &two);
        // As in the golden store, for a message that passed only the second filter.
        assert_eq!(bitmap, [0, 0, 0, 0, 0x38, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(is_set(&bitmap, &two) && !is_set(&bitmap, &one));
        set(&mut bitmap, &[112]);
        assert!(!is_set(&bitmap, &[112]), "behind the end");
    }
}
