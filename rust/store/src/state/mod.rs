//! Files in `config` and `mqstack`, committed offsets, and the checkpoint.

pub(crate) mod aside;
pub(crate) mod checkpoint;
pub(crate) mod files;
pub(crate) mod json;
pub(crate) mod offset_moves;
pub(crate) mod offsets;
pub(crate) mod own_json;
pub(crate) mod seal;
pub(crate) mod transactions;
