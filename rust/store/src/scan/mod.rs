//! Scans the log and checks every record: for the open, for verify and for repair.

pub(crate) mod blocks;
mod copy;
pub mod damage;
pub mod header;
pub(crate) mod log_check;
pub(crate) mod log_scanner;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod repair;
#[cfg(test)]
pub(crate) mod tests;

use crate::files::io_error;
use crate::types::StoreError;

/// Name of the log in errors whose path is not known.
pub(crate) const LOG: &str = "commit log";

/// An error of the log; `Recovery::run` adds the path.
pub(crate) fn log_io(source: std::io::Error) -> StoreError {
    io_error(LOG.as_ref())(source)
}
