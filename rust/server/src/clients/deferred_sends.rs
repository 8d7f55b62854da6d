//! Keeps the sends of a connection to a topic in order while Python decides one of them.
//!
//! Native sends are stored as they are read, so they are in order. When a send goes to Python,
//! later sends of that connection and topic wait here. At most one send of the pair is in Python,
//! and its reply releases the next. A connection with many waiting sends is not read, so further
//! sends stay with the client; a refusal would lose one-way messages.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::handoff_bytes::HandoffBytes;
use crate::limits::{
    DEFERRED_BYTES_MAX, DEFERRED_BYTES_PAUSE, DEFERRED_SENDS_MAX, DEFERRED_SENDS_PAUSE,
};

/// The waiting sends of one connection.
#[derive(Debug, Default)]
pub struct DeferredSends {
    /// Number of topics with a send in Python, so that the usual case needs no lock.
    busy: AtomicU32,
    /// Whether too many sends wait to read the connection.
    is_full: AtomicBool,
    waiting: Mutex<ByTopic>,
}

#[derive(Debug, Default)]
struct ByTopic {
    by_topic: HashMap<String, VecDeque<Vec<u8>>>,
    frames: usize,
    bytes: usize,
}

impl ByTopic {
    fn is_many(&self) -> bool {
        self.frames >= DEFERRED_SENDS_PAUSE || self.bytes >= DEFERRED_BYTES_PAUSE
    }
}

/// Result for a send that may have to wait.
#[derive(Debug, PartialEq, Eq)]
pub enum SendTurn {
    /// It can be handled now: no send of its topic is in Python.
    Now,
    /// It waits.
    Later,
    /// Too many sends wait already.
    Refused,
}

impl DeferredSends {
    /// Whether any topic of this connection has a send in Python.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    /// Whether too many sends wait to read the connection.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Keeps a copy of the frame if its topic has a send in Python. `budget` counts the bytes of
    /// all connections.
    pub fn defer(&self, topic: &str, frame: &[u8], budget: &HandoffBytes) -> SendTurn {
        let mut waiting = self.waiting.lock();
        if !waiting.by_topic.contains_key(topic) {
            return SendTurn::Now;
        }
        let bytes = waiting.bytes + frame.len();
        let fits = bytes <= DEFERRED_BYTES_MAX && !budget.is_over();
        if waiting.frames >= DEFERRED_SENDS_MAX || !fits {
            return SendTurn::Refused;
        }
        waiting.frames += 1;
        waiting.bytes = bytes;
        budget.add(frame.len());
        if let Some(frames) = waiting.by_topic.get_mut(topic) {
            frames.push_back(frame.to_vec());
        }
        self.is_full.store(waiting.is_many(), Ordering::Release);
        SendTurn::Later
    }

    /// Records that a send of `topic` goes to Python.
    pub fn begin(&self, topic: &str) {
        let mut waiting = self.waiting.lock();
        if !waiting.by_topic.contains_key(topic) {
            waiting.by_topic.insert(topic.to_owned(), VecDeque::new());
            self.busy.fetch_add(1, Ordering::Release);
        }
    }

    /// Records that Python is done with a send of `topic`, and returns the next waiting one. None
    /// if there is none; then the topic has no send in Python. Calls `drained` when the connection
    /// may be read again.
    pub fn next(
        &self,
        topic: &str,
        budget: &HandoffBytes,
        drained: impl FnOnce(),
    ) -> Option<Vec<u8>> {
        let mut waiting = self.waiting.lock();
        let next = waiting.by_topic.get_mut(topic)?.pop_front();
        match &next {
            Some(frame) => {
                waiting.frames -= 1;
                waiting.bytes -= frame.len();
                budget.free(frame.len());
                if !waiting.is_many() && self.is_full.swap(false, Ordering::AcqRel) {
                    drained();
                }
            }
            None => {
                waiting.by_topic.remove(topic);
                self.busy.fetch_sub(1, Ordering::Release);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HANDOFF_BYTES_MAX;

    #[test]
    fn later_sends_of_a_busy_topic_wait_in_order() {
        let (order, budget) = (
            DeferredSends::default(),
            HandoffBytes::new(HANDOFF_BYTES_MAX),
        );
        assert_eq!(order.defer("T", b"0", &budget), SendTurn::Now);
        order.begin("T");
        assert!(order.is_busy());
        assert_eq!(order.defer("T", b"1", &budget), SendTurn::Later);
        assert_eq!(order.defer("Other", b"x", &budget), SendTurn::Now);
        assert_eq!(order.defer("T", b"2", &budget), SendTurn::Later);
        assert_eq!(order.next("T", &budget, || ()).as_deref(), Some(&b"1"[..]));
        order.begin("T");
        assert_eq!(
            order.defer("T", b"3", &budget),
            SendTurn::Later,
            "still busy"
        );
        assert_eq!(order.next("T", &budget, || ()).as_deref(), Some(&b"2"[..]));
        assert_eq!(order.next("T", &budget, || ()).as_deref(), Some(&b"3"[..]));
        assert_eq!(order.next("T", &budget, || ()), None);
        assert!(!order.is_busy());
        assert!(budget.is_empty());
    }

    #[test]
    fn the_order_is_full_until_waiting_sends_have_left() {
        let cases = [(1, DEFERRED_SENDS_PAUSE), (DEFERRED_BYTES_PAUSE / 4, 4)];
        for (frame_bytes, frames) in cases {
            let (order, budget) = (
                DeferredSends::default(),
                HandoffBytes::new(HANDOFF_BYTES_MAX),
            );
            let frame = vec![0; frame_bytes];
            order.begin("T");
            for _ in 0..frames {
                assert!(!order.is_full());
                assert_eq!(order.defer("T", &frame, &budget), SendTurn::Later);
            }
            assert!(order.is_full());
            assert_eq!(
                order.defer("T", &frame, &budget),
                SendTurn::Later,
                "already read"
            );
            let mut drained = 0;
            assert!(order.next("T", &budget, || drained += 1).is_some());
            assert_eq!((order.is_full(), drained), (true, 0));
            while order.next("T", &budget, || drained += 1).is_some() {}
            assert_eq!((order.is_full(), drained), (false, 1));
        }
    }

    #[test]
    fn refuses_what_exceeds_its_limits() {
        let (order, budget) = (
            DeferredSends::default(),
            HandoffBytes::new(HANDOFF_BYTES_MAX),
        );
        order.begin("T");
        for _ in 0..DEFERRED_SENDS_MAX {
            assert_eq!(order.defer("T", b"x", &budget), SendTurn::Later);
        }
        assert_eq!(order.defer("T", b"x", &budget), SendTurn::Refused);
        order.next("T", &budget, || ());
        assert_eq!(
            order.defer("T", &vec![0; DEFERRED_BYTES_MAX], &budget),
            SendTurn::Refused
        );
    }

    #[test]
    fn a_full_hand_off_lets_no_more_sends_wait() {
        let (order, budget) = (DeferredSends::default(), HandoffBytes::new(1));
        order.begin("T");
        assert_eq!(order.defer("T", b"xx", &budget), SendTurn::Later);
        assert_eq!(order.defer("T", b"x", &budget), SendTurn::Refused);
        order.next("T", &budget, || ());
        assert_eq!(order.defer("T", b"x", &budget), SendTurn::Later);
    }
}
