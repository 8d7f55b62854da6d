//! What is appended, and when it is durable.

mod append;
mod append_golden;
mod durability;
mod flush;
mod slow_disk;
