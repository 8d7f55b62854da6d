//! Notes which transactions have ended, so that none ends twice.
//!
//! The number of a transaction is the queue offset of its first half message. A check stores the
//! half message again. Such a copy keeps the number in `prepared_transaction_offset`, as its
//! complement: the field always exists, and a real offset is never negative.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use mq_format::message::RecordView;

/// Transactions per chunk.
const CHUNK: i64 = 1 << 15;
const WORDS: usize = 1 << 9;
/// Most chunks in memory, 8 KiB each: 33 million transactions.
const CHUNKS_MAX: usize = 1 << 10;

/// The number of a half message's transaction.
pub fn number_of(half: &RecordView<'_>) -> i64 {
    match half.prepared_transaction_offset {
        kept if kept < 0 => !kept,
        _ => half.queue_offset,
    }
}

/// The result of ending a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// This is the first end; it is noted.
    First,
    /// The transaction had ended in the same way.
    Repeated,
    /// The transaction had ended in the other way.
    Contrary,
    /// The transaction is older than the table. Check the log, and call again with the result.
    Unknown,
}

/// Ended transactions, in memory. Complete for numbers from `known_from` on.
#[derive(Debug)]
pub struct Transactions(Mutex<Table>);

#[derive(Debug)]
struct Table {
    known_from: i64,
    chunks: BTreeMap<i64, Box<Chunk>>,
}

/// One bit per transaction. If both bits are set, the transaction ended, and we do not know how.
#[derive(Debug)]
struct Chunk {
    committed: [u64; WORDS],
    rolled_back: [u64; WORDS],
}

impl Transactions {
    /// A table that is complete from this number on.
    pub(crate) fn from(number: i64) -> Self {
        Self(Mutex::new(Table {
            known_from: number,
            chunks: BTreeMap::new(),
        }))
    }

    /// Ends a transaction that has not ended. `is_open` means that the log was checked and has no
    /// end.
    pub fn end(&self, number: i64, commits: bool, is_open: bool) -> Ending {
        let mut table = self.0.lock();
        let [committed, rolled_back] = table.bits(number);
        let (same, other) = match commits {
            true => (committed, rolled_back),
            false => (rolled_back, committed),
        };
        match (same, other) {
            (true, _) => Ending::Repeated,
            (false, true) => Ending::Contrary,
            _ if number < table.known_from && !is_open => Ending::Unknown,
            _ => {
                table.set(number, [commits, !commits]);
                Ending::First
            }
        }
    }

    /// Undoes an end that could not be stored.
    pub fn reopen(&self, number: i64) {
        let mut table = self.0.lock();
        let (chunk, word, bit) = place(number);
        if let Some(chunk) = table.chunks.get_mut(&chunk) {
            chunk.committed[word] &= !bit;
            chunk.rolled_back[word] &= !bit;
        }
    }

    /// Notes that a transaction has ended in an unknown way.
    pub fn note_ended(&self, number: i64) {
        self.0.lock().set(number, [true, true]);
    }

    /// Whether a transaction is known to have ended.
    pub fn is_ended(&self, number: i64) -> bool {
        self.0.lock().bits(number) != [false, false]
    }

    /// Declares that all ended transactions from this number on were noted.
    pub fn know_from(&self, number: i64) {
        let mut table = self.0.lock();
        table.known_from = table.known_from.min(number);
        table.drop_oldest();
    }
}

impl Table {
    fn bits(&self, number: i64) -> [bool; 2] {
        let (chunk, word, bit) = place(number);
        let found = self.chunks.get(&chunk);
        found.map_or([false, false], |chunk| {
            [chunk.committed, chunk.rolled_back].map(|bits| bits[word] & bit != 0)
        })
    }

    fn set(&mut self, number: i64, [commits, rolls_back]: [bool; 2]) {
        let (at, word, bit) = place(number);
        let empty = || {
            Box::new(Chunk {
                committed: [0; WORDS],
                rolled_back: [0; WORDS],
            })
        };
        let chunk = self.chunks.entry(at).or_insert_with(empty);
        if commits {
            chunk.committed[word] |= bit;
        }
        if rolls_back {
            chunk.rolled_back[word] |= bit;
        }
        self.drop_oldest();
    }

    fn drop_oldest(&mut self) {
        while self.chunks.len() > CHUNKS_MAX
            && let Some((chunk, _)) = self.chunks.pop_first()
        {
            self.known_from = self.known_from.max((chunk + 1) * CHUNK);
        }
    }
}

fn place(number: i64) -> (i64, usize, u64) {
    let within = number.rem_euclid(CHUNK).unsigned_abs();
    let word = usize::try_from(within / 64).unwrap_or(0);
    (number.div_euclid(CHUNK), word, 1 << (within % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_ends_once() {
        let transactions = Transactions::from(10);
        assert_eq!(transactions.end(10, true, false), Ending::First);
        assert_eq!(transactions.end(10, true, false), Ending::Repeated);
        assert_eq!(transactions.end(10, false, false), Ending::Contrary);
        assert_eq!(transactions.end(11, false, false), Ending::First);
        assert_eq!(transactions.end(11, true, false), Ending::Contrary);
        transactions.reopen(11);
        assert!(!transactions.is_ended(11) && transactions.is_ended(10));
        assert_eq!(transactions.end(11, true, false), Ending::First);
    }

    #[test]
    fn the_end_of_an_old_transaction_needs_a_look_at_the_log() {
        let transactions = Transactions::from(10);
        assert_eq!(transactions.end(9, true, false), Ending::Unknown);
        assert_eq!(transactions.end(9, true, true), Ending::First);
        assert_eq!(transactions.end(9, true, false), Ending::Repeated);
        transactions.note_ended(7);
        transactions.know_from(5);
        assert_eq!(transactions.end(7, true, false), Ending::Repeated);
        assert_eq!(transactions.end(7, false, false), Ending::Repeated);
        assert_eq!(transactions.end(5, true, false), Ending::First);
        assert_eq!(transactions.end(4, true, false), Ending::Unknown);
    }

    #[test]
    fn the_table_is_bounded() {
        let transactions = Transactions::from(0);
        let chunks = CHUNKS_MAX as i64 + 3;
        for chunk in 0..chunks {
            let number = chunk * CHUNK + chunk;
            assert_eq!(transactions.end(number, true, false), Ending::First);
        }
        assert_eq!(transactions.0.lock().chunks.len(), CHUNKS_MAX);
        assert_eq!(
            transactions.end(2 * CHUNK + 2, true, false),
            Ending::Unknown
        );
        assert_eq!(
            transactions.end(3 * CHUNK + 3, true, false),
            Ending::Repeated
        );
    }
}
