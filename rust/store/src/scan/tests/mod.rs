//! Checks of logs that a test damages.

mod header;
pub(crate) mod log;
