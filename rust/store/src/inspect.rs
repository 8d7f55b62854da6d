//! The API for the offline tools: a store's files and formats, without a running store. The tools
//! use nothing else of the store.

pub use crate::derive::dispatch::Dispatch;
pub use crate::derive::index::file::IndexFile;
pub use crate::derive::index::files::{IndexFiles, index_paths, sizes_of_new_files};
pub use crate::derive::index::geometry::{Geometry, SetSizes, any_layout, geometry};
pub use crate::derive::index::writer::IndexWriter;
pub use crate::derive::queues::open_files::OpenFiles;
pub use crate::derive::queues::queue::ConsumeQueue;
pub use crate::derive::queues::table::{ConsumeQueues, adopted_file_bytes, queue_directories};
pub use crate::directory::deleted::Deletions;
pub use crate::directory::lock::{StoreLock, is_held};
pub use crate::directory::log_facts::LogFacts;
pub use crate::directory::recognise::{Effect, Foreign, recognise};
pub use crate::files::{
    OffsetFile, create_directory, io_error, list, offset_files, offset_name, sync_directory,
};
pub use crate::recover::{CleanStop, LogEnd};
pub use crate::replicate::cut::cut_log;
pub use crate::state::checkpoint::{CHECKPOINT_BYTES, Checkpoint, MARGIN_MS};
pub use crate::state::offsets::Offsets;

/// The mark of an open store.
pub mod layout {
    pub use crate::directory::layout::{ABORT, mark_open};
}

/// The commit log's files.
pub mod log_files {
    pub use crate::directory::log_files::{MISSING_FILES_MAX, length_of, open_log};
}

/// The scan of the log, which the open, verify and repair share.
pub mod scan {
    pub use crate::scan::damage::{LastSeen, next_record};
    pub use crate::scan::header::Neighbours;
    pub use crate::scan::log_check::{Left, LogCheck};
    pub use crate::scan::log_scanner::{LogRead, LogScanner, RECORD_BYTES_MAX, Step};
    pub use crate::scan::record::{good_record, is_stand_in};
}

/// The recorded ends of the consume queues.
pub mod queue_ends {
    pub use crate::directory::queue_ends::is_damaged;
}

/// Progress of the delay levels.
pub mod delay_offsets {
    pub use crate::delay::progress::set_back;
}
