//! Splitting properties, and what their text is like.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use mq_format::properties::{self, NAME_END, PAIR_END};

/// Most pairs that are compared each with each.
const COMPARED_MAX: usize = 24;

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
    let (mut start, mut has_odd) = (0, false);
    for part in text.split(|byte| *byte == PAIR_END) {
        let middle = part.iter().position(|byte| *byte == NAME_END);
        if let Some(middle) = middle
            && let (name, value) = (&part[..middle], &part[middle + 1..])
            && !(name.is_empty() || value.is_empty())
        {
            has_odd |= is_odd(name) || is_odd(value);
            let (name_end, end) = (start + middle, start + part.len());
            pairs.push(Pair {
                name: (start as u16, name_end as u16),
                value: (name_end as u16 + 1, end as u16),
            });
        }
        start += part.len() + 1;
    }
    let is_ascii = text.is_ascii();
    Nature {
        is_ascii,
        is_plain: is_ascii && !has_odd,
    }
}

/// Whether JSON must escape a byte of it. All are looked at: that goes many at a time.
fn is_odd(text: &[u8]) -> bool {
    let must_escape = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    text.iter()
        .fold(false, |any, byte| any | must_escape(*byte))
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
