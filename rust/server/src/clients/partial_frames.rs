//! Limits the memory of incomplete frames of all clients together.
//!
//! Above the limit, the connections whose frame began first are closed: a client at network speed
//! finishes soon, a stalled one does not. To stop reading is not enough: when all connections that
//! share the memory are stopped, none of them can finish.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The incomplete frame of one connection.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// Memory of the frame; 0 between frames.
    bytes: AtomicUsize,
    began_ms: AtomicI64,
}

/// The incomplete frames of all connections.
#[derive(Debug, Default)]
pub(crate) struct AllUnfinished {
    bytes: AtomicUsize,
    /// Held while a thread closes connections to free memory.
    pub(crate) making_room: Mutex<()>,
}

impl Unfinished {
    /// Monotonic time at which the frame began; None between frames.
    pub(crate) fn began_ms(&self) -> Option<i64> {
        self.is_there()
            .then(|| self.began_ms.load(Ordering::Relaxed))
    }

    /// Whether there is an incomplete frame.
    pub(crate) fn is_there(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }

    /// Records that a frame began.
    pub(crate) fn begin(&self, now_ms: i64) {
        self.began_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Extends the frame's time by time in which the server did not read.
    pub(crate) fn give_back(&self, unread_ms: i64) {
        self.began_ms.fetch_add(unread_ms, Ordering::Relaxed);
    }
}

impl AllUnfinished {
    /// Memory of all incomplete frames, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records the memory that one of the frames uses now; returns the memory of all.
    pub(crate) fn change(&self, frame: &Unfinished, bytes: usize) -> usize {
        let before = frame.bytes.swap(bytes, Ordering::Relaxed);
        // If the frame shrinks, the difference wraps around, and adding it subtracts.
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
