//! Records of the log: finding them one by one, and checking them.

pub(crate) mod log_scanner;
pub(crate) mod record;
