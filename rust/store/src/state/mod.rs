//! Committed offsets, ended transactions, and the checkpoint.

pub(crate) mod checkpoint;
pub(crate) mod offset_moves;
pub(crate) mod offsets;
pub(crate) mod transactions;
