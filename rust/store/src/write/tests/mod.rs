//! Appends and their durability.

mod append;
mod append_golden;
mod deadlines;
mod durability;
mod flush;
mod slow_disk;
