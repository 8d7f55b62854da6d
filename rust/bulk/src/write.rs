//! Writes rows of Arrow columns as messages: at least once, in batches, many in flight.
//!
//! ```text
//! writer ──► task ──► encoder ──► rows, ids       from a row to the bytes of its message
//!    │        ├───► batches ──► outgoing          from messages to the bodies of sends
//!    │        ├───► topics                        queues in turn, or by the hash of a key
//!    │        └───► flight ──► retry, pace        what is under way; when to send it again
//!    ├─────► request                              the frame of a send
//!    └─────► sent ──► error                       what became of a send
//! ```

mod batches;
mod encoder;
mod error;
mod flight;
mod ids;
mod outgoing;
mod pace;
mod plan;
mod request;
mod retry;
mod rows;
mod sent;
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
