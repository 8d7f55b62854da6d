//! The threads of an open store.

use crate::delay::deliver::DelayThread;
use crate::directory::lock::StoreLock;
use crate::threads::periodic::Periodic;
use crate::types::Role;
use crate::write::deadlines::DeadlineThread;
use crate::write::flush::FlushThreads;
use mq_log::Allocator;

/// The threads and the lock, which a close ends. A thread is None in the roles that do without it;
/// the dispatcher and the upkeep run in every role.
pub(crate) struct Running {
    pub(crate) delay: Option<DelayThread>,
    pub(crate) cleaning: Option<Periodic>,
    pub(crate) flush: Option<FlushThreads>,
    pub(crate) allocator: Option<Allocator>,
    pub(crate) deadlines: Option<DeadlineThread>,
    pub(crate) upkeep: Option<Periodic>,
    pub(crate) lock: StoreLock,
}

impl Running {
    /// No threads yet.
    pub(crate) fn new(lock: StoreLock) -> Self {
        Self {
            delay: None,
            cleaning: None,
            flush: None,
            allocator: None,
            deadlines: None,
            upkeep: None,
            lock,
        }
    }

    /// Ends the threads that do not run in a role. Each ends its round first.
    pub(crate) fn end_all_but(&mut self, role: Role) {
        if role != Role::Master {
            (self.delay, self.deadlines) = (None, None);
        }
        if !role.changes_log() {
            (self.cleaning, self.flush, self.allocator) = (None, None, None);
        }
    }

    /// Starts the next run of the cleaner now.
    pub(crate) fn clean_now(&self) {
        if let Some(cleaning) = &self.cleaning {
            cleaning.wake();
        }
    }
}
