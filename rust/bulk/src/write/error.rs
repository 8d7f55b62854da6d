//! Why a write cannot go on.

use std::error::Error;
use std::sync::Arc;

use thiserror::Error;

use mq_client::events::Failure;

/// Why a write cannot go on.
#[derive(Debug, Clone, Error)]
pub enum WriteError {
    /// A row cannot be a message.
    #[error("row {row}: {what}")]
    BadRow {
        /// The row, counted from the start of the task.
        row: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A topic has no queue to send to.
    #[error("{0}")]
    NoRoute(Arc<dyn Error + Send + Sync>),
    /// A send failed for good, or until the retries ran out.
    #[error("broker {broker} at {address}: {why}")]
    Send {
        /// The broker's name.
        broker: String,
        /// Where it was asked.
        address: String,
        /// What happened.
        why: Why,
    },
}

/// What happened to a send.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Why {
    /// The broker answered, and did not store it.
    #[error("code {code}: {remark}")]
    Refused {
        /// The answer's code.
        code: i32,
        /// The answer's text.
        remark: String,
    },
    /// There is no answer.
    #[error("{0}")]
    Failed(Failure),
}
