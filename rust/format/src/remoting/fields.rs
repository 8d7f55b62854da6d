//! The named fields of a header.

use std::borrow::Cow;

use super::binary::Texts;
use super::decimal::push_decimal;

/// A name and its value, borrowed from the frame unless the text had escapes.
pub type Entry<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Most headers have fewer fields than this: room for them without growing.
const USUAL_FIELDS: usize = 16;

/// RocketMQ's `extFields`, in the order of the wire. A repeated name counts once: the last wins.
#[derive(Debug, Clone, Default)]
pub struct ExtFields<'a> {
    named: Named<'a>,
    /// False if the header has no such map at all (the writer then omits it).
    present: bool,
    /// The binary header cannot tell "" from null, and RocketMQ reads null.
    empty_is_null: bool,
}

/// Names and values.
#[derive(Debug, Clone)]
enum Named<'a> {
    Listed(Vec<Entry<'a>>),
    /// As in a binary header: who looks walks along them, so that they need no list.
    Wire(Texts<'a>),
}

impl Default for Named<'_> {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl PartialEq for ExtFields<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.present, self.empty_is_null) == (other.present, other.empty_is_null)
            && self.entries().eq(other.entries())
    }
}

impl<'a> ExtFields<'a> {
    /// No map at all.
    pub fn absent() -> Self {
        Self::default()
    }

    /// A map without entries yet.
    pub(super) fn empty(empty_is_null: bool) -> Self {
        Self {
            named: Named::Listed(Vec::with_capacity(USUAL_FIELDS)),
            present: true,
            empty_is_null,
        }
    }

    /// The fields of a binary header.
    pub(super) fn on_wire(texts: Texts<'a>) -> Self {
        Self {
            named: Named::Wire(texts),
            present: true,
            empty_is_null: true,
        }
    }

    /// Adds an entry to a map that [`Self::empty`] made.
    #[inline]
    pub(super) fn push(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) {
        if let Named::Listed(entries) = &mut self.named {
            entries.push((name, value));
        }
    }

    /// Number of entries that were pushed.
    #[inline]
    pub(super) fn listed(&self) -> usize {
        match &self.named {
            Named::Listed(entries) => entries.len(),
            Named::Wire(_) => 0,
        }
    }

    /// The value of `name`; None if it is missing or null.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = match &self.named {
            Named::Listed(entries) => {
                let entry = entries.iter().rev().find(|(key, _)| key == name)?;
                entry.1.as_ref()
            }
            Named::Wire(texts) => texts.clone().filter(|(key, _)| *key == name).last()?.1,
        };
        (!self.is_null(value)).then_some(value)
    }

    /// Every non-null entry in wire order; of repeated names the last is the valid one.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries()
            .filter(move |(_, value)| !self.is_null(value))
    }

    /// Every entry as it came, null and repeated ones too: for who must see what was sent.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        match &self.named {
            Named::Listed(entries) => Entries::Listed(entries.iter()),
            Named::Wire(texts) => Entries::Wire(texts.clone()),
        }
    }

    /// Whether the header had the map, even an empty one.
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// The entries as they go back on the wire, None if the map is absent.
    pub(super) fn written(&self) -> Option<Entries<'_>> {
        self.present.then(|| self.entries())
    }

    #[inline]
    fn is_null(&self, value: &str) -> bool {
        self.empty_is_null && value.is_empty()
    }
}

/// Goes through all entries.
#[derive(Debug, Clone)]
pub enum Entries<'s> {
    /// Of a list.
    Listed(std::slice::Iter<'s, Entry<'s>>),
    /// Of a binary header.
    Wire(Texts<'s>),
}

impl<'s> Iterator for Entries<'s> {
    type Item = (&'s str, &'s str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Listed(entries) => {
                let (name, value) = entries.next()?;
                Some((name.as_ref(), value.as_ref()))
            }
            Self::Wire(texts) => texts.next(),
        }
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for ExtFields<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let borrowed = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self {
            named: Named::Listed(borrowed.collect()),
            present: true,
            empty_is_null: false,
        }
    }
}

/// A field about to be written: numbers need no string of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// Written as it is.
    Text(&'a str),
    /// Written in decimal.
    Number(i64),
}

impl FieldValue<'_> {
    /// Appends it, without quotes or escapes.
    pub(super) fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Number(number) => push_decimal(number, out),
        }
    }
}

impl<'a> From<&'a str> for FieldValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for FieldValue<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for FieldValue<'_> {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for FieldValue<'_> {
    fn from(truth: bool) -> Self {
        Self::Text(if truth { "true" } else { "false" })
    }
}
