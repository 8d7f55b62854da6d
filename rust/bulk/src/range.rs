//! Reads a range of one queue's offsets with many pulls in flight. Joins no group, commits nothing.
//!
//! ```text
//! reader ──► window ──► stride         the next pull, and the results in queue order
//!    │          └─────► check, loss    whether the records are right; offsets without a message
//!    ├─────► plan                      which range, with which limits
//!    ├─────► outage                    when to pull again after a temporary failure
//!    └─────► pull ──► error            the frame of a pull, and its outcome
//! ```

mod check;
mod error;
mod loss;
mod outage;
mod plan;
mod pull;
mod reader;
mod stride;
mod window;

#[cfg(test)]
mod tests;

pub use error::{RangeError, Why};
pub use loss::{Loss, LossKind};
pub use plan::{Plan, Subscription};
pub use reader::{Next, RangeReader};
pub use window::{Limits, Part};
