"""The store's settings: RocketMQ's MessageStoreConfig, and our own keys."""

from __future__ import annotations

from mqserver.config.table import INT_MAX, LONG_MAX, ROCKETMQ_5, Group, inert, ours, setting
from mqstore import Settings

_STORE = Settings()
_GIB = 1 << 30
_LATER = "not built yet"
_OWN_WAY = "the store flushes and allocates in its own way"


class StoreSettings(Group):
    """What a broker's store is told: `mqstore.Settings` has most of them, by the same key."""

    # fmt: off
    # place and files
    store_path_root_dir: str = setting("storePathRootDir", "~/store",
        "the store's directory", important=True)
    store_path_commit_log: str = setting("storePathCommitLog", "",
        "the log's directory, which may be on another disk; {storePathRootDir}/commitlog becomes a"
        " link to it; empty: that itself", important=True)
    mapped_file_size_commit_log: int = setting("mappedFileSizeCommitLog", _GIB,
        "size of a commit-log file; an existing store's is adopted unless this is set",
        unit="bytes", floor=4096, ceiling=INT_MAX, aliases=("mapedFileSizeCommitLog",))
    mapped_file_size_consume_queue: int = setting("mappedFileSizeConsumeQueue", 6_000_000,
        "size of a consume-queue file, a multiple of 20; adopted like the commit log's",
        unit="bytes", floor=20, ceiling=_GIB, aliases=("mapedFileSizeConsumeQueue",))
    max_hash_slot_num: int = setting("maxHashSlotNum", 5_000_000,
        "slots of an index file; adopted", floor=1, ceiling=100_000_000)
    max_index_num: int = setting("maxIndexNum", 20_000_000,
        "entries of an index file; adopted", floor=2, ceiling=500_000_000)
    message_index_enable: bool = setting("messageIndexEnable", _STORE.index_enabled,
        "index KEYS and unique ids", important=True)
    max_msgs_num_batch: int = setting("maxMsgsNumBatch", _STORE.query_count_max,
        "most messages of a query", floor=1, ceiling=4096)
    min_free_bytes: int = ours("minFreeBytes", 0,
        "refuse sends below this much free space, and delete the oldest files below twice as much;"
        " 0: by the ratios of the disk", unit="bytes", ceiling=LONG_MAX)
    allocate_step_bytes: int = ours("allocateStepBytes", 64 << 20,
        "blocks allocated ahead of the write position",
        unit="bytes", floor=4096, ceiling=4 * _GIB)
    damage_policy: str = ours("damagePolicy", "heal",
        "what a damaged log gets", choices=("heal", "refuse"))
    check_crc_on_recover: bool = setting("checkCRCOnRecover", _STORE.check_crc_on_recover,
        "after a clean stop, the start compares the message bodies in the last three files with "
        "their CRC; recovery after a crash always does")

    # durability
    broker_role: str = setting("brokerRole", "ASYNC_MASTER",
        "role of the broker", choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"), important=True)
    flush_disk_type: str = setting("flushDiskType", "ASYNC_FLUSH",
        "acknowledge before or after the flush",
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"), important=True)
    sync_flush_timeout: int = setting("syncFlushTimeout", _STORE.sync_flush_timeout_ms,
        "give up waiting for a flush", unit="ms", floor=1)
    flush_interval_commit_log: int = setting("flushIntervalCommitLog", _STORE.flush_interval_ms,
        "period of the asynchronous flush", unit="ms", floor=1, important=True)
    flush_commit_log_least_pages: int = setting(
        "flushCommitLogLeastPages", _STORE.flush_least_pages,
        "least to flush", unit="pages of 4 KiB")
    flush_commit_log_thorough_interval: int = setting(
        "flushCommitLogThoroughInterval", _STORE.flush_thorough_interval_ms,
        "flush everything this often", unit="ms", floor=1)
    max_message_size: int = setting("maxMessageSize", _STORE.max_message_bytes,
        "largest body", unit="bytes", floor=1024, ceiling=1 << 30)
    message_delay_level: str = setting("messageDelayLevel", _STORE.delay_levels, "the delay levels")
    enable_schedule_message_stats: bool = setting("enableScheduleMessageStats", True,
        "count the delayed messages that were delivered")

    # reading
    max_transfer_bytes_on_message_in_memory: int = setting(
        "maxTransferBytesOnMessageInMemory", _STORE.max_transfer_memory_bytes,
        "reply size of a pull from memory", unit="bytes", floor=1, important=True)
    max_transfer_count_on_message_in_memory: int = setting(
        "maxTransferCountOnMessageInMemory", _STORE.max_transfer_memory_count,
        "messages of a pull from memory", floor=1, important=True)
    max_transfer_bytes_on_message_in_disk: int = setting(
        "maxTransferBytesOnMessageInDisk", _STORE.max_transfer_disk_bytes,
        "reply size of a pull that waits for the disk", unit="bytes", floor=1, important=True)
    max_transfer_count_on_message_in_disk: int = setting(
        "maxTransferCountOnMessageInDisk", _STORE.max_transfer_disk_count,
        "messages of a pull that waits for the disk", floor=1, important=True)
    access_message_in_memory_max_ratio: int = setting(
        "accessMessageInMemoryMaxRatio", _STORE.hot_memory_percent,
        "share of the memory within which messages are not for a slave",
        unit="%", floor=1, ceiling=100, important=True)
    default_query_max_num: int = setting("defaultQueryMaxNum", 32,
        "most messages of a unique-key query", floor=1, ceiling=4096)
    os_page_cache_busy_time_out_mills: int = setting(
        "osPageCacheBusyTimeOutMills", _STORE.page_cache_busy_ms,
        "refuse sends while the log lock is held longer", unit="ms", floor=1)

    # cleaning
    file_reserved_time: int = setting("fileReservedTime", _STORE.reserved_hours,
        "files of the log not written for longer go",
        unit="hours", floor=1, online=True, important=True)
    delete_when: str = setting("deleteWhen", _STORE.delete_when,
        "hours of the day in which old files go, separated by ;", online=True, important=True)
    disk_max_used_space_ratio: int = setting("diskMaxUsedSpaceRatio", _STORE.disk_max_used_percent,
        "above it old files go at any hour", unit="%", floor=10, ceiling=95, online=True)
    disk_space_clean_forcibly_ratio: int = setting(
        "diskSpaceCleanForciblyRatio", _STORE.disk_forcible_percent,
        "above it the oldest files go, whatever their age",
        unit="%", floor=10, ceiling=99, online=True, known_to=ROCKETMQ_5)
    disk_space_warning_level_ratio: int = setting(
        "diskSpaceWarningLevelRatio", _STORE.disk_warning_percent,
        "above it sends are refused as well",
        unit="%", floor=10, ceiling=99, online=True, known_to=ROCKETMQ_5)
    clean_file_forcibly_enable: bool = setting(
        "cleanFileForciblyEnable", _STORE.clean_forcibly_enabled,
        "files may go before their age", online=True, important=True)
    clean_resource_interval: int = setting("cleanResourceInterval", _STORE.clean_interval_ms,
        "how often it is looked whether files must go", unit="ms", floor=1)
    delete_commit_log_files_interval: int = setting(
        "deleteCommitLogFilesInterval", _STORE.delete_log_pause_ms,
        "pause between two deletions", unit="ms", online=True)
    delete_consume_queue_files_interval: int = setting(
        "deleteConsumeQueueFilesInterval", _STORE.delete_queue_pause_ms,
        "pause between queues with deletions", unit="ms", online=True)
    redelete_hanged_file_interval: int = setting(
        "redeleteHangedFileInterval", _STORE.delete_retry_ms,
        "a file that could not be deleted is tried again", unit="ms", floor=1, online=True)

    # queues
    flush_delay_offset_interval: int = setting(
        "flushDelayOffsetInterval", _STORE.flush_delay_offsets_interval_ms,
        "how often the progress of delayed messages is saved", unit="ms", floor=1)
    enable_consume_queue_ext: bool = setting("enableConsumeQueueExt", _STORE.queue_ext_enabled,
        "write the consume-queue extension")
    mapped_file_size_consume_queue_ext: int = setting("mappedFileSizeConsumeQueueExt", 50_331_648,
        "size of an extension file; adopted", unit="bytes", floor=64, ceiling=_GIB)
    bit_map_length_consume_queue_ext: int = setting(
        "bitMapLengthConsumeQueueExt", _STORE.queue_ext_bitmap_bits,
        "filter bits of a message", unit="bits", floor=1, ceiling=65_536)
    enable_multi_dispatch: bool = setting("enableMultiDispatch", _STORE.multi_dispatch_enabled,
        "messages enter the queues INNER_MULTI_DISPATCH names")
    enable_lmq: bool = setting(
        "enableLmq", _STORE.lmq_enabled, "these may be light queues (%LMQ%...)")
    max_lmq_consume_queue_num: int = setting("maxLmqConsumeQueueNum", _STORE.lmq_queues_max,
        "most light queues", floor=1)
    flush_consumer_offset_interval: int = setting(
        "flushConsumerOffsetInterval", _STORE.flush_offsets_interval_ms,
        "persist committed offsets", unit="ms", floor=100)
    # fmt: on


STORE_INERT = (
    inert("readOnlyCommitLogStorePaths", "", _LATER),
    inert("storePathDLedgerCommitLog", "", "DLedger is not built", important=True),
    inert("enableDLegerCommitLog", False, "DLedger is not built"),
    inert("dLegerGroup", "", "DLedger is not built"),
    inert("dLegerPeers", "", "DLedger is not built"),
    inert("dLegerSelfId", "", "DLedger is not built"),
    inert("preferredLeaderId", "", "DLedger is not built"),
    inert("isEnableBatchPush", False, "DLedger is not built"),
    inert("destroyMapedFileIntervalForcibly", 120000, _OWN_WAY),
    inert("enableScheduleAsyncDeliver", False, _LATER),
    inert("scheduleAsyncDeliverMaxPendingLimit", 2000, _LATER),
    inert("scheduleAsyncDeliverMaxResendNum2Blocked", 3, _LATER),
    inert("haListenPort", 10912, "replication is not built yet"),
    inert("haSendHeartbeatInterval", 5000, "replication is not built yet"),
    inert("haHousekeepingInterval", 20000, "replication is not built yet"),
    inert("haTransferBatchSize", 32768, "replication is not built yet"),
    inert("haMasterAddress", "", "replication is not built yet", important=True),
    inert("haSlaveFallbehindMax", 268435456, "replication is not built yet"),
    inert("slaveTimeout", 3000, "replication is not built yet"),
    inert("offsetCheckInSlave", False, "replication is not built yet"),
    inert("duplicationEnable", False, "replication is not built yet"),
    inert("messageIndexSafe", False, "recovery always rebuilds what it must", important=True),
    inert("commitIntervalCommitLog", 200, _OWN_WAY, important=True),
    inert("commitCommitLogLeastPages", 4, _OWN_WAY),
    inert("commitCommitLogThoroughInterval", 200, _OWN_WAY),
    inert("flushCommitLogTimed", True, _OWN_WAY, important=True),
    inert("flushIntervalConsumeQueue", 1000, _OWN_WAY),
    inert("flushConsumeQueueLeastPages", 2, _OWN_WAY),
    inert("flushConsumeQueueThoroughInterval", 60000, _OWN_WAY),
    inert("flushLeastPagesWhenWarmMapedFile", 4096, _OWN_WAY),
    inert("warmMapedFileEnable", False, _OWN_WAY),
    inert("transientStorePoolEnable", False, _OWN_WAY, important=True),
    inert("transientStorePoolSize", 5, _OWN_WAY),
    inert("fastFailIfNoBufferInStorePool", False, _OWN_WAY),
    inert("useReentrantLockWhenPutMessage", True, _OWN_WAY),
    inert("putMsgIndexHightWater", 600000, "unused by RocketMQ too"),
    inert("diskFallRecorded", True, "unused by RocketMQ too"),
    inert("debugLockEnable", False, "there is no such lock"),
)
