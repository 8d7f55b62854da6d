//! What a start makes of a store whose files were damaged; `verify` must agree with it.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

mod checkpoint;
mod clean_stop;
mod clean_stop_proptests;
mod derived;
mod rig;
mod short_file;
