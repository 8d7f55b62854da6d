//! Starts stores with damaged files. `verify` must agree with the result.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

mod checkpoint;
mod clean_stop;
mod clean_stop_proptests;
mod derived;
mod queue_and_log;
mod queue_entries;
mod rig;
mod search;
mod short_file;
