//! Replication as the store sees it: slaves that acknowledge (`replica.rs`), and a slave that
//! appends its master's bytes (`slave.rs`) and deletes what the master deleted
//! (`deletions.rs`). A log that differs from its master's is cut (`cut.rs`).
//! The crate `ha` moves the bytes.

pub(crate) mod cut;
mod deletions;
pub(crate) mod replica;
mod slave;
