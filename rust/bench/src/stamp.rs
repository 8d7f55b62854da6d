//! The stamp in the body of a message of an end-to-end run: its sender, its number, and when it was
//! due.
//!
//! ```text
//! | magic 8 | run 8 | worker 4 | number 8 | due 8 |
//! ```
//! `due` is nanoseconds of the run's own monotonic clock: sender and reader are one process.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mq_format::bytes::Cursor;

/// Bytes at the start of the body.
pub(super) const STAMP_BYTES: usize = 36;
const MAGIC: &[u8; 8] = b"mqbench1";

/// The stamp of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub run: u64,
    pub worker: u32,
    pub number: u64,
    pub due: Duration,
}

impl Stamp {
    /// A number for the run, from time and process id, that most likely no other run has.
    pub fn new_run() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let ns = since.map_or(0, |since| since.as_nanos() as u64);
        ns ^ u64::from(std::process::id()).rotate_left(48)
    }

    /// Writes the stamp to the start of `body`, which is long enough.
    pub fn write(&self, body: &mut [u8]) {
        body[..8].copy_from_slice(MAGIC);
        body[8..16].copy_from_slice(&self.run.to_be_bytes());
        body[16..20].copy_from_slice(&self.worker.to_be_bytes());
        body[20..28].copy_from_slice(&self.number.to_be_bytes());
        body[28..36].copy_from_slice(&(self.due.as_nanos() as u64).to_be_bytes());
    }

    /// Reads the stamp; None if the body has none.
    pub fn read(body: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(body);
        if cursor.take(8).ok()? != MAGIC {
            return None;
        }
        Some(Self {
            run: cursor.i64().ok()?.cast_unsigned(),
            worker: cursor.u32().ok()?,
            number: cursor.i64().ok()?.cast_unsigned(),
            due: Duration::from_nanos(cursor.i64().ok()?.cast_unsigned()),
        })
    }
}

/// A set of message numbers, as bits; grows with the largest number.
#[derive(Debug, Default)]
pub(super) struct Seen {
    words: Vec<u64>,
    count: u64,
}

impl Seen {
    /// Adds a number; false if it is in the set already, or larger than any number of a run.
    pub fn add(&mut self, number: u64) -> bool {
        const NUMBERS_MAX: u64 = 1 << 33;
        if number >= NUMBERS_MAX {
            return false;
        }
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.words.len() {
            self.words.resize((word + 1).next_power_of_two(), 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// Number of messages in the set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds all numbers of another set.
    pub fn merge(&mut self, other: &Self) {
        let words = self.words.len().max(other.words.len());
        self.words.resize(words, 0);
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
        self.count = self.words.iter().map(|w| u64::from(w.count_ones())).sum();
    }

    /// Number of messages that are not in `other`.
    pub fn count_without(&self, other: &Self) -> u64 {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        let missing = self.words.iter().zip(theirs).map(|(m, t)| m & !t);
        missing.map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_stamps_are_read() {
        let stamp = Stamp {
            run: u64::MAX - 1,
            worker: 7,
            number: 1 << 40,
            due: Duration::from_nanos(123),
        };
        let mut body = [0; STAMP_BYTES + 1];
        stamp.write(&mut body);
        assert_eq!(Stamp::read(&body), Some(stamp));
        assert_eq!(Stamp::read(&body[..STAMP_BYTES - 1]), None);
        assert_eq!(Stamp::read(b"mqbenchX............................"), None);
    }

    #[test]
    fn messages_missing_in_one_set_are_counted() {
        let (mut sent, mut read, mut more) = (Seen::default(), Seen::default(), Seen::default());
        for number in 0..1000 {
            assert!(sent.add(number));
        }
        assert!(!sent.add(999) && !sent.add(u64::MAX));
        assert_eq!(sent.count_without(&read), 1000);
        for number in 0..500 {
            read.add(number);
            more.add(2 * number);
        }
        read.merge(&more);
        assert_eq!((sent.count(), read.count()), (1000, 750));
        assert_eq!(
            (sent.count_without(&read), read.count_without(&sent)),
            (250, 0)
        );
    }
}
