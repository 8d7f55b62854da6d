//! Settings of a run that sends.

use serde::Deserialize;

use super::{COUNT_MAX, Load, WORKERS_MAX, in_range};
use crate::BenchError;
use crate::stamp::STAMP_BYTES;

/// Requests in flight over all threads.
const IN_FLIGHT_MAX: usize = 1 << 20;
/// Bytes of the requests that one thread may have in flight.
const IN_FLIGHT_BYTES_MAX: usize = 256 << 20;
/// RocketMQ's default limit on the size of a request's body.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Approximate bytes of a request's header and a message's properties.
const HEADER_BYTES: usize = 512;
/// Largest TAGS; together with the other properties it has to fit in 32 KiB.
const TAG_BYTES_MAX: usize = 1024;
const RATE_MAX: f64 = 1e8;

/// Settings of a produce run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Produce {
    /// The common part.
    pub load: Load,
    /// Requests in flight per thread; 1 is a synchronous send. Oneway: requests per write.
    pub in_flight: usize,
    /// Messages per second over all threads, each sent when due, even if the broker is slow (open
    /// loop). 0 sends the next request as soon as the window has room (closed loop).
    pub rate: f64,
    /// Send one-way requests, which get no replies.
    pub oneway: bool,
    /// The property WAIT: whether the broker answers after its flush and replication only.
    pub wait: bool,
    /// Bytes of a message's body.
    pub body_bytes: usize,
    /// Messages in a request; above 1 it is a batch.
    pub batch: usize,
    /// TAGS of every message; empty for none.
    pub tag: String,
}

impl Default for Produce {
    fn default() -> Self {
        Self {
            load: Load::default(),
            in_flight: 1,
            rate: 0.0,
            oneway: false,
            wait: true,
            body_bytes: 1024,
            batch: 1,
            tag: String::new(),
        }
    }
}

impl Produce {
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        self.load.check()?;
        in_range("in_flight", self.in_flight, 1, IN_FLIGHT_MAX)?;
        in_range("batch", self.batch, 1, 1 << 20)?;
        in_range("body_bytes", self.body_bytes, 1, REQUEST_BYTES_MAX)?;
        in_range("rate", self.rate, 0.0, RATE_MAX)?;
        in_range("bytes of tag", self.tag.len(), 0, TAG_BYTES_MAX)?;
        let bodies = self.body_bytes * self.batch;
        in_range("bytes of a batch", bodies, 1, REQUEST_BYTES_MAX)?;
        let in_flight = self.load.threads * self.in_flight;
        in_range("threads x in_flight", in_flight, 1, IN_FLIGHT_MAX)?;
        let bytes = (bodies + HEADER_BYTES * self.batch) * self.in_flight;
        in_range("bytes in flight", bytes, 1, IN_FLIGHT_BYTES_MAX)?;
        match self.load.count {
            0 => Ok(()),
            // A count below one request would send nothing.
            count => in_range("count", count, self.batch as u64, COUNT_MAX),
        }
    }

    /// Checks the settings of a run that stamps its messages.
    pub(super) fn check_stamped(&self) -> Result<(), BenchError> {
        self.check()?;
        in_range(
            "body_bytes",
            self.body_bytes,
            STAMP_BYTES,
            REQUEST_BYTES_MAX,
        )?;
        in_range("threads", self.load.threads, 1, WORKERS_MAX / 2)
    }
}
