//! What waits for the store, and how it is answered.

pub(crate) mod pending_acks;
pub(crate) mod reply_batch;
