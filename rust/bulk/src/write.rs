//! Writes rows of Arrow columns as messages: at least once, in batches, many in flight.
//!
//! ```text
//! writer ──► task ──► encoder ──► rows, ids       from a row to the bytes of its message
//!    │        ├───► batches ──► outgoing          from messages to the bodies of sends
//!    │        ├───► topics                        queues in rotation, or by the hash of a key
//!    │        └───► flight ──► retry, pace        sends in progress, and their retries
//!    └─────► send ──► error                       the frame of a send, and its outcome
//! ```

mod batches;
mod encoder;
mod error;
mod flight;
mod ids;
mod outgoing;
mod pace;
mod plan;
mod retry;
mod rows;
mod send;
mod task;
mod topics;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{Why, WriteError};
pub use ids::IdOrigin;
pub use outgoing::Run;
pub use plan::Plan;
pub use rows::{BadColumn, Keys, Lists, Maps, Numbers, Rows, Spans, Texts};
pub use task::{Progress, Receipt};
pub use topics::{Queue, Routes};
pub use writer::Writer;
