//! What the offline tools need of the store: its files and their formats, read and made without a
//! running store. A narrow door: nothing else of the store is open to them.

pub use crate::checkpoint::{CHECKPOINT_BYTES, Checkpoint, MARGIN_MS};
pub use crate::consume_queue::ConsumeQueue;
pub use crate::consume_queues::{ConsumeQueues, adopted_file_bytes, queue_directories};
pub use crate::dispatch::Derived;
pub use crate::files::{
    OffsetFile, create_directory, io_error, list, offset_files, offset_name, sync_directory,
};
pub use crate::index::{IndexFiles, index_paths, sizes_of_new_files};
pub use crate::index_file::IndexFile;
pub use crate::index_geometry::{Geometry, SetSizes, any_layout, geometry};
pub use crate::index_writer::IndexWriter;
pub use crate::lock::{StoreLock, is_held};
pub use crate::log_facts::LogFacts;
pub use crate::offsets::Offsets;
pub use crate::open_files::OpenFiles;
pub use crate::recognise::{Effect, Foreign, recognise};
pub use crate::recover::damage::{LastSeen, next_record};
pub use crate::recover::{Left, LogCheck, LogEnd, Marker, good_record, is_stand_in};
pub use crate::walk::{LogRead, RECORD_BYTES_MAX, Step, Walk};

/// Marks and places of a store's directory.
pub mod layout {
    pub use crate::layout::{ABORT, mark_open};
}

/// The commit log's files.
pub mod log_files {
    pub use crate::log_files::{MISSING_FILES_MAX, length_of, open_log};
}

/// Checksums of state files.
pub mod seal {
    pub use crate::seal::{Seal, Verdict, has_damaged_lines, path_of, read, verdict};
}

/// Progress of the delay levels.
pub mod delay_offsets {
    pub use crate::delay_offsets::set_back;
}
