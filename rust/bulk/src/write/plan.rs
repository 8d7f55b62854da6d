//! How to write.

use std::collections::HashSet;
use std::time::Duration;

use super::ids::IdOrigin;

/// How one task writes its rows.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Producer group of the sends.
    pub group: String,
    /// The topic of rows that have none.
    pub topic: Option<String>,
    /// Timeout of one request.
    pub request_timeout: Duration,
    /// How long failures that pass are tried again.
    pub retry_timeout: Duration,
    /// `maxMessageSize` of the brokers: the largest message, and the largest batch.
    pub message_bytes_max: usize,
    /// Messages per second; None is as fast as possible.
    pub rate: Option<f64>,
    /// The property `sparkRowId` up to the number of the row.
    pub row_id: String,
    /// Names of properties that rows may not set; they are left out.
    pub reserved: HashSet<String>,
    /// Where the unique ids of the messages come from.
    pub ids: IdOrigin,
    /// Where the turn through the queues begins.
    pub first_queue: usize,
}
