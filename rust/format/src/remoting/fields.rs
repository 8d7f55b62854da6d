//! The named fields of a header.

use std::borrow::Cow;

use super::binary::Texts;
use super::decimal::push_decimal;

/// Name and value, borrowed from the frame unless the text has escapes.
pub type Entry<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Most headers have fewer fields, so a list of this capacity does not grow.
const USUAL_FIELDS: usize = 16;

/// RocketMQ's `extFields`, in wire order. If a name is repeated, the last one counts.
#[derive(Debug, Clone, Default)]
pub struct ExtFields<'a> {
    named: Named<'a>,
    /// False if the header has no such map; the writer then omits it.
    present: bool,
    /// The binary header cannot distinguish "" from null, and RocketMQ reads null.
    empty_is_null: bool,
}

/// Names and values.
#[derive(Debug, Clone)]
enum Named<'a> {
    Listed(Vec<Entry<'a>>),
    /// The fields of a binary header, searched in place so that no list is allocated.
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
    /// Creates fields without a map.
    pub fn absent() -> Self {
        Self::default()
    }

    /// Creates an empty map.
    pub(super) fn empty(empty_is_null: bool) -> Self {
        Self {
            named: Named::Listed(Vec::with_capacity(USUAL_FIELDS)),
            present: true,
            empty_is_null,
        }
    }

    /// Wraps the fields of a binary header.
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

    /// Number of entries added with `push`.
    #[inline]
    pub(super) fn listed(&self) -> usize {
        match &self.named {
            Named::Listed(entries) => entries.len(),
            Named::Wire(_) => 0,
        }
    }

    /// Returns the value of `name`; None if it is missing or null.
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

    /// Iterates over all non-null entries in wire order; the last one counts if a name repeats.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries()
            .filter(move |(_, value)| !self.is_null(value))
    }

    /// Returns every entry as received, including null and repeated ones.
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

    /// Returns the entries to write, None if the map is absent.
    pub(super) fn written(&self) -> Option<Entries<'_>> {
        self.present.then(|| self.entries())
    }

    #[inline]
    fn is_null(&self, value: &str) -> bool {
        self.empty_is_null && value.is_empty()
    }
}

/// Iterates over all entries.
#[derive(Debug, Clone)]
pub enum Entries<'s> {
    /// Entries of a list.
    Listed(std::slice::Iter<'s, Entry<'s>>),
    /// Entries of a binary header.
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

/// A field to write; numbers need no string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// Written as it is.
    Text(&'a str),
    /// Written in decimal.
    Number(i64),
}

impl FieldValue<'_> {
    /// Appends the value without quotes or escapes.
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
