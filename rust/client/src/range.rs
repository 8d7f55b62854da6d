//! Reads a range of one queue's offsets with many pulls in flight. Joins no group, commits nothing.
//!
//! ```text
//! reader ──► window ──► stride          what to pull next, and the results in queue order
//!    │          └─────► check ──► loss  whether the records of a reply are those asked for
//!    ├─────► request ──► plan           the frame of a pull
//!    ├─────► outage                     when to pull again after a failure that passes
//!    └─────► inbox                      the outcomes, from the engine's threads to the caller's
//! ```

mod check;
mod loss;
mod stride;
mod window;

#[cfg(test)]
mod tests;

pub use check::Rules;
pub use loss::{Loss, LossKind};
pub use window::{Limits, Part, Pull, Reply, Window};
