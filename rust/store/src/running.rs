//! The threads of an open store.

use crate::delay::deliver::DelayThread;
use crate::directory::lock::StoreLock;
use crate::threads::periodic::Periodic;
use crate::write::flush::FlushThreads;
use mq_log::Allocator;

/// The threads and the lock, which a close ends.
pub(crate) struct Running {
    pub(crate) delay: DelayThread,
    pub(crate) flush: FlushThreads,
    pub(crate) upkeep: Periodic,
    pub(crate) cleaning: Periodic,
    pub(crate) allocator: Allocator,
    pub(crate) lock: StoreLock,
}

impl Running {
    /// Starts the next run of the cleaner now.
    pub(crate) fn clean_now(&self) {
        self.cleaning.wake();
    }
}
