//! The named fields of a header.

use std::borrow::Cow;

use super::head::push_decimal;

/// Most headers have fewer fields than this: room for them without growing.
const USUAL_FIELDS: usize = 16;

/// A name and its value, borrowed from the frame unless the text had escapes.
pub type Entry<'a> = (Cow<'a, str>, Cow<'a, str>);

/// RocketMQ's `extFields`, in the order of the wire. A repeated name counts once: the last wins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExtFields<'a> {
    entries: Vec<Entry<'a>>,
    /// False if the header has no such map at all (the writer then omits it).
    present: bool,
    /// The binary header cannot tell "" from null, and RocketMQ reads null.
    empty_is_null: bool,
}

impl<'a> ExtFields<'a> {
    /// No map at all.
    pub fn absent() -> Self {
        Self::default()
    }

    /// A map without entries yet.
    pub(super) fn empty(empty_is_null: bool) -> Self {
        Self {
            entries: Vec::with_capacity(USUAL_FIELDS),
            present: true,
            empty_is_null,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) {
        self.entries.push((name, value));
    }

    /// The value of `name`; None if it is missing or null.
    pub fn get(&self, name: &str) -> Option<&str> {
        let entry = self.entries.iter().rev().find(|(key, _)| key == name)?;
        self.value(entry)
    }

    /// Every non-null entry in wire order; of repeated names the last is the valid one.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .filter_map(|entry| self.value(entry).map(|value| (entry.0.as_ref(), value)))
    }

    /// Every entry as it came, null and repeated ones too: for who must see what was sent.
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// Whether the header had the map, even an empty one.
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// The entries as they go back on the wire, None if the map is absent.
    pub(super) fn written(&self) -> Option<&[Entry<'a>]> {
        self.present.then_some(self.entries.as_slice())
    }

    fn value<'s>(&'s self, entry: &'s Entry<'a>) -> Option<&'s str> {
        (!(self.empty_is_null && entry.1.is_empty())).then_some(entry.1.as_ref())
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for ExtFields<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let borrowed = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self {
            entries: borrowed.collect(),
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
