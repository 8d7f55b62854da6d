//! Bytes and offsets on disk; knows no messages.

mod ahead;
mod allocate;
mod directory;
mod disk;
mod file_disk;
pub mod fs;
mod lost_pages;
mod resident;
mod segment;
mod segments;
mod stall;
mod tape;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod unwritten;
mod view;
mod warm;
mod writer;

pub use allocate::Allocator;
pub use directory::Directory;
pub use disk::{Access, Disk, FileInfo, Files, is_full};
pub use file_disk::{FileDisk, WriteMode};
pub use lost_pages::Guarded;
pub use segments::{Removed, Segments};
pub use stall::Stall;
pub use tape::{Operation, Tape, Target, Watch, watch};
pub use view::{View, prefetch};
pub use warm::{WarmPace, warm_map};
pub use writer::{WriteError, Writer};

/// What the system maps and keeps in memory at a time.
const PAGE_BYTES: u64 = 4096;
