//! Recovery at a start.

mod golden;
mod header;
pub(crate) mod log;
