//! From a put to its acknowledgement: encode, append, flush, reply.

pub(crate) mod ack;
pub(crate) mod append;
pub(crate) mod deadlines;
pub(crate) mod encode;
pub(crate) mod flush;
pub(crate) mod put;
pub(crate) mod queue_offsets;
pub(crate) mod replicas;
pub(crate) mod space;
#[cfg(test)]
mod tests;
pub(crate) mod waiters;
pub(crate) mod watermarks;
pub(crate) mod writeback;
