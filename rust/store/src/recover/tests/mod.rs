//! What a start makes of the files it finds.

mod checkpoint;
mod clean_stop;
mod clean_stop_proptests;
mod golden;
mod header;
pub(crate) mod log;
pub(crate) mod short_file;
