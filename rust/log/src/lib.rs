//! Files, bytes and offsets on disk. This crate knows nothing about messages.

mod allocate;
mod append_buffer;
mod directory;
mod file_disk;
pub mod fs;
mod io_hooks;
mod prealloc;
mod resident;
mod segment;
mod segments;
mod sigbus_guard;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod view;
mod warm;
mod writer;

pub use allocate::Allocator;
pub use directory::{Access, Directory, FileInfo};
pub use file_disk::{FileDisk, WriteMode};
pub use io_hooks::{IoHook, Operation, Target, Watch, watch};
pub use prealloc::Stall;
pub use resident::prefetch;
pub use segments::{Removed, Segments};
pub use sigbus_guard::GuardedMmap;
pub use view::View;
pub use warm::{WarmPace, warm_map};
pub use writer::{WriteError, Writer};

/// Unit in which the system maps and caches files.
const PAGE_BYTES: u64 = 4096;
