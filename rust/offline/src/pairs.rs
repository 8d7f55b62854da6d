//! Splitting properties where speed counts: eight bytes at a time, and what their text is like.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use mq_format::properties::{self, NAME_END, PAIR_END};

/// Most pairs that are compared each with each.
const COMPARED_MAX: usize = 24;

/// Every byte 1.
const ONES: u64 = u64::MAX / 255;
/// The top bit of every byte.
const HIGH: u64 = ONES * 0x80;

/// A name and its value: places in the properties text, which is shorter than 32 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    name: (u16, u16),
    value: (u16, u16),
}

impl Pair {
    /// The name, in the text that was split.
    #[inline]
    pub(super) fn name<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[usize::from(self.name.0)..usize::from(self.name.1)]
    }

    /// The value.
    #[inline]
    pub(super) fn value<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.value_place()]
    }

    /// Where the value is.
    #[inline]
    pub(super) fn value_place(&self) -> Range<usize> {
        usize::from(self.value.0)..usize::from(self.value.1)
    }
}

/// What the bytes of a text are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nature {
    /// All are below 0x80.
    pub(super) is_ascii: bool,
    /// Beside that, names and values hold nothing that JSON must escape.
    pub(super) is_plain: bool,
}

impl Nature {
    /// Of plain text.
    pub(super) const PLAIN: Self = Self {
        is_ascii: true,
        is_plain: true,
    };
}

/// Appends the pairs that count, in text order: as `properties::iterate`.
pub(super) fn split(text: &[u8], pairs: &mut Vec<Pair>) -> Nature {
    let mut splitter = Splitter {
        start: 0,
        middle: None,
        pairs,
        high: 0,
        odd: 0,
    };
    let (words, rest) = text.as_chunks::<8>();
    for (at, bytes) in words.iter().enumerate() {
        splitter.look(text, at * 8, bytes);
    }
    let mut last = [0x7F; 8];
    last[..rest.len()].copy_from_slice(rest);
    splitter.look(text, words.len() * 8, &last);
    splitter.end_pair(text.len());
    let (high, odd) = (splitter.high, splitter.odd);
    Nature {
        is_ascii: high == 0,
        is_plain: high | odd == 0,
    }
}

/// The top bit of every byte that is below `limit`, at most 0x80.
#[inline]
fn below(word: u64, limit: u8) -> u64 {
    let reaches = (word & !HIGH) + ONES * u64::from(0x80 - limit);
    !(reaches | word) & HIGH
}

/// The top bit of every byte that is `byte`, below 0x80.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

/// The top bit of every byte that is not ASCII, or that JSON must escape.
#[inline]
pub(super) fn not_plain(word: u64) -> u64 {
    (word & HIGH) | below(word, 0x20) | equal(word, b'"') | equal(word, b'\\')
}

struct Splitter<'a> {
    /// Where the pair starts.
    start: usize,
    /// Where its name ends.
    middle: Option<usize>,
    pairs: &'a mut Vec<Pair>,
    /// Not 0 once a byte was at least 0x80,
    high: u64,
    /// or one that JSON must escape.
    odd: u64,
}

impl Splitter<'_> {
    /// Looks at the eight bytes at a place.
    #[inline(always)]
    fn look(&mut self, text: &[u8], at: usize, bytes: &[u8; 8]) {
        let word = u64::from_le_bytes(*bytes);
        let mut separators = below(word, 3);
        self.high |= word & HIGH;
        let quotes = equal(word, b'"') | equal(word, b'\\');
        self.odd |= (below(word, 0x20) ^ separators) | quotes;
        while separators != 0 {
            let place = at + (separators.trailing_zeros() / 8) as usize;
            separators &= separators - 1;
            self.odd |= u64::from(!self.separate(text, place));
        }
    }

    /// Looks at a byte below 3; false if it belongs to a value or a name.
    #[inline]
    fn separate(&mut self, text: &[u8], place: usize) -> bool {
        match text[place] {
            PAIR_END => {
                self.end_pair(place);
                self.start = place + 1;
                true
            }
            NAME_END if self.middle.is_none() => {
                self.middle = Some(place);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn end_pair(&mut self, end: usize) {
        let Some(middle) = self.middle.take() else {
            return;
        };
        if middle > self.start && middle + 1 < end {
            self.pairs.push(Pair {
                name: (self.start as u16, middle as u16),
                value: (middle as u16 + 1, end as u16),
            });
        }
    }
}

/// The last pair with this name.
#[inline]
pub(super) fn last(text: &[u8], pairs: &[Pair], name: &str) -> Option<Pair> {
    let named = |pair: &&Pair| pair.name(text) == name.as_bytes();
    pairs.iter().rev().find(named).copied()
}

/// Whether a name occurs twice, or there are so many that it is not worth looking.
#[inline]
pub(super) fn has_twin(text: &[u8], pairs: &[Pair]) -> bool {
    let is_seen = |(at, pair): (usize, &Pair)| {
        let name = pair.name(text);
        pairs[..at].iter().any(|seen| seen.name(text) == name)
    };
    pairs.len() > COMPARED_MAX || pairs.iter().enumerate().any(is_seen)
}

/// The pairs as text, each name once: of equal ones the place of the first and the value of the
/// last. Bytes that are not UTF-8 become U+FFFD, and different names perhaps equal.
pub(super) fn distinct(text: &[u8]) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    let mut places = HashMap::new();
    for (name, value) in properties::iterate(text) {
        let name = String::from_utf8_lossy(name);
        let value = String::from_utf8_lossy(value);
        match places.get(&name) {
            Some(place) => {
                let (_, known): &mut (_, _) = &mut pairs[*place];
                *known = value;
            }
            None => {
                places.insert(name.clone(), pairs.len());
                pairs.push((name, value));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use mq_format::properties;

    type Split<'a> = Vec<(&'a [u8], &'a [u8])>;

    fn found(text: &[u8]) -> (Split<'_>, Nature) {
        let mut pairs = Vec::new();
        let nature = split(text, &mut pairs);
        let pairs = pairs
            .iter()
            .map(|pair| (pair.name(text), pair.value(text)))
            .collect();
        (pairs, nature)
    }

    proptest! {
        #[test]
        fn as_a_plain_split(text in prop::collection::vec(
            prop_oneof![0_u8..4, Just(b'a'), Just(b'"'), Just(0x80), any::<u8>()], 0..60
        )) {
            let (pairs, nature) = found(&text);
            prop_assert_eq!(&pairs, &properties::iterate(&text).collect::<Vec<_>>());
            prop_assert_eq!(nature.is_ascii, text.is_ascii());
            let is_plain = |byte: &u8| (0x20..0x80).contains(byte) && !b"\"\\".contains(byte);
            let has_odd = |(name, value): &(&[u8], &[u8])| {
                !name.iter().chain(*value).all(is_plain)
            };
            // Text that belongs to no pair may be called odd as well.
            prop_assert!(!(nature.is_plain && pairs.iter().any(has_odd)));
        }
    }

    #[test]
    fn usual_text_is_plain() {
        let (pairs, nature) = found(b"UNIQ_KEY\x0100AA\x02TAGS\x01a b~\x7f\x02");
        assert_eq!(pairs.len(), 2);
        assert!(nature.is_ascii && nature.is_plain);
        for odd in [
            &b"a\x01b\x01"[..],
            b"a\x01\"",
            b"a\x01\\",
            b"a\x01\n",
            b"a\x01\0",
        ] {
            assert!(!found(odd).1.is_plain, "{odd:?}");
        }
    }
}
