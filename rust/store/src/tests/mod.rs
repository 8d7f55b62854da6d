//! Whole stores, and what the tests of the store share.

mod damaged_index;
mod full_disk;
mod panic;
pub(crate) mod store_rig;
pub(crate) mod test_rig;
mod trimmed;
