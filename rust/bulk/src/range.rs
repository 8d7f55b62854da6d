//! Reads a range of one queue's offsets with many pulls in flight. Joins no group, commits nothing.
//!
//! ```text
//! reader ──► window ──► stride         what to pull next, and the results in queue order
//!    │          └─────► check, loss    whether the records are right; offsets without a message
//!    ├─────► plan                      what to read; request: the frame of a pull
//!    ├─────► outage                    when to pull again after a failure that passes
//!    └─────► pulled ──► error          what became of a pull
//! ```

mod check;
mod error;
mod loss;
mod outage;
mod plan;
mod pulled;
mod reader;
mod request;
mod stride;
mod window;

#[cfg(test)]
mod tests;

pub use error::{RangeError, Why};
pub use loss::{Loss, LossKind};
pub use plan::{Plan, Subscription};
pub use reader::{Next, RangeReader};
pub use window::{Limits, Part};
