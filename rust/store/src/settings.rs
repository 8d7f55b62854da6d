//! The settings of a store.

use std::path::PathBuf;

use crate::types::{Role, StoreError};
use mq_format::delay_levels::DelayLevels;
use mq_format::multi_dispatch;

/// The settings of a store. Names follow RocketMQ's keys, with units.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `storePathCommitLog`: directory of the log if it is not `commitlog` in the store. None keeps
    /// an existing link.
    pub commit_log_path: Option<PathBuf>,
    /// `mappedFileSizeCommitLog`; None keeps the size of the store's files, or 1 GiB for a new
    /// store.
    pub commit_log_file_bytes: Option<u64>,
    /// `mappedFileSizeConsumeQueue`; None keeps the size of the store's files, else 6,000,000.
    pub consume_queue_file_bytes: Option<u64>,
    /// `maxHashSlotNum`; None keeps the number in the store's files, else 5,000,000.
    pub index_slots: Option<u32>,
    /// `maxIndexNum`; None keeps the number in the store's files, else 20,000,000.
    pub index_entries: Option<u32>,
    /// The store's role until [`crate::Store::set_role`] changes it.
    pub role: Role,
    /// `flushDiskType` = SYNC_FLUSH.
    pub sync_flush: bool,
    /// `flushIntervalCommitLog`.
    pub flush_interval_ms: u64,
    /// `flushCommitLogLeastPages`, pages of 4 KiB.
    pub flush_least_pages: u32,
    /// `flushCommitLogThoroughInterval`.
    pub flush_thorough_interval_ms: u64,
    /// `syncFlushTimeout`.
    pub sync_flush_timeout_ms: i64,
    /// `maxMessageSize`: most bytes of a body.
    pub max_message_bytes: usize,
    /// `messageDelayLevel`, e.g. "1s 5s 10s".
    pub delay_levels: String,
    /// `messageIndexEnable`.
    pub index_enabled: bool,
    /// Step in which blocks are allocated ahead of the write position, bytes.
    pub allocate_step_bytes: u64,
    /// Refuse sends if fewer bytes than this are free, and delete the oldest files if fewer than
    /// twice as many are; None uses RocketMQ's ratios.
    pub min_free_bytes: Option<u64>,
    /// `damagePolicy`: true for repair, false for refuse.
    pub repair_damage: bool,
    /// `checkCRCOnRecover`: whether the check after a clean stop compares bodies with their CRC.
    /// Recovery after an unclean stop always does.
    pub check_crc_on_recover: bool,
    /// `flushConsumerOffsetInterval`.
    pub flush_offsets_interval_ms: u64,
    /// `maxTransferCountOnMessageInMemory` and `maxTransferBytesOnMessageInMemory`.
    pub max_transfer_memory: (i32, usize),
    /// `maxTransferCountOnMessageInDisk` and `maxTransferBytesOnMessageInDisk`.
    pub max_transfer_disk: (i32, usize),
    /// `accessMessageInMemoryMaxRatio`: log bytes that count as in memory, percent of the machine's
    /// memory.
    pub hot_memory_percent: u32,
    /// `maxMsgsNumBatch`: most messages of a query.
    pub query_count_max: i32,
    /// `osPageCacheBusyTimeOutMills`: if a put holds the lock longer, the disk counts as busy.
    pub page_cache_busy_ms: i64,
    /// `flushDelayOffsetInterval`.
    pub flush_delay_offsets_interval_ms: u64,
    /// When log files are deleted.
    pub cleaning: Cleaning,
    /// The consume-queue extension.
    pub queue_ext: QueueExt,
    /// Multi-dispatch and light queues.
    pub multi_dispatch: MultiDispatch,
}

/// When files of the log and files derived from it are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaning {
    /// `fileReservedTime`: age at which files are deleted, hours.
    pub reserved_hours: u64,
    /// `deleteWhen`: hours of the day at which expired files are deleted, "04" or "04;05".
    pub delete_when: String,
    /// `diskMaxUsedSpaceRatio`: above this, expired files are deleted at any hour, percent, 10 to
    /// 95.
    pub disk_max_used_percent: u32,
    /// `diskSpaceCleanForciblyRatio`: above this, files of any age are deleted, percent.
    pub disk_forcible_percent: u32,
    /// `diskSpaceWarningLevelRatio`: above this, puts are refused as well, percent.
    pub disk_warning_percent: u32,
    /// `cleanFileForciblyEnable`: whether files may be deleted before they expire.
    pub forcibly_enabled: bool,
    /// `cleanResourceInterval`.
    pub interval_ms: u64,
    /// `deleteCommitLogFilesInterval`: pause between two deletions.
    pub log_pause_ms: u64,
    /// `deleteConsumeQueueFilesInterval`: pause between queues with deletions.
    pub queue_pause_ms: u64,
    /// `redeleteHangedFileInterval`: time before another try to delete a file.
    pub retry_ms: u64,
}

/// The consume-queue extension (`ConsumeQueueExt`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueExt {
    /// `enableConsumeQueueExt`.
    pub enabled: bool,
    /// `mappedFileSizeConsumeQueueExt`; None keeps the size of the store's files, else 50,331,648.
    pub file_bytes: Option<u64>,
    /// `bitMapLengthConsumeQueueExt`, bits.
    pub bitmap_bits: u32,
}

/// Multi-dispatch and light queues (`MultiDispatch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiDispatch {
    /// `enableMultiDispatch`: messages also enter the queues in INNER_MULTI_DISPATCH.
    pub enabled: bool,
    /// `enableLmq`: these may be light queues (`%LMQ%...`).
    pub lmq_enabled: bool,
    /// `maxLmqConsumeQueueNum`.
    pub lmq_queues_max: u32,
}

impl MultiDispatch {
    /// The further queues of a message in queue `queue_id`: name, queue and offset. Empty if
    /// multi-dispatch is off.
    pub(crate) fn further_queues(
        self,
        properties: &[u8],
        queue_id: i32,
    ) -> impl Iterator<Item = (&str, i32, i64)> {
        let dispatches = self.enabled.then(|| multi_dispatch::dispatches(properties));
        dispatches.into_iter().flatten().map(move |(name, offset)| {
            let id = multi_dispatch::queue_id_in(name, queue_id, self.lmq_enabled);
            (name, id, offset)
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commit_log_path: None,
            commit_log_file_bytes: None,
            consume_queue_file_bytes: None,
            index_slots: None,
            index_entries: None,
            role: Role::default(),
            sync_flush: false,
            flush_interval_ms: 500,
            flush_least_pages: 4,
            flush_thorough_interval_ms: 10_000,
            sync_flush_timeout_ms: 5_000,
            max_message_bytes: 4 << 20,
            delay_levels: "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".into(),
            index_enabled: true,
            allocate_step_bytes: 64 << 20,
            min_free_bytes: None,
            repair_damage: true,
            check_crc_on_recover: true,
            flush_offsets_interval_ms: 5_000,
            max_transfer_memory: (32, 256 << 10),
            max_transfer_disk: (8, 64 << 10),
            hot_memory_percent: 40,
            query_count_max: 64,
            page_cache_busy_ms: 1_000,
            flush_delay_offsets_interval_ms: 10_000,
            cleaning: Cleaning::default(),
            queue_ext: QueueExt::default(),
            multi_dispatch: MultiDispatch::default(),
        }
    }
}

impl Default for Cleaning {
    fn default() -> Self {
        Self {
            reserved_hours: 72,
            delete_when: "04".into(),
            disk_max_used_percent: 75,
            disk_forcible_percent: 85,
            disk_warning_percent: 90,
            forcibly_enabled: true,
            interval_ms: 10_000,
            log_pause_ms: 100,
            queue_pause_ms: 100,
            retry_ms: 120_000,
        }
    }
}

impl Default for QueueExt {
    fn default() -> Self {
        Self {
            enabled: false,
            file_bytes: None,
            bitmap_bits: 64,
        }
    }
}

impl Default for MultiDispatch {
    fn default() -> Self {
        Self {
            enabled: false,
            lmq_enabled: false,
            lmq_queues_max: 20_000,
        }
    }
}

impl Settings {
    /// The delay levels in `messageDelayLevel`.
    pub(crate) fn levels(&self) -> Result<DelayLevels, StoreError> {
        DelayLevels::parse(&self.delay_levels).ok_or_else(|| StoreError::Setting {
            key: "messageDelayLevel",
            value: self.delay_levels.clone(),
            what: "delays with unit s, m, h or d, separated by spaces",
        })
    }
}
