//! What a server counts: requests and bytes, messages for the statistics, failures of its threads.

pub(crate) mod counters;
pub(crate) mod traffic;

use mq_base::services::Services;

use crate::stats::counters::Counters;
use crate::stats::traffic::Traffic;

/// The counts of one server. Every part that counts shares them.
#[derive(Debug, Default)]
pub struct Stats {
    /// Counters since the start.
    pub counters: Counters,
    /// Messages stored and read, for the statistics.
    pub traffic: Traffic,
    /// Failures of the server's threads and tasks.
    pub services: Services,
}
