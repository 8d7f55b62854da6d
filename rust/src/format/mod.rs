//! Formats of the wire and the disk: pure functions over bytes, no IO, no clocks.

pub mod consume_queue;
pub mod index;
