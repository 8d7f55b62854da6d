//! Requests that the server sends to clients: their replies, on their way to Python.
//!
//! No thread waits for one client: Python takes the replies of all clients from one queue.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::bounded_queue::{BoundedQueue, Popped};
use crate::limits::{CLIENT_REPLIES_MAX, CLIENT_REPLY_BYTES_ALL, CLIENT_REPLY_BYTES_MAX};
use mq_base::clock::Clock;

/// The connection of an item that only wakes the reader; connections are numbered from 1.
const NO_CONNECTION: u64 = 0;

/// Why a request was not sent to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAsked {
    /// Its connection is closed.
    Gone,
    /// It has not read earlier replies, or has not answered earlier requests.
    Full,
}

/// Result of a request to a client.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientReply {
    /// The client's connection.
    pub connection: u64,
    /// The opaque of the request.
    pub opaque: i32,
    /// The reply's frame; None if the connection closed, or if the reply is too large.
    pub frame: Option<Vec<u8>>,
}

/// The replies that Python has not taken yet.
pub struct ClientReplies {
    queue: BoundedQueue<ClientReply>,
    bytes: AtomicUsize,
}

impl ClientReplies {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            queue: BoundedQueue::new(CLIENT_REPLIES_MAX, clock),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Keeps a copy of a reply. Keeps no bytes if it is too large or too many bytes are waiting.
    pub(crate) fn push(&self, connection: u64, opaque: i32, frame: &[u8]) {
        let bytes = self.bytes.load(Ordering::Relaxed) + frame.len();
        let fits = frame.len() <= CLIENT_REPLY_BYTES_MAX && bytes <= CLIENT_REPLY_BYTES_ALL;
        self.add(connection, opaque, fits.then(|| frame.to_vec()));
    }

    /// Records that the connection closed and these requests get no reply.
    pub(crate) fn closed(&self, connection: u64, opaques: HashSet<i32>) {
        for opaque in opaques {
            self.add(connection, opaque, None);
        }
    }

    /// Waits for the next reply of any client.
    pub fn pop(&self, timeout: Duration) -> Popped<ClientReply> {
        let popped = self.queue.pop(timeout);
        if let Popped::Item(reply) = &popped {
            self.bytes.fetch_sub(reply.bytes(), Ordering::Relaxed);
        }
        popped
    }

    /// Ends the wait of a reader with an item for which `is_wake` holds.
    pub fn wake(&self) {
        self.add(NO_CONNECTION, 0, None);
    }

    /// Ends every wait in `pop`.
    pub(crate) fn close(&self) {
        drop(self.queue.close());
    }

    fn add(&self, connection: u64, opaque: i32, frame: Option<Vec<u8>>) {
        let reply = ClientReply {
            connection,
            opaque,
            frame,
        };
        let bytes = reply.bytes();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // If the queue is full, Python gives up on this request at its deadline.
        if self.queue.push(reply).is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl ClientReply {
    /// Whether this is no reply, but ends the wait of a reader (`ClientReplies::wake`).
    pub fn is_wake(&self) -> bool {
        self.connection == NO_CONNECTION
    }

    fn bytes(&self) -> usize {
        self.frame.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_base::clock::SystemClock;

    #[test]
    fn a_wake_ends_a_wait_and_is_no_reply() {
        let replies = ClientReplies::new(SystemClock::shared());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| replies.pop(Duration::from_secs(3_600)));
            replies.wake();
            let Popped::Item(item) = reader.join().unwrap() else {
                panic!("the reader was not woken");
            };
            assert!(item.is_wake());
        });
        replies.push(1, 1, b"reply");
        let Popped::Item(reply) = replies.pop(Duration::ZERO) else {
            panic!("there is a reply");
        };
        assert!(!reply.is_wake());
    }

    #[test]
    fn replies_have_a_size_each_and_all_together() {
        let replies = ClientReplies::new(SystemClock::shared());
        let next = || match replies.pop(Duration::from_millis(1)) {
            Popped::Item(reply) => reply.frame.map(|frame| frame.len()),
            other => panic!("{other:?}"),
        };
        replies.push(1, 1, &vec![0; CLIENT_REPLY_BYTES_MAX + 1]);
        assert_eq!(next(), None, "too large");
        let count = CLIENT_REPLY_BYTES_ALL / CLIENT_REPLY_BYTES_MAX;
        for _ in 0..=count {
            replies.push(1, 1, &vec![0; CLIENT_REPLY_BYTES_MAX]);
        }
        for _ in 0..count {
            assert_eq!(next(), Some(CLIENT_REPLY_BYTES_MAX));
        }
        assert_eq!(next(), None, "too many bytes");
        replies.closed(2, HashSet::from([7]));
        assert_eq!(next(), None);
        assert_eq!(replies.bytes.load(Ordering::Relaxed), 0);
    }
}
