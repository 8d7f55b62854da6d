//! Replies that wait until their message is as durable as configured, by token.
//!
//! A send is parked in the store with a token, and its reply is kept here. When the store reports
//! settled tokens, their replies are taken out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::clients::peers::Peer;
use crate::limits::PENDING_ACKS_MAX;
use crate::tables::broker_row::BrokerRow;
use mq_format::remoting::ReplyTo;
use mq_store::{AckOutcome, PutResult, Settled, Store, Ticket};

/// Number of replies for which memory is kept after a burst.
const SPARE_SLOTS_MAX: usize = 1_024;

/// A reply whose message is stored, but not yet as durable as configured.
pub(crate) struct PendingReply {
    pub peer: Arc<Peer>,
    pub to: ReplyTo,
    pub request: PendingRequest,
}

/// The request that gets the reply.
pub(crate) enum PendingRequest {
    /// A send.
    Send {
        broker: Arc<BrokerRow>,
        /// The queue of the message.
        queue_id: i32,
        result: PutResult,
    },
    /// The end of a transaction, which succeeds even if its op message is not durable.
    EndTransaction { remark: Option<&'static str> },
}

/// The pending replies of one server.
pub(crate) struct PendingAcks<R> {
    slots: Mutex<Slots<R>>,
    count: AtomicUsize,
    lost: AtomicU64,
}

/// The lower half of a token is a slot, the upper half a serial number. So a stale token finds no
/// reply, instead of the reply to another send.
struct Slots<R> {
    taken: Vec<Option<(u64, R)>>,
    free: Vec<u32>,
    last_serial: u32,
}

impl<R> Default for PendingAcks<R> {
    fn default() -> Self {
        let slots = Slots {
            taken: Vec::new(),
            free: Vec::new(),
            last_serial: 0,
        };
        Self {
            slots: Mutex::new(slots),
            count: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }
}

impl<R> PendingAcks<R> {
    /// Whether too many sends wait for a flush to store another. Sends that are stored at the same
    /// time may exceed the limit by one per worker.
    pub(crate) fn is_full(&self) -> bool {
        self.count() >= PENDING_ACKS_MAX
    }

    /// Number of waiting replies.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Keeps a reply until its ticket is settled. Returns it with the outcome if the ticket is
    /// settled already.
    pub(crate) fn park(&self, store: &Store, ticket: Ticket, reply: R) -> Option<(R, AckOutcome)> {
        // The reply is added first, because another thread may settle the ticket before `park`
        // returns.
        let token = self.add(reply);
        let outcome = store.park(ticket, token)?;
        let reply = self.slots.lock().take(token)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some((reply, outcome))
    }

    pub(crate) fn add(&self, reply: R) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.slots.lock().add(reply)
    }

    /// Number of replies that were lost to panics.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Adds to the number of replies that were lost to panics.
    pub(crate) fn note_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Removes and returns the replies to settled tokens.
    pub(crate) fn take(&self, settled: &[Settled]) -> Vec<(R, AckOutcome)> {
        let mut slots = self.slots.lock();
        let reply = |settled: &Settled| Some((slots.take(settled.token)?, settled.outcome));
        let replies: Vec<_> = settled.iter().filter_map(reply).collect();
        self.count.fetch_sub(replies.len(), Ordering::Relaxed);
        replies
    }
}

impl<R> Slots<R> {
    fn add(&mut self, reply: R) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.taken.push(None);
            // The limit is far below 2^32.
            u32::try_from(self.taken.len() - 1).unwrap_or(u32::MAX)
        });
        self.last_serial = self.last_serial.wrapping_add(1);
        let token = u64::from(self.last_serial) << 32 | u64::from(slot);
        self.taken[slot as usize] = Some((token, reply));
        token
    }

    fn take(&mut self, token: u64) -> Option<R> {
        let slot = token as u32;
        let reply = self.taken.get_mut(slot as usize)?;
        let (_, reply) = reply.take_if(|(of, _)| *of == token)?;
        self.free.push(slot);
        if self.free.len() == self.taken.len() && self.taken.len() > SPARE_SLOTS_MAX {
            (self.taken, self.free) = (Vec::new(), Vec::new());
        }
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_tokens_find_no_reply_and_a_burst_frees_its_memory() {
        let pending = PendingAcks::default();
        let settled = |tokens: &[u64]| -> Vec<_> {
            let outcome = AckOutcome::Durable;
            let settled = |token: &u64| Settled {
                token: *token,
                outcome,
            };
            tokens.iter().map(settled).collect()
        };
        let add = |letter: u8| pending.add(letter);
        let first = add(b'a');
        assert_eq!(pending.take(&settled(&[first])).len(), 1);
        let second = add(b'b');
        assert_eq!(
            pending.take(&settled(&[first])).len(),
            0,
            "its slot is another's"
        );
        let tokens: Vec<_> = (1..PENDING_ACKS_MAX).map(|_| add(b'c')).collect();
        assert!(pending.is_full());
        assert_eq!(pending.take(&settled(&tokens)).len(), tokens.len());
        assert_eq!((pending.count(), pending.is_full()), (1, false));
        assert_eq!(pending.take(&settled(&[second, second])).len(), 1);
        assert_eq!(pending.slots.lock().taken.capacity(), 0);
    }
}
