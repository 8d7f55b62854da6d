//! Replies that wait for the store.

pub(crate) mod pending_acks;
pub(crate) mod reply_batch;
