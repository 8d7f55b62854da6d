//! What a start makes of the files it finds.

mod golden;
mod header;
pub(crate) mod log;
