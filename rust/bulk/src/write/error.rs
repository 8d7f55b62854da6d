//! Errors that end a write.

use std::error::Error;
use std::sync::Arc;

use thiserror::Error;

use mq_client::events::Failure;

/// Why a write cannot continue.
#[derive(Debug, Clone, Error)]
pub enum WriteError {
    /// A row cannot be sent as a message.
    #[error("row {row}: {what}")]
    BadRow {
        /// The row, counted from the start of the task.
        row: u64,
        /// The reason.
        what: String,
    },
    /// A topic has no queue to send to.
    #[error("{0}")]
    NoRoute(Arc<dyn Error + Send + Sync>),
    /// A send failed permanently, or until the retry budget was used up.
    #[error("broker {broker} at {address}: {why}")]
    Send {
        /// The broker's name.
        broker: String,
        /// The broker's address.
        address: String,
        /// The reason.
        why: Why,
    },
}

/// Why a send failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Why {
    /// The broker replied and did not store it.
    #[error("code {code}: {remark}")]
    Refused {
        /// The reply's code.
        code: i32,
        /// The reply's remark.
        remark: String,
    },
    /// There is no reply.
    #[error("{0}")]
    Failed(Failure),
}
