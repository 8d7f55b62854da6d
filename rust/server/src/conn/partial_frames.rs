//! Frames that have begun and not ended: what those of all clients together may take of memory.
//!
//! Above the limit connections are closed, first those whose frame began longest ago: who sends at
//! the speed of a network is done soon, who stalls is not. To stop reading would not do: once all
//! that share the memory are stopped, none of them can finish.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::conn::peers::{GaveWay, Peer};
use crate::core::Core;
use crate::limits::UNFINISHED_PARTS;

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
    making_room: Mutex<()>,
}

impl Unfinished {
    /// Monotonic time at which the frame began; None between frames.
    pub(crate) fn began_ms(&self) -> Option<i64> {
        let is_there = self.bytes.load(Ordering::Relaxed) > 0;
        is_there.then(|| self.began_ms.load(Ordering::Relaxed))
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
    fn change(&self, frame: &Unfinished, bytes: usize) -> usize {
        let before = frame.bytes.swap(bytes, Ordering::Relaxed);
        // Wraps where it shrinks, and so subtracts.
        let change = bytes.wrapping_sub(before);
        self.bytes
            .fetch_add(change, Ordering::Relaxed)
            .wrapping_add(change)
    }
}

/// Takes note of what a connection's unfinished frame takes after a read; `is_new` if it began with
/// this read. Closes connections where all take too much.
pub(crate) fn note(core: &Core, peer: &Peer, bytes: usize, is_new: bool, now_ms: i64) {
    let frame = &peer.unfinished;
    if bytes == 0 && frame.bytes.load(Ordering::Relaxed) == 0 {
        return; // as most reads end
    }
    if is_new {
        frame.began_ms.store(now_ms, Ordering::Relaxed);
    }
    let all = core.peers.unfinished.change(frame, bytes);
    if all > core.settings.unfinished_bytes_max && bytes > 0 {
        make_room(core);
    }
}

/// The connection is gone, and its memory.
pub(crate) fn forget(core: &Core, peer: &Peer) {
    core.peers.unfinished.change(&peer.unfinished, 0);
}

/// Closes those who began first until there is some room, so that it is not done anew for each
/// read.
fn make_room(core: &Core) {
    let all = &core.peers.unfinished;
    let Some(_turn) = all.making_room.try_lock() else {
        return;
    };
    let limit = core.settings.unfinished_bytes_max;
    let mut peers: Vec<(i64, Arc<Peer>)> = core
        .peers
        .all()
        .into_iter()
        .filter_map(|peer| Some((peer.unfinished.began_ms()?, peer)))
        .collect();
    peers.sort_unstable_by_key(|(began_ms, _)| *began_ms);
    for (_, peer) in peers {
        if all.bytes() <= limit - limit / UNFINISHED_PARTS {
            return;
        }
        // Its memory goes as its task ends, which is next.
        all.change(&peer.unfinished, 0);
        peer.give_way(GaveWay::Frame);
        core.counters.frames_given_up.one();
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
