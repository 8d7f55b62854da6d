//! Memory of headers that were read, kept by their thread for those it reads next: an ordinary
//! request takes none anew.

use std::borrow::Cow;
use std::cell::RefCell;
use std::mem;
use std::ops::Deref;

use super::fields::Entry;

/// Most headers have fewer fields than this: room for them without growing.
const USUAL_FIELDS: usize = 16;
/// Of either kind, for a thread. One header is read at a time, few are kept beside it.
const KEPT_MAX: usize = 4;
/// Bytes of a text, fields of a list: the memory of larger ones is given back.
const TEXT_BYTES_MAX: usize = 4096;
const FIELDS_MAX: usize = 64;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare::none()) };
}

struct Spare {
    lists: Vec<Vec<Entry<'static>>>,
    texts: Vec<String>,
}

/// Names and values of a header, which leave their memory behind.
#[derive(Debug, Clone, Default)]
pub(super) struct List<'a>(Vec<Entry<'a>>);

impl<'a> List<'a> {
    /// An empty one with room for a usual header.
    pub(super) fn with_room() -> Self {
        let kept = SPARE.with_borrow_mut(|spare| spare.lists.pop());
        Self(kept.unwrap_or_else(|| Vec::with_capacity(USUAL_FIELDS)))
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry<'a>) {
        self.0.push(entry);
    }
}

impl<'a> Deref for List<'a> {
    type Target = [Entry<'a>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> FromIterator<Entry<'a>> for List<'a> {
    fn from_iter<I: IntoIterator<Item = Entry<'a>>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        let list = mem::take(&mut self.0);
        if list.capacity() > 0 {
            // A thread that ends has no such place any more.
            let _ = SPARE.try_with(|spare| spare.borrow_mut().keep(list));
        }
    }
}

impl Spare {
    const fn none() -> Self {
        Self {
            lists: Vec::new(),
            texts: Vec::new(),
        }
    }

    fn keep(&mut self, mut list: Vec<Entry<'_>>) {
        for text in list.drain(..).flat_map(|(name, value)| [name, value]) {
            if let Cow::Owned(text) = text
                && self.texts.len() < KEPT_MAX
                && text.capacity() <= TEXT_BYTES_MAX
            {
                self.texts.push(text);
            }
        }
        if self.lists.len() < KEPT_MAX && list.capacity() <= FIELDS_MAX {
            // The same memory, for entries that borrow from another frame: there are none now.
            let emptied = list.into_iter().map(|_| (Cow::default(), Cow::default()));
            self.lists.push(emptied.collect());
        }
    }
}

/// An empty text with room for so many bytes.
pub(super) fn text(bytes: usize) -> String {
    let mut text = SPARE
        .with_borrow_mut(|spare| spare.texts.pop())
        .unwrap_or_default();
    text.clear();
    text.reserve(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_header_has_the_memory_of_the_one_before() {
        let first = {
            let mut list = List::with_room();
            let mut value = text(100);
            value.push_str("a\u{1}b");
            list.push(("name".into(), value.into()));
            (list.as_ptr().addr(), list[0].1.as_ptr().addr())
        };
        let mut list = List::with_room();
        assert!(list.is_empty());
        let value = text(50);
        assert_eq!((list.as_ptr().addr(), value.as_ptr().addr()), first);
        assert_eq!((value.as_str(), list.0.capacity()), ("", USUAL_FIELDS));
        list.push(("name".into(), value.into()));
    }

    #[test]
    fn large_ones_and_many_of_them_are_given_back() {
        let large: List<'_> = (0..=FIELDS_MAX)
            .map(|_| (Cow::from("name"), Cow::from("x".repeat(TEXT_BYTES_MAX + 1))))
            .collect();
        drop(large);
        let many: Vec<_> = (0..KEPT_MAX + 1).map(|_| List::with_room()).collect();
        drop(many);
        SPARE.with_borrow(|spare| {
            assert_eq!((spare.lists.len(), spare.texts.len()), (KEPT_MAX, 0));
        });
    }
}
