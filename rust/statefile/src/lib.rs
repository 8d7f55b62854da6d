//! Files that are replaced as a whole: RocketMQ's state files, with checksums and previous copies,
//! and our own small files with a checksum inside.

mod aside;
mod directories;
mod error;
pub mod json;
pub mod own_json;
pub mod seal;
mod state_files;

pub use aside::Aside;
pub use directories::{create_directory, sync_directory};
pub use error::{FileError, io_error, open_error, write_error};
pub use state_files::{Candidate, STATE_BYTES_MAX, StateFiles};
