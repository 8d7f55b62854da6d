//! How far the log has come: appended >= written >= flushed.
//!
//! - Below *appended*, each byte has its place in the log. The thread with the put lock moves it.
//! - Below *written*, the bytes are in the log's files, where readers see them, and survive the end
//!   of the process. The thread that writes them moves it.
//! - Below *flushed*, the bytes are on the disk and survive the end of the machine. Only the thread
//!   whose turn it is to flush moves it.
//!
//! - Below *replicated*, as many slaves have the bytes as a put waits for ([`Replicas`]). It is
//!   below written too, but neither above nor below flushed.
//!
//! The log itself keeps the first two. No watermark moves down, except that *replicated* does when
//! a slave leaves. Code that moves a watermark other than by a flush calls `Acks::settle_reached`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::replicas::Replicas;
use crate::types::{AckOutcome, Ticket, Watermark};
use mq_log::Segments;

/// The watermarks of one log.
pub(crate) struct Watermarks {
    log: Arc<Segments>,
    flushed: AtomicU64,
    pub(crate) replicas: Replicas,
}

impl Watermarks {
    /// Everything below `flushed` is on the disk.
    pub(crate) fn new(log: Arc<Segments>, flushed: u64) -> Self {
        Self {
            log,
            flushed: AtomicU64::new(flushed),
            replicas: Replicas::default(),
        }
    }

    /// Log offset below which everything is on the disk.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Log offset that a watermark has reached.
    pub(crate) fn get(&self, watermark: Watermark) -> u64 {
        match watermark {
            Watermark::Written => self.log.max_offset(),
            Watermark::Flushed => self.flushed(),
            Watermark::Replicated => self.replicas.reached(),
            Watermark::FlushedAndReplicated => self.flushed().min(self.replicas.reached()),
        }
    }

    /// The outcome of a put whose watermark was not reached in time. Slaves that are late count
    /// before a late flush, as in RocketMQ.
    pub(crate) fn timeout(&self, ticket: &Ticket) -> AckOutcome {
        let is_replicated = self.replicas.reached().cast_signed() >= ticket.end_offset;
        match ticket.needs.needs_slaves() && !is_replicated {
            true => AckOutcome::ReplicaTimeout,
            false => AckOutcome::FlushTimeout,
        }
    }

    /// Whether a ticket waits for a flush that has not happened yet.
    pub(crate) fn need_flush(&self, ticket: &Ticket) -> bool {
        ticket.needs.needs_flush() && ticket.end_offset > self.flushed().cast_signed()
    }

    /// Whether a ticket's watermark has reached its end.
    pub(crate) fn reach(&self, ticket: &Ticket) -> bool {
        self.get(ticket.needs).cast_signed() >= ticket.end_offset
    }

    /// A flush made everything below `offset` durable. Only for the thread whose turn it is.
    pub(crate) fn advance_flushed(&self, offset: u64) {
        debug_assert!(offset <= self.log.max_offset(), "flushed before written");
        self.flushed.fetch_max(offset, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::test_rig::{FAR_MS, Rig, rig};
    use mq_base::clock::ManualClock;

    #[test]
    fn a_ticket_is_reached_by_the_watermark_that_it_names() {
        let rig = rig(ManualClock::at(1));
        let flushed = Rig::ticket(&rig.put(b"x"), FAR_MS);
        let written = Ticket {
            needs: Watermark::Written,
            ..flushed
        };
        let watermarks = &rig.flusher.acks.watermarks;
        assert!(watermarks.reach(&written) && !watermarks.reach(&flushed));
        watermarks.advance_flushed(flushed.end_offset.cast_unsigned() - 1);
        assert!(!watermarks.reach(&flushed), "one byte is missing");
        watermarks.advance_flushed(flushed.end_offset.cast_unsigned());
        assert!(watermarks.reach(&flushed));
        watermarks.advance_flushed(0);
        assert!(watermarks.reach(&flushed), "a watermark never falls");
    }
}
