//! Bulk transfer for Spark, lite pull and searches, over one pool of connections: `range` reads
//! ranges of queues with many pulls in flight, `search` selects the wanted messages of what was
//! read, `write` sends rows of Arrow columns as batches.

mod backoff;
mod inbox;
pub mod range;
pub mod search;
pub mod write;
