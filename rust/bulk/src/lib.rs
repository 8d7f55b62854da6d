//! Bulk transfer for Spark and lite pull, over one pool of connections: `range` reads ranges of
//! queues with many pulls in flight, `write` sends rows of Arrow columns as batches.

mod backoff;
mod inbox;
pub mod range;
pub mod write;
