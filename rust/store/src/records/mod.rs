//! Records of the log: finding them one by one, and checking them.

pub(crate) mod record;
pub(crate) mod walk;
