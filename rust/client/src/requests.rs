//! Encoded requests, each with its waiter.

use super::waiters::Waiter;

/// Encoded requests, each with its waiter.
#[derive(Default)]
pub(super) struct Requests {
    pub entries: Vec<Entry>,
    pub bytes: Vec<u8>,
}

/// One request among `Requests::bytes`.
pub(super) struct Entry {
    pub opaque: i32,
    pub waiter: Waiter,
    pub oneway: bool,
    /// End of the request's bytes; they start at the end of the previous entry.
    pub end: usize,
}

impl Requests {
    /// Keeps the requests for which `alive` is true. A batch that waited for its connection may
    /// hold requests that have expired.
    pub fn retain(self, mut alive: impl FnMut(&Entry) -> bool) -> Self {
        let mut kept = Self::default();
        let mut start = 0;
        for mut entry in self.entries {
            let bytes = &self.bytes[start..entry.end];
            start = entry.end;
            if alive(&entry) {
                kept.bytes.extend_from_slice(bytes);
                entry.end = kept.bytes.len();
                kept.entries.push(entry);
            }
        }
        kept
    }
}
