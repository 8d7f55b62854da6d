//! Finds the quotes and backslashes of a header, so that the text between them need not be read.

/// Bytes of a block, which is examined at once; one bit of the mask for each byte.
const BLOCK_BYTES: usize = 64;

/// The quotes and backslashes of the current block. Most strings in a header are so short that a
/// block holds several.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// First byte of the block.
    start: usize,
    /// One past the last byte of the block; the initial block is empty.
    end: usize,
    /// Bit n is set if byte `start + n` is a quote or backslash.
    mask: u64,
}

impl Marks {
    /// Returns the position of the first quote or backslash at or after `from`. `bytes` must be the
    /// same in all calls.
    #[inline(always)]
    pub(super) fn next(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        if !(self.start..self.end).contains(&from) {
            self.look(bytes, from)?;
        }
        let mut left = self.mask >> (from - self.start);
        if left != 0 {
            return Some(from + left.trailing_zeros() as usize);
        }
        loop {
            self.look(bytes, self.end)?;
            left = self.mask;
            if left != 0 {
                return Some(self.start + left.trailing_zeros() as usize);
            }
        }
    }

    /// Examines the block that starts at `start`; None at the end of the text.
    #[inline(never)]
    fn look(&mut self, bytes: &[u8], start: usize) -> Option<()> {
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
        self.start = start;
        if let Some(block) = rest.first_chunk() {
            self.end = start + BLOCK_BYTES;
            self.mask = mask_of(block);
        } else {
            let mut block = [0; BLOCK_BYTES];
            block[..rest.len()].copy_from_slice(rest);
            self.end = start + rest.len();
            self.mask = mask_of(&block);
        }
        Some(())
    }
}

/// Returns a mask whose bit n is set if byte n is a quote or backslash.
#[cfg(target_arch = "x86_64")]
fn mask_of(block: &[u8; BLOCK_BYTES]) -> u64 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
    };
    let (words, _) = block.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().enumerate().fold(0, |mask, (index, pair)| {
        let [low, high] = pair.map(i64::from_le_bytes);
        // SAFETY: the instructions access no memory and need SSE2, which every x86-64 CPU has.
        let bits = unsafe {
            let bytes = _mm_set_epi64x(high, low);
            let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"'.cast_signed()));
            let backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\'.cast_signed()));
            _mm_movemask_epi8(_mm_or_si128(quotes, backslashes))
        };
        mask | u64::from(bits.cast_unsigned()) << (index * 16)
    })
}

/// Returns a mask whose bit n is set if byte n is a quote or backslash.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::BLOCK_BYTES;

    pub(super) fn mask_of(block: &[u8; BLOCK_BYTES]) -> u64 {
        const LOWS: u64 = u64::from_ne_bytes([0x7F; 8]);
        /// Collects the high bits of eight bytes in the highest byte.
        const GATHER: u64 = 0x0002_0408_1020_4081;
        let (words, _) = block.as_chunks::<8>();
        words.iter().enumerate().fold(0, |mask, (index, word)| {
            let word = u64::from_le_bytes(*word);
            let is = |byte: u8| {
                let differs = word ^ u64::from_ne_bytes([byte; 8]);
                !(((differs & LOWS) + LOWS) | differs | LOWS)
            };
            let found = is(b'"') | is(b'\\');
            mask | (found.wrapping_mul(GATHER) >> 56) << (index * 8)
        })
    }
}

#[cfg(not(target_arch = "x86_64"))]
use portable::mask_of;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every mark, found one after another.
    fn marks_in(bytes: &[u8]) -> Vec<usize> {
        let mut marks = Marks::default();
        let mut from = 0;
        std::iter::from_fn(|| {
            let at = marks.next(bytes, from)?;
            from = at + 1;
            Some(at)
        })
        .collect()
    }

    #[test]
    fn the_next_quote_or_backslash_is_found_wherever_it_is() {
        for length in 0..200 {
            let mut bytes = vec![b'!'; length]; // one below a quote
            assert_eq!(Marks::default().next(&bytes, 0), None);
            for at in 0..length {
                bytes[at] = if at % 2 == 0 { b'"' } else { b'\\' };
                bytes[at + 1..].fill(b'#');
                assert_eq!(Marks::default().next(&bytes, 0), Some(at));
                assert_eq!(Marks::default().next(&bytes, at), Some(at));
                assert_eq!(Marks::default().next(&bytes, at + 1), None);
                bytes[at] = 0xA2;
            }
        }
    }

    #[test]
    fn marks_are_found_in_order_and_after_jumps() {
        let bytes: Vec<u8> = (0..2_000u32).map(|at| at.pow(2) as u8).collect();
        let is_mark = |at: &usize| matches!(bytes[*at], b'"' | b'\\');
        let expected: Vec<_> = (0..bytes.len()).filter(is_mark).collect();
        assert_eq!(marks_in(&bytes), expected);
        let quotes = vec![b'"'; 300];
        assert_eq!(marks_in(&quotes), (0..300).collect::<Vec<_>>());
        let mut marks = Marks::default();
        assert_eq!(marks.next(&quotes, 7), Some(7));
        assert_eq!(marks.next(&quotes, 299), Some(299));
        assert_eq!(marks.next(&quotes, 300), None);
        assert_eq!(marks.next(&quotes, 70), Some(70), "back");
    }

    #[test]
    fn both_ways_to_a_mask_agree() {
        for byte in 0..=u8::MAX {
            let mut block = [byte ^ 1; BLOCK_BYTES];
            for at in 0..BLOCK_BYTES {
                block[at] = byte;
                assert_eq!(mask_of(&block), portable::mask_of(&block), "{byte} at {at}");
            }
        }
    }
}
