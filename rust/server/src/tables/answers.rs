//! Reply bodies that Python published; the least recently used are evicted first.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::ANSWER_BYTES_MAX;
use crate::tables::table::{Change, StaleVersion};

/// Bodies by key ("105|std|TopicTest", "38|group"), at most `ANSWER_BYTES_MAX` together.
#[derive(Debug)]
pub struct Answers {
    state: Mutex<State>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    version: Option<i64>,
    bodies: HashMap<Arc<str>, Entry>,
    bytes: usize,
    /// Incremented at every use; the entry with the smallest value is the oldest.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    body: Arc<[u8]>,
    used: u64,
}

impl Default for Answers {
    fn default() -> Self {
        Self::with_limit(ANSWER_BYTES_MAX)
    }
}

impl Answers {
    /// Creates a cache of at most `bytes_max` bytes of keys and bodies.
    pub fn with_limit(bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            bytes_max,
        }
    }

    /// Applies all changes at once, as [`crate::tables::table::Table::publish`] does.
    pub fn publish(
        &self,
        version: i64,
        changes: Vec<Change<Vec<u8>>>,
        replace: bool,
    ) -> Result<(), StaleVersion> {
        let mut state = self.state.lock();
        if let Some(current) = state.version.filter(|current| version <= *current) {
            return Err(StaleVersion {
                offered: version,
                current,
            });
        }
        state.version = Some(version);
        if replace {
            state.bodies.clear();
            state.bytes = 0;
        }
        for (key, body) in changes {
            state.remove(&key);
            if let Some(body) = body {
                state.insert(&key, &body);
            }
        }
        if state.bytes > self.bytes_max {
            state.evict(self.bytes_max);
        }
        Ok(())
    }

    /// Returns the body published under `key`.
    pub fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        let mut state = self.state.lock();
        state.clock += 1;
        let now = state.clock;
        let entry = state.bodies.get_mut(key)?;
        entry.used = now;
        Some(Arc::clone(&entry.body))
    }
}

impl State {
    fn insert(&mut self, key: &str, body: &[u8]) {
        self.clock += 1;
        self.bytes += key.len() + body.len();
        self.bodies.insert(
            key.into(),
            Entry {
                body: body.into(),
                used: self.clock,
            },
        );
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.bodies.remove(key) {
            self.bytes -= key.len() + entry.body.len();
        }
    }

    /// Frees an eighth more than needed, so that one sort serves many insertions.
    fn evict(&mut self, bytes_max: usize) {
        let mut by_age: Vec<_> = self
            .bodies
            .iter()
            .map(|(key, entry)| (entry.used, Arc::clone(key)))
            .collect();
        by_age.sort_unstable();
        for (_, key) in by_age {
            if self.bytes <= bytes_max - bytes_max / 8 {
                break;
            }
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_the_least_recently_used_first() {
        let answers = Answers::with_limit(100);
        let body = |byte: u8| Some(vec![byte; 30]);
        answers
            .publish(1, vec![("a".into(), body(1)), ("b".into(), body(2))], false)
            .unwrap();
        assert!(answers.get("a").is_some());
        answers
            .publish(2, vec![("c".into(), body(3)), ("d".into(), body(4))], false)
            .unwrap();
        assert!(answers.get("b").is_none());
        assert_eq!(answers.get("d").as_deref(), Some(&[4u8; 30][..]));
        answers.publish(3, vec![("d".into(), None)], false).unwrap();
        assert!(answers.get("d").is_none());
        assert!(answers.publish(3, Vec::new(), false).is_err());
    }
}
