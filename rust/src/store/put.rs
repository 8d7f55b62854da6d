//! A put from the request to its answer: append, tell the followers, decide what is waited for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::append::Appender;
use super::delay::Delivery;
use super::flush::{Flusher, Written};
use super::types::{AckOutcome, Put, PutRequest, PutResult, PutStatus, Ticket};
use crate::clock::Clock;
use crate::log::Files;

/// The way in.
pub(crate) struct Puts<F: Files> {
    pub(crate) appender: Appender<F>,
    pub(crate) flusher: Arc<Flusher<F>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// `syncFlushTimeout` if acknowledgements wait for the flush.
    pub(crate) sync_flush_timeout_ms: Option<i64>,
    /// Puts that were refused.
    pub(crate) failures: AtomicU64,
}

impl<F: Files> Puts<F> {
    /// See [`crate::store::Store::put`].
    pub(crate) fn one(&self, request: &PutRequest<'_>) -> Put {
        self.finish(self.appender.put_one(request), request.wait_store_ok)
    }

    /// See [`crate::store::Store::put_batch`].
    pub(crate) fn batch(&self, request: &PutRequest<'_>) -> Put {
        self.finish(self.appender.put_batch(request), request.wait_store_ok)
    }

    /// Blocks until the put is as durable as configured.
    pub(crate) fn wait(&self, put: Put) -> PutResult {
        match put {
            Put::Done(result) => result,
            Put::Parked(result, ticket) => {
                let status = match self.flusher.wait(&ticket) {
                    AckOutcome::Durable => result.status,
                    AckOutcome::FlushTimeout => return late(result),
                    AckOutcome::Poisoned => PutStatus::ServiceNotAvailable,
                };
                PutResult { status, ..result }
            }
        }
    }

    fn finish(&self, result: PutResult, wait_store_ok: bool) -> Put {
        if result.status != PutStatus::Ok {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Put::Done(result);
        }
        let flusher = &self.flusher;
        match self.sync_flush_timeout_ms {
            None => {
                flusher.appended.ring();
                Put::Done(result)
            }
            Some(timeout_ms) if wait_store_ok => {
                // Without room it waits for the flush as the others do.
                if flusher.log.is_much_unwritten() && flusher.write_out() == Written::Failed {
                    return self.refused();
                }
                let ticket = Ticket {
                    end_offset: result.physical_offset + i64::from(result.size_bytes),
                    deadline_ms: self.clock.monotonic_ms() + timeout_ms,
                };
                Put::Parked(result, ticket)
            }
            Some(_) => {
                // Acknowledged now: it must not be lost if only the process ends.
                match flusher.write_out() {
                    Written::All => flusher.acks.want_flush(),
                    // It has its place, and is written when there is room.
                    Written::NoRoom => return Put::Done(late(result)),
                    Written::Failed => return self.refused(),
                }
                Put::Done(result)
            }
        }
    }

    fn refused(&self) -> Put {
        self.failures.fetch_add(1, Ordering::Relaxed);
        Put::Done(PutResult::refused(PutStatus::ServiceNotAvailable))
    }
}

/// Stored, but not as durable as configured.
fn late(result: PutResult) -> PutResult {
    PutResult {
        status: PutStatus::FlushDiskTimeout,
        ..result
    }
}

/// What delay delivery reads and writes.
pub(crate) struct Redelivery<F: Files>(pub(crate) Arc<Puts<F>>);

impl<F: Files> Delivery for Redelivery<F> {
    fn read(&self, physical_offset: i64, out: &mut [u8]) -> io::Result<usize> {
        let log = &self.0.flusher.log;
        log.read_at(physical_offset.cast_unsigned(), out)
    }

    fn put(&self, request: &PutRequest<'_>) -> PutResult {
        match self.0.one(request) {
            Put::Done(result) | Put::Parked(result, _) => result,
        }
    }
}
