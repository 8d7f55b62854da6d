//! A put from the request to its result: append, wake the followers, and wait as configured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::append::Appender;
use super::flush::{Flusher, Written};
use super::replicas::Wait;
use crate::types::{Put, PutRequest, PutResult, PutStatus, Ticket, Watermark};
use mq_base::clock::Clock;

/// Longest wait of a put for a log file that a slow disk is creating, as in RocketMQ.
const FILE_PATIENCE_MS: i64 = 5_000;
/// Interval of checking the clock meanwhile, because a changed clock wakes no thread.
const LOOK: Duration = Duration::from_millis(100);

/// Appends messages and waits for their durability.
pub(crate) struct Puts {
    pub(crate) appender: Appender,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) clock: Arc<dyn Clock>,
    /// `syncFlushTimeout` if acknowledgements wait for the flush.
    pub(crate) sync_flush_timeout_ms: Option<i64>,
    /// Puts that were refused.
    pub(crate) failures: AtomicU64,
}

impl Puts {
    /// See [`crate::Store::try_put`].
    pub(crate) fn try_one(&self, request: &PutRequest<'_>) -> Option<Put> {
        let result = self.appender.put_one(request)?;
        Some(self.finish(result, request.wait_store_ok))
    }

    /// See [`crate::Store::try_put_batch`].
    pub(crate) fn try_batch(&self, request: &PutRequest<'_>) -> Option<Put> {
        let result = self.appender.put_batch(request)?;
        Some(self.finish(result, request.wait_store_ok))
    }

    /// See [`crate::Store::put`].
    pub(crate) fn one(&self, request: &PutRequest<'_>) -> Put {
        let put = self.try_one(request);
        put.unwrap_or_else(|| self.patiently(|| self.try_one(request)))
    }

    /// See [`crate::Store::put_batch`].
    pub(crate) fn batch(&self, request: &PutRequest<'_>) -> Put {
        let put = self.try_batch(request);
        put.unwrap_or_else(|| self.patiently(|| self.try_batch(request)))
    }

    /// Tries again whenever a slow disk may have created the file.
    #[cold]
    fn patiently(&self, mut put: impl FnMut() -> Option<Put>) -> Put {
        let until_ms = self.clock.monotonic_ms() + FILE_PATIENCE_MS;
        while self.clock.monotonic_ms() < until_ms {
            if self.appender.stall.wait(LOOK)
                && let Some(put) = put()
            {
                return put;
            }
        }
        tracing::error!("the commit log gets no blocks or no file: the disk is slow");
        self.failed(PutStatus::CreateMappedFileFailed)
    }

    /// Blocks until the put is as durable as configured.
    pub(crate) fn wait(&self, put: Put) -> PutResult {
        match put {
            Put::Done(result) => result,
            Put::Parked(result, ticket) => {
                let status = self.flusher.wait(&ticket).status(result.status);
                PutResult { status, ..result }
            }
        }
    }

    fn finish(&self, mut result: PutResult, wait_store_ok: bool) -> Put {
        if result.status != PutStatus::Ok {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Put::Done(result);
        }
        let flusher = &self.flusher;
        let slaves = match wait_store_ok {
            true => self.slaves(&mut result),
            false => None,
        };
        match self.sync_flush_timeout_ms {
            None => {
                flusher.ring();
                match slaves {
                    None => Put::Done(result),
                    Some(timeout_ms) => self.parked(result, Watermark::Replicated, timeout_ms),
                }
            }
            Some(flush_ms) if wait_store_ok => {
                // On a full disk it waits for the flush like the others.
                if flusher.log.is_much_unwritten() && flusher.write_out() == Written::Failed {
                    return self.failed(PutStatus::ServiceNotAvailable);
                }
                match slaves {
                    None => self.parked(result, Watermark::Flushed, flush_ms),
                    Some(slave_ms) => {
                        let timeout_ms = flush_ms.min(slave_ms);
                        self.parked(result, Watermark::FlushedAndReplicated, timeout_ms)
                    }
                }
            }
            Some(_) => {
                // It is acknowledged now, so it must survive the end of the process.
                match flusher.write_out() {
                    Written::All => flusher.acks.want_flush(),
                    // It has its place in the log, and is written when the disk has room.
                    Written::NoRoom => return Put::Done(late(result)),
                    Written::Failed => return self.failed(PutStatus::ServiceNotAvailable),
                }
                Put::Done(result)
            }
        }
    }

    /// How long the put waits for slaves, milliseconds; None if it waits for none, perhaps because
    /// too few are there, which becomes its status.
    fn slaves(&self, result: &mut PutResult) -> Option<i64> {
        let replicas = &self.flusher.acks.watermarks.replicas;
        match replicas.wait_for(end_of(result)) {
            Wait::No => None,
            Wait::AtMost(timeout_ms) => Some(timeout_ms),
            Wait::Unavailable => {
                result.status = PutStatus::SlaveNotAvailable;
                None
            }
        }
    }

    fn parked(&self, result: PutResult, needs: Watermark, timeout_ms: i64) -> Put {
        let ticket = Ticket {
            end_offset: end_of(&result),
            needs,
            deadline_ms: self.clock.monotonic_ms() + timeout_ms,
        };
        Put::Parked(result, ticket)
    }

    fn failed(&self, status: PutStatus) -> Put {
        self.failures.fetch_add(1, Ordering::Relaxed);
        Put::Done(PutResult::refused(status))
    }
}

/// Log offset after the last record of a put.
fn end_of(result: &PutResult) -> i64 {
    result.physical_offset + i64::from(result.size_bytes)
}

/// Stored, but not as durable as configured.
fn late(result: PutResult) -> PutResult {
    PutResult {
        status: PutStatus::FlushDiskTimeout,
        ..result
    }
}
