//! Recognizes properties texts with the shape of an earlier one: the same names, and values of the
//! same lengths. This takes a fraction of the time of splitting the text.

use super::pairs::{self, Nature, Pair};

/// Number of remembered shapes; the length of a text selects one.
const SHAPES: usize = 8;
/// Bytes compared at once. Shorter texts have no shape.
const BLOCK: usize = 8;
/// Longest text that is remembered, bytes.
const TEXT_BYTES_MAX: usize = 2 << 10;
/// One in this number of texts without a known shape replaces a known shape. If all texts have
/// different shapes, storing each shape costs more time than it saves.
const LEARN_EVERY: usize = 4;
/// If more pairs are stored, all pairs and shapes are dropped.
const PAIRS_MAX: usize = 16 << 10;

/// A range in the list of stored pairs. Texts with equal spans have the same names and value
/// lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// Splits properties texts, with a cache of shapes.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: [Shape; SHAPES],
    pairs: Vec<Pair>,
    misses: usize,
}

/// A plain text and its pairs.
#[derive(Debug, Default)]
struct Shape {
    text: Vec<u8>,
    /// A mask over `text`: 0xFF for names and separators, 0 for values.
    frame: Vec<u8>,
    span: Span,
}

impl Shapes {
    /// Splits a text into its pairs, and classifies its bytes.
    #[inline]
    pub(super) fn split(&mut self, text: &[u8]) -> (Span, Nature) {
        let shape = &self.known[text.len() % SHAPES];
        if shape.fits(text) {
            return (shape.span, Nature::PLAIN);
        }
        self.split_new(text)
    }

    #[inline(never)]
    fn split_new(&mut self, text: &[u8]) -> (Span, Nature) {
        let start = self.pairs.len() as u32;
        let nature = pairs::split(text, &mut self.pairs);
        let end = self.pairs.len() as u32;
        let span = Span { start, end };
        let is_usual = (BLOCK..=TEXT_BYTES_MAX).contains(&text.len());
        if nature.is_plain && is_usual {
            if self.misses.is_multiple_of(LEARN_EVERY) {
                let pairs = &self.pairs[start as usize..];
                self.known[text.len() % SHAPES].learn(text, pairs, span);
            }
            self.misses += 1;
        }
        (span, nature)
    }

    /// The pairs of a span.
    #[inline]
    pub(super) fn pairs(&self, span: Span) -> &[Pair] {
        &self.pairs[span.start as usize..span.end as usize]
    }

    /// Drops all pairs if there are too many. If it returns true, earlier spans are invalid.
    pub(super) fn tidy(&mut self) -> bool {
        let are_many = self.pairs.len() > PAIRS_MAX;
        if are_many {
            *self = Self::default();
        }
        are_many
    }
}

impl Shape {
    /// Whether names and separators are equal and all values are plain. Names of a shape are plain.
    #[inline]
    fn fits(&self, text: &[u8]) -> bool {
        if self.text.len() != text.len() {
            return false;
        }
        let mut odd = 0;
        let (blocks, _) = text.as_chunks();
        let (known, _) = self.text.as_chunks();
        let (frames, _) = self.frame.as_chunks();
        for ((block, known), frame) in blocks.iter().zip(known).zip(frames) {
            odd |= differences(block, known, frame);
        }
        // The last block, which may overlap the one before it.
        let ends = (
            text.last_chunk(),
            self.text.last_chunk(),
            self.frame.last_chunk(),
        );
        let (Some(block), Some(known), Some(frame)) = ends else {
            return false;
        };
        odd | differences(block, known, frame) == 0
    }

    fn learn(&mut self, text: &[u8], pairs: &[Pair], span: Span) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.frame.clear();
        self.frame.resize(text.len(), u8::MAX);
        for pair in pairs {
            self.frame[pair.value_place()].fill(0);
        }
        self.span = span;
    }
}

/// Not 0 if a byte differs under the mask, or a byte outside of the mask is not plain.
#[inline(always)]
fn differences(text: &[u8; BLOCK], known: &[u8; BLOCK], frame: &[u8; BLOCK]) -> u64 {
    let text = u64::from_le_bytes(*text);
    let known = u64::from_le_bytes(*known);
    let frame = u64::from_le_bytes(*frame);
    ((text ^ known) & frame) | (not_plain(text) & !frame)
}

/// Each byte is 1.
const ONES: u64 = u64::MAX / 255;
/// The top bit of every byte.
const HIGH: u64 = ONES * 0x80;

/// Sets the top bit of each byte that is not ASCII, or that JSON must escape.
#[inline]
fn not_plain(word: u64) -> u64 {
    (word & HIGH) | below(word, 0x20) | equal(word, b'"') | equal(word, b'\\')
}

/// Sets the top bit of each byte below `limit`, which is at most 0x80.
#[inline]
fn below(word: u64, limit: u8) -> u64 {
    let reaches = (word & !HIGH) + ONES * u64::from(0x80 - limit);
    !(reaches | word) & HIGH
}

/// Sets the top bit of each byte equal to `byte`, which is below 0x80.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(shapes: &mut Shapes, text: &[u8]) {
        let mut expected = Vec::new();
        let nature = pairs::split(text, &mut expected);
        let (span, found) = shapes.split(text);
        assert_eq!(found, nature);
        assert_eq!(shapes.pairs(span), expected);
    }

    proptest! {
        #[test]
        fn pairs_are_the_same_as_without_the_cache(texts in prop::collection::vec(
            prop::collection::vec(prop_oneof![
                0_u8..4, Just(b'a'), Just(b'b'), Just(b'"'), Just(b'\\'), any::<u8>()
            ], 14..36), 1..40
        )) {
            let mut shapes = Shapes::default();
            for text in &texts {
                // The second call finds the shape of the first; so may a text with one changed
                // byte.
                check(&mut shapes, text);
                check(&mut shapes, text);
                let mut other = text.clone();
                let first = text[0];
                for at in 0..other.len() {
                    let before = std::mem::replace(&mut other[at], first);
                    check(&mut shapes, &other);
                    other[at] = before;
                }
            }
        }
    }

    #[test]
    fn the_same_shape_is_found_and_another_is_not() {
        let mut shapes = Shapes::default();
        let (first, _) = shapes.split(b"UNIQ_KEY\x010000AAAA\x02TAGS\x01a\x02");
        let (second, nature) = shapes.split(b"UNIQ_KEY\x019999BBBB\x02TAGS\x01b\x02");
        assert_eq!((first, nature), (second, Nature::PLAIN));
        for other in [
            b"UNIQ_KEX\x010000AAAA\x02TAGS\x01a\x02",
            b"UNIQ_KEY\x010000\x02AAA\x02TAGS\x01a\x02",
            b"UNIQ_KEY\x010000\xC3AAA\x02TAGS\x01a\x02",
            b"UNIQ_KEY\x010000AAAA\x02TAGS\x01a\x01",
        ] {
            assert_ne!(shapes.split(other).0, first, "{other:?}");
            check(&mut shapes, other);
        }
    }

    #[test]
    fn the_cache_is_dropped_when_it_holds_too_many_pairs() {
        let mut shapes = Shapes::default();
        for number in 0..PAIRS_MAX {
            let text = format!("NAME{number}\x01value\x02OTHER\x01{number}\x02");
            check(&mut shapes, text.as_bytes());
            shapes.tidy();
            assert!(shapes.pairs.len() <= PAIRS_MAX);
        }
    }
}
