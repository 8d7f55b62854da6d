//! Tests of whole stores, and parts shared by the store's tests.

mod damaged_index;
mod full_disk;
mod panic;
mod saved_ends;
pub(crate) mod store_rig;
pub(crate) mod test_rig;
mod trimmed;
