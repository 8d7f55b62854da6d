//! Splits properties into pairs, and classifies their bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use mq_format::properties::{self, NAME_END, PAIR_END};

/// Most pairs whose names are compared with each other.
const COMPARED_MAX: usize = 24;

/// Positions of a name and its value in the properties text, which is shorter than 32 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    name: (u16, u16),
    value: (u16, u16),
}

impl Pair {
    /// The name; `text` is the text that was split.
    #[inline]
    pub(super) fn name<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[usize::from(self.name.0)..usize::from(self.name.1)]
    }

    /// The value.
    #[inline]
    pub(super) fn value<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.value_place()]
    }

    /// Position of the value.
    #[inline]
    pub(super) fn value_place(&self) -> Range<usize> {
        usize::from(self.value.0)..usize::from(self.value.1)
    }
}

/// Kinds of bytes in a properties text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nature {
    /// All bytes are below 0x80.
    pub(super) is_ascii: bool,
    /// All bytes are ASCII, and no name or value needs JSON escapes.
    pub(super) is_plain: bool,
}

impl Nature {
    /// ASCII without escapes.
    pub(super) const PLAIN: Self = Self {
        is_ascii: true,
        is_plain: true,
    };
}

/// Appends the pairs with a name and a value, in text order, like `properties::iterate`.
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

/// Whether JSON must escape a byte. Checks all bytes without an early exit, so the loop vectorizes.
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

/// Whether a name occurs twice; also true for more pairs than are worth comparing.
#[inline]
pub(super) fn has_twin(text: &[u8], pairs: &[Pair]) -> bool {
    let is_seen = |(at, pair): (usize, &Pair)| {
        let name = pair.name(text);
        pairs[..at].iter().any(|seen| seen.name(text) == name)
    };
    pairs.len() > COMPARED_MAX || pairs.iter().enumerate().any(is_seen)
}

/// The pairs as text, each name once, with the position of the first and the value of the last.
/// Invalid UTF-8 becomes U+FFFD, which may make different names equal.
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
        fn split_agrees_with_the_iterator_of_properties(text in prop::collection::vec(
            prop_oneof![0_u8..4, Just(b'a'), Just(b'"'), Just(0x80), any::<u8>()], 0..60
        )) {
            let (pairs, nature) = found(&text);
            prop_assert_eq!(&pairs, &properties::iterate(&text).collect::<Vec<_>>());
            prop_assert_eq!(nature.is_ascii, text.is_ascii());
            let is_plain = |byte: &u8| (0x20..0x80).contains(byte) && !b"\"\\".contains(byte);
            let has_odd = |(name, value): &(&[u8], &[u8])| {
                !name.iter().chain(*value).all(is_plain)
            };
            // Odd bytes outside of a pair may count, too.
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
