//! Errors that end the reading of a range.

use thiserror::Error;

use super::plan::Plan;
use mq_client::events::Failure;

/// Why a range cannot be read further. The text names queue, address and offset.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{topic} of {broker_name}, queue {queue_id}: the pull at offset {offset} from {address} {why}"
)]
pub struct RangeError {
    /// The topic.
    pub topic: String,
    /// The broker's name.
    pub broker_name: String,
    /// The queue.
    pub queue_id: i32,
    /// The offset of the pull that failed.
    pub offset: i64,
    /// The address of the last attempt.
    pub address: String,
    /// The reason.
    pub why: Why,
}

/// Why a pull failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Why {
    /// No reply arrived before the retry budget was used up.
    #[error("failed until the retries ran out: {0}")]
    NoReply(Failure),
    /// The broker was busy or stopping until the retry budget was used up.
    #[error("was put off with code {code} until the retries ran out: {remark}")]
    Busy {
        /// The reply's code.
        code: i32,
        /// The reply's remark.
        remark: String,
    },
    /// The master did not answer and the slave returned no message, until the budget was used up.
    #[error("failed until the retries ran out: the slave is behind, or slaveReadEnable is off")]
    Behind,
    /// The broker refused the pull.
    #[error("was refused with code {code}: {remark}")]
    Refused {
        /// The reply's code.
        code: i32,
        /// The reply's remark.
        remark: String,
    },
    /// The pull cannot be sent, or its reply cannot be read.
    #[error("failed: {0}")]
    Broken(String),
}

impl Why {
    /// Whether the same pull may succeed later.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::NoReply(_) | Self::Busy { .. } | Self::Behind)
    }
}

impl RangeError {
    pub(super) fn new(plan: &Plan, offset: i64, address: &str, why: Why) -> Self {
        Self {
            topic: plan.topic.clone(),
            broker_name: plan.broker_name.clone(),
            queue_id: plan.queue_id,
            offset,
            address: address.to_owned(),
            why,
        }
    }
}
