//! The state that all readers of the store share.

use std::sync::Arc;

use super::read_ahead::ReadAhead;
use crate::derive::index::files::IndexFiles;
use crate::derive::queues::table::ConsumeQueues;
use crate::entry_repair::EntryRepairer;
use crate::scan::record::DamagedRecords;
use crate::settings::Settings;
use mq_format::consume_queue::QueueEntry;
use mq_log::Segments;

/// Reads the log through queues and index, from any number of threads.
pub(crate) struct Reader {
    pub(crate) log: Arc<Segments>,
    pub(crate) queues: Arc<ConsumeQueues>,
    pub(crate) index: Option<Arc<IndexFiles>>,
    pub(crate) limits: Limits,
    pub(crate) ahead: ReadAhead,
    pub(crate) damaged: Arc<DamagedRecords>,
    pub(crate) repairer: Arc<EntryRepairer>,
}

/// Limits on the result of one read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(super) memory: (i32, usize),
    pub(super) disk: (i32, usize),
    /// `maxMsgsNumBatch`.
    pub(crate) query_count: usize,
    /// Records further from the end of the log than this count as on disk.
    pub(super) hot_bytes: i64,
}

impl Reader {
    /// A reader of a store's log, queues and index.
    pub(crate) fn new(
        log: Arc<Segments>,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<IndexFiles>>,
        settings: &Settings,
        repairer: Arc<EntryRepairer>,
    ) -> Self {
        let hot = memory_bytes() / 100 * u64::from(settings.hot_memory_percent);
        let limits = Limits {
            memory: settings.max_transfer_memory,
            disk: settings.max_transfer_disk,
            query_count: usize::try_from(settings.query_count_max).unwrap_or(0),
            hot_bytes: i64::try_from(hot).unwrap_or(i64::MAX),
        };
        Self {
            log,
            queues,
            index,
            limits,
            ahead: ReadAhead::default(),
            damaged: Arc::default(),
            repairer,
        }
    }

    /// Counts damaged records in `damaged`, together with those that other readers find.
    pub(crate) fn counting(mut self, damaged: Arc<DamagedRecords>) -> Self {
        self.damaged = damaged;
        self
    }

    /// Number of times a damaged record was skipped.
    pub(crate) fn damaged_skipped(&self) -> u64 {
        self.damaged.skipped()
    }

    pub(crate) fn is_cold(&self, entry: &QueueEntry) -> bool {
        self.is_cold_at(entry.physical_offset)
    }

    /// Whether RocketMQ would count a log offset as on disk only.
    pub(crate) fn is_cold_at(&self, physical_offset: i64) -> bool {
        // A damaged entry may say any offset.
        let behind = self.max_physical_offset().saturating_sub(physical_offset);
        behind > self.limits.hot_bytes
    }

    /// Start and end of the log. Call it once for many entries, because reading the start takes a
    /// lock.
    pub(crate) fn log_bounds(&self) -> (i64, i64) {
        (
            self.log.min_offset().cast_signed(),
            self.max_physical_offset(),
        )
    }

    pub(crate) fn max_physical_offset(&self) -> i64 {
        self.log.max_offset().cast_signed()
    }
}

/// Memory of the machine, bytes.
fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram as u64 * u64::from(system.mem_unit)
}
