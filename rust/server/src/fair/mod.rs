//! What keeps healthy clients fast beside bad ones; docs/architecture.md says which situation each
//! part serves.

pub(crate) mod backpressure;
pub(crate) mod share;
pub(crate) mod slice;
pub(crate) mod spare_buffers;
pub(crate) mod trial;
pub(crate) mod turns;
