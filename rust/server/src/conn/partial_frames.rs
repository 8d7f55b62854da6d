//! Frames that have begun and not ended: what those of all clients together may take of memory.
//!
//! Above the limit, the connections whose frame began longest ago are closed first: a client that
//! sends at the speed of a network finishes soon, and a stalled one does not. It is not enough to
//! stop reading: once all connections that share the memory are stopped, none of them can finish.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The frame that a connection is in the middle of.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// What it takes of memory; 0 between frames.
    bytes: AtomicUsize,
    began_ms: AtomicI64,
}

/// What the unfinished frames of all connections take.
#[derive(Debug, Default)]
pub(crate) struct AllUnfinished {
    bytes: AtomicUsize,
    /// Somebody is making room.
    pub(crate) making_room: Mutex<()>,
}

impl Unfinished {
    /// Monotonic time at which the frame began; None between frames.
    pub(crate) fn began_ms(&self) -> Option<i64> {
        self.is_there()
            .then(|| self.began_ms.load(Ordering::Relaxed))
    }

    /// Whether a frame has begun and not ended.
    pub(crate) fn is_there(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }

    /// A frame began.
    pub(crate) fn begin(&self, now_ms: i64) {
        self.began_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Gives the frame back time in which the server did not read.
    pub(crate) fn give_back(&self, unread_ms: i64) {
        self.began_ms.fetch_add(unread_ms, Ordering::Relaxed);
    }
}

impl AllUnfinished {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes note of what the frame of one of them takes now; how much all take.
    pub(crate) fn change(&self, frame: &Unfinished, bytes: usize) -> usize {
        let before = frame.bytes.swap(bytes, Ordering::Relaxed);
        // Wraps where it shrinks, and so subtracts.
        let change = bytes.wrapping_sub(before);
        self.bytes
            .fetch_add(change, Ordering::Relaxed)
            .wrapping_add(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_follows_every_change() {
        let all = AllUnfinished::default();
        let (one, two) = (Unfinished::default(), Unfinished::default());
        assert_eq!(one.began_ms(), None);
        assert_eq!(all.change(&one, 100), 100);
        assert_eq!(all.change(&two, 50), 150);
        assert_eq!(all.change(&one, 30), 80);
        assert_eq!(one.began_ms(), Some(0));
        one.give_back(7);
        assert_eq!(one.began_ms(), Some(7));
        assert_eq!(all.change(&one, 0), 50);
        assert_eq!(all.change(&two, 0), 0);
        assert_eq!(all.bytes(), 0);
    }
}
