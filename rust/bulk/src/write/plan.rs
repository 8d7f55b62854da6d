//! Settings of a write.

use std::collections::HashSet;
use std::time::Duration;

use super::ids::IdOrigin;

/// How one task writes its rows.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Producer group of the sends.
    pub group: String,
    /// The topic of rows that name none.
    pub topic: Option<String>,
    /// Timeout of one request.
    pub request_timeout: Duration,
    /// How long temporary failures are retried.
    pub retry_timeout: Duration,
    /// `maxMessageSize` of the brokers: the largest message, and the largest batch.
    pub message_bytes_max: usize,
    /// Messages per second; None for no limit.
    pub rate: Option<f64>,
    /// The part of the property `sparkRowId` before the row's number.
    pub row_id: String,
    /// Names of properties that rows may not set; they are left out.
    pub reserved: HashSet<String>,
    /// Origin of the messages' unique ids.
    pub ids: IdOrigin,
    /// Number of the first queue in rotation.
    pub first_queue: usize,
}
