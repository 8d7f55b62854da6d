//! The properties text of a message: `name \x01 value \x02 name \x01 value …`.
//!
//! The last pair may or may not end in `\x02`. The first `\x01` of a pair separates name and value,
//! so values may contain `\x01`. A pair with an empty name or an empty value is ignored. If a name
//! is repeated, the last pair counts. The order has no meaning.

use std::borrow::Cow;

use memchr::memmem;

/// Separates name and value.
pub const NAME_END: u8 = 1;
/// Separates pairs.
pub const PAIR_END: u8 = 2;

/// Keys for the index, separated by spaces.
pub const KEYS: &str = "KEYS";
/// The tag.
pub const TAGS: &str = "TAGS";
/// The delay level.
pub const DELAY: &str = "DELAY";
/// Final topic of a delayed or half message.
pub const REAL_TOPIC: &str = "REAL_TOPIC";
/// Original topic of a retried message.
pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
/// Final queue of a delayed or half message.
pub const REAL_QUEUE_ID: &str = "REAL_QID";
/// Whether the acknowledgement waits for the flush; removed from most messages' text.
pub const WAIT: &str = "WAIT";
/// Additional queues of a message, see [`crate::multi_dispatch`].
pub const INNER_MULTI_DISPATCH: &str = "INNER_MULTI_DISPATCH";
/// The message's offset in each of these queues.
pub const INNER_MULTI_QUEUE_OFFSET: &str = "INNER_MULTI_QUEUE_OFFSET";
/// The client's unique message id.
pub const UNIQ_KEY: &str = "UNIQ_KEY";

/// Iterates over the valid pairs, in text order.
pub fn iterate(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|byte| *byte == PAIR_END).filter_map(|pair| {
        let split = pair.iter().position(|byte| *byte == NAME_END)?;
        let (name, value) = (&pair[..split], &pair[split + 1..]);
        (!name.is_empty() && !value.is_empty()).then_some((name, value))
    })
}

/// Returns the value of a property.
#[inline]
pub fn get<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let [value] = find(text, [name]);
    value
}

/// Returns the values of some properties, found in one pass.
#[inline]
pub fn find<'a, const N: usize>(text: &'a [u8], names: [&str; N]) -> [Option<&'a [u8]>; N] {
    let mut found = [None; N];
    let mut start = 0;
    while start < text.len() {
        let length = memchr::memchr(PAIR_END, &text[start..]);
        let pair = &text[start..length.map_or(text.len(), |length| start + length)];
        start += pair.len() + 1;
        for (value, name) in found.iter_mut().zip(names) {
            // A name contains no `\x01`, so a pair that starts with `name \x01` has this name.
            let is_named = pair.len() > name.len() + 1
                && pair[name.len()] == NAME_END
                && pair.starts_with(name.as_bytes());
            if is_named {
                *value = Some(&pair[name.len() + 1..]);
            }
        }
    }
    found
}

/// Name of a property to look up in many texts.
#[derive(Debug, Clone)]
pub struct Wanted {
    name: Box<str>,
    /// Finds the name and the separator after it.
    finder: memmem::Finder<'static>,
}

impl PartialEq for Wanted {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl From<&str> for Wanted {
    fn from(name: &str) -> Self {
        let start = [name.as_bytes(), &[NAME_END]].concat();
        Self {
            name: name.into(),
            finder: memmem::Finder::new(&start).into_owned(),
        }
    }
}

impl Wanted {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does the same as `get` for the name.
    pub fn get<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let mut found = None;
        for at in self.finder.find_iter(text) {
            // Otherwise the match is in a value, or the end of a longer name.
            let is_pair = at == 0 || text[at - 1] == PAIR_END;
            let value = &text[at + self.finder.needle().len()..];
            let length = memchr::memchr(PAIR_END, value).unwrap_or(value.len());
            if is_pair && length > 0 {
                found = Some(&value[..length]);
            }
        }
        found
    }
}

/// Returns the value of a property as text; bytes that are not UTF-8 are replaced, as Java does.
pub fn get_str<'a>(text: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    get(text, name).map(String::from_utf8_lossy)
}

/// Appends a pair.
pub fn append(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    separate(text);
    text.extend_from_slice(name.as_bytes());
    text.push(NAME_END);
    text.extend_from_slice(value);
    text.push(PAIR_END);
}

/// Returns the pairs of both texts, in pieces.
pub fn merged<'a>(text: &'a [u8], more: &'a [u8]) -> [&'a [u8]; 3] {
    let is_ended = more.is_empty() || text.last().is_none_or(|byte| *byte == PAIR_END);
    [text, if is_ended { &[] } else { &[PAIR_END] }, more]
}

/// Sets a property, replacing an earlier value.
pub fn set(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    remove(text, name);
    append(text, name, value);
}

/// Removes a property; other bytes stay unchanged.
pub fn remove(text: &mut Vec<u8>, name: &str) {
    if get(text, name).is_none() {
        return;
    }
    let mut kept = Vec::with_capacity(text.len());
    for pair in text.split_inclusive(|byte| *byte == PAIR_END) {
        let rest = pair.strip_prefix(name.as_bytes());
        if rest.is_none_or(|rest| rest.first() != Some(&NAME_END)) {
            kept.extend_from_slice(pair);
        }
    }
    *text = kept;
}

fn separate(text: &mut Vec<u8>) {
    if text.last().is_some_and(|byte| *byte != PAIR_END) {
        text.push(PAIR_END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_without_name_or_value_do_not_count() {
        let text = b"a\x01b\x02\x01x\x02c\x01\x02\x02d\x02e\x01f\x01g";
        let pairs: Vec<_> = iterate(text).collect();
        assert_eq!(pairs, [(&b"a"[..], &b"b"[..]), (&b"e"[..], &b"f\x01g"[..])]);
    }

    #[test]
    fn wanted_finds_the_same_value_as_get() {
        let texts: [&[u8]; 9] = [
            b"a\x011\x02ab\x019\x02a\x012",
            b"ba\x011\x02a\x01\x02",
            b"a\x011\x02a\x01",
            b"x\x01a\x012\x02a\x01a\x013\x02",
            b"\x02a\x011\x02",
            b"aa\x011\x02a\x01\x01\x02",
            b"a",
            b"a\x01",
            b"",
        ];
        for text in texts {
            for name in ["a", "ab", "x", "ba"] {
                assert_eq!(
                    Wanted::from(name).get(text),
                    get(text, name),
                    "{name} of {text:?}"
                );
            }
        }
    }

    #[test]
    fn the_last_value_wins_and_setting_replaces_all() {
        let mut text = b"a\x011\x02ab\x019\x02a\x012".to_vec();
        assert_eq!(get(&text, "a"), Some(&b"2"[..]));
        assert_eq!(get(&text, "b"), None);
        set(&mut text, "a", b"3");
        assert_eq!(text, b"ab\x019\x02a\x013\x02");
        remove(&mut text, "ab");
        remove(&mut text, "none");
        assert_eq!(text, b"a\x013\x02");
    }

    #[test]
    fn many_properties_are_found_in_one_pass() {
        let text = b"a\x011\x02ab\x019\x02\x02c\x01\x02a\x012\x01\x02a\x01";
        let found = find(text, ["a", "ab", "b", "c"]);
        assert_eq!(found, [Some(&b"2\x01"[..]), Some(b"9"), None, None]);
        assert_eq!(find(b"", ["a"]), [None]);
    }

    #[test]
    fn merging_inserts_the_missing_separator() {
        let whole = |text: &[u8], more: &[u8]| merged(text, more).concat();
        assert_eq!(whole(b"a\x011", b"b\x012"), b"a\x011\x02b\x012");
        assert_eq!(whole(b"a\x011\x02", b"b\x012"), b"a\x011\x02b\x012");
        assert_eq!(whole(b"a\x011\x02b\x012", b""), b"a\x011\x02b\x012");
        assert_eq!(whole(b"a\x011\x02", b""), b"a\x011\x02");
        assert_eq!(whole(b"", b"b\x012"), b"b\x012");
        assert_eq!(whole(b"", b""), b"");
    }
}
