"""The store's settings: RocketMQ's MessageStoreConfig, and our own keys."""

from __future__ import annotations

from mqserver.config.table import INT_MAX, LONG_MAX, ROCKETMQ_5, Group, inert, ours, setting
from mqstore import Settings

_STORE = Settings()
_GIB = 1 << 30
_LATER = "not built yet"
_OWN_WAY = "the store has its own way to flush and to allocate files"


class StoreSettings(Group):
    """The settings of a broker's store; `mqstore.Settings` has most of them, with the same keys."""

    # fmt: off
    # place and files
    store_path_root_dir: str = setting("storePathRootDir", "~/store",
        "directory of the store", important=True)
    store_path_commit_log: str = setting("storePathCommitLog", "",
        "directory of the commit log, which may be on another disk; {storePathRootDir}/commitlog "
        "becomes a link to it; empty: {storePathRootDir}/commitlog itself", important=True)
    mapped_file_size_commit_log: int = setting("mappedFileSizeCommitLog", _GIB,
        "size of a commit-log file; not set: the size that an existing store has",
        unit="bytes", floor=4096, ceiling=INT_MAX, aliases=("mapedFileSizeCommitLog",))
    mapped_file_size_consume_queue: int = setting("mappedFileSizeConsumeQueue", 6_000_000,
        "size of a consume-queue file, a multiple of 20; not set: the size that an existing store "
        "has",
        unit="bytes", floor=20, ceiling=_GIB, aliases=("mapedFileSizeConsumeQueue",))
    max_hash_slot_num: int = setting("maxHashSlotNum", 5_000_000,
        "hash slots of an index file; not set: the number that an existing store has",
        floor=1, ceiling=100_000_000)
    max_index_num: int = setting("maxIndexNum", 20_000_000,
        "entries of an index file; not set: the number that an existing store has",
        floor=2, ceiling=500_000_000)
    message_index_enable: bool = setting("messageIndexEnable", _STORE.index_enabled,
        "index messages by their keys and unique ids; false saves disk writes, and messages "
        "cannot be queried by key", important=True)
    max_msgs_num_batch: int = setting("maxMsgsNumBatch", _STORE.query_count_max,
        "most messages that a query by key returns", floor=1, ceiling=4096)
    min_free_bytes: int = ours("minFreeBytes", 0,
        "refuse sends when less disk space than this is free, and delete the oldest files when "
        "less than twice as much is free; 0: use the disk ratios below",
        unit="bytes", ceiling=LONG_MAX)
    allocate_step_bytes: int = ours("allocateStepBytes", 64 << 20,
        "disk space to allocate at a time, ahead of the write position; larger steps mean fewer "
        "allocations",
        unit="bytes", floor=4096, ceiling=4 * _GIB)
    damage_policy: str = ours("damagePolicy", "repair",
        "what recovery does about damage in the middle of the log: repair replaces the damaged "
        "part, refuse does not open the store", choices=("repair", "refuse"))
    check_crc_on_recover: bool = setting("checkCRCOnRecover", _STORE.check_crc_on_recover,
        "check the bodies of messages in the last three files against their CRC at the start "
        "after a clean stop; the recovery from a crash always does")

    # durability
    flush_disk_type: str = setting("flushDiskType", "ASYNC_FLUSH",
        "when a send is acknowledged: SYNC_FLUSH after the message is on the disk, ASYNC_FLUSH "
        "before (a crash of the machine can lose messages)",
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"), important=True)
    sync_flush_timeout: int = setting("syncFlushTimeout", _STORE.sync_flush_timeout_ms,
        "longest time a send waits for its flush with SYNC_FLUSH; then the answer is "
        "FLUSH_DISK_TIMEOUT", unit="ms", floor=1)
    flush_interval_commit_log: int = setting("flushIntervalCommitLog", _STORE.flush_interval_ms,
        "interval of the asynchronous flush", unit="ms", floor=1, important=True)
    flush_commit_log_least_pages: int = setting(
        "flushCommitLogLeastPages", _STORE.flush_least_pages,
        "skip an asynchronous flush while fewer pages than this are dirty", unit="pages of 4 KiB")
    flush_commit_log_thorough_interval: int = setting(
        "flushCommitLogThoroughInterval", _STORE.flush_thorough_interval_ms,
        "interval at which the asynchronous flush writes everything, however little",
        unit="ms", floor=1)
    max_message_size: int = setting("maxMessageSize", _STORE.max_message_bytes,
        "largest message body that the broker accepts", unit="bytes", floor=1024, ceiling=1 << 30)
    message_delay_level: str = setting("messageDelayLevel", _STORE.delay_levels,
        "delays of the levels 1, 2, ..., separated by spaces: each is a number with s, m, h or d")
    enable_schedule_message_stats: bool = setting("enableScheduleMessageStats", True,
        "count delivered delayed messages in the statistics")

    # reading
    max_transfer_bytes_on_message_in_memory: int = setting(
        "maxTransferBytesOnMessageInMemory", _STORE.max_transfer_memory_bytes,
        "most bytes that a pull returns of messages in memory",
        unit="bytes", floor=1, important=True)
    max_transfer_count_on_message_in_memory: int = setting(
        "maxTransferCountOnMessageInMemory", _STORE.max_transfer_memory_count,
        "most messages that a pull returns of those in memory", floor=1, important=True)
    max_transfer_bytes_on_message_in_disk: int = setting(
        "maxTransferBytesOnMessageInDisk", _STORE.max_transfer_disk_bytes,
        "most bytes that a pull returns when it has to read the disk",
        unit="bytes", floor=1, important=True)
    max_transfer_count_on_message_in_disk: int = setting(
        "maxTransferCountOnMessageInDisk", _STORE.max_transfer_disk_count,
        "most messages that a pull returns when it has to read the disk", floor=1, important=True)
    access_message_in_memory_max_ratio: int = setting(
        "accessMessageInMemoryMaxRatio", _STORE.hot_memory_percent,
        "share of the machine's memory: the newest messages of this total size count as in "
        "memory, and consumers of older ones may be sent to a slave",
        unit="%", floor=1, ceiling=100, important=True)
    default_query_max_num: int = setting("defaultQueryMaxNum", 32,
        "most messages that a query by unique key returns", floor=1, ceiling=4096)
    os_page_cache_busy_time_out_mills: int = setting(
        "osPageCacheBusyTimeOutMills", _STORE.page_cache_busy_ms,
        "refuse sends while one write has held the log's lock for longer than this, because the "
        "disk is too slow", unit="ms", floor=1)

    # cleaning
    file_reserved_time: int = setting("fileReservedTime", _STORE.reserved_hours,
        "delete log files that were not written for this long, at the hours of deleteWhen",
        unit="hours", floor=1, online=True, important=True)
    delete_when: str = setting("deleteWhen", _STORE.delete_when,
        "hours of the day at which expired files are deleted, separated by ;",
        online=True, important=True)
    disk_max_used_space_ratio: int = setting("diskMaxUsedSpaceRatio", _STORE.disk_max_used_percent,
        "disk usage above which expired files are deleted at any hour",
        unit="%", floor=10, ceiling=95, online=True)
    disk_space_clean_forcibly_ratio: int = setting(
        "diskSpaceCleanForciblyRatio", _STORE.disk_forcible_percent,
        "disk usage above which the oldest files are deleted before they expire",
        unit="%", floor=10, ceiling=99, online=True, known_to=ROCKETMQ_5)
    disk_space_warning_level_ratio: int = setting(
        "diskSpaceWarningLevelRatio", _STORE.disk_warning_percent,
        "disk usage above which the broker also refuses sends",
        unit="%", floor=10, ceiling=99, online=True, known_to=ROCKETMQ_5)
    clean_file_forcibly_enable: bool = setting(
        "cleanFileForciblyEnable", _STORE.clean_forcibly_enabled,
        "allow the broker to delete files before they expire when the disk is full",
        online=True, important=True)
    clean_resource_interval: int = setting("cleanResourceInterval", _STORE.clean_interval_ms,
        "interval between checks for files to delete", unit="ms", floor=1)
    delete_commit_log_files_interval: int = setting(
        "deleteCommitLogFilesInterval", _STORE.delete_log_pause_ms,
        "pause between two deletions of log files", unit="ms", online=True)
    delete_consume_queue_files_interval: int = setting(
        "deleteConsumeQueueFilesInterval", _STORE.delete_queue_pause_ms,
        "pause between two queues whose files are deleted", unit="ms", online=True)
    redelete_hanged_file_interval: int = setting(
        "redeleteHangedFileInterval", _STORE.delete_retry_ms,
        "time after which a failed deletion is tried again", unit="ms", floor=1, online=True)

    # queues
    flush_delay_offset_interval: int = setting(
        "flushDelayOffsetInterval", _STORE.flush_delay_offsets_interval_ms,
        "interval at which the progress of delayed messages is saved", unit="ms", floor=1)
    enable_consume_queue_ext: bool = setting("enableConsumeQueueExt", _STORE.queue_ext_enabled,
        "write the consume-queue extension, which holds tags code, store time and filter bits of "
        "each message")
    mapped_file_size_consume_queue_ext: int = setting("mappedFileSizeConsumeQueueExt", 50_331_648,
        "size of a file of the consume-queue extension; not set: the size that an existing store "
        "has", unit="bytes", floor=64, ceiling=_GIB)
    bit_map_length_consume_queue_ext: int = setting(
        "bitMapLengthConsumeQueueExt", _STORE.queue_ext_bitmap_bits,
        "filter bits per message in the consume-queue extension",
        unit="bits", floor=1, ceiling=65_536)
    enable_multi_dispatch: bool = setting("enableMultiDispatch", _STORE.multi_dispatch_enabled,
        "add a message to the further queues that its property INNER_MULTI_DISPATCH names")
    enable_lmq: bool = setting(
        "enableLmq", _STORE.lmq_enabled,
        "allow light queues (%LMQ%...) as the further queues of enableMultiDispatch")
    max_lmq_consume_queue_num: int = setting("maxLmqConsumeQueueNum", _STORE.lmq_queues_max,
        "most light queues", floor=1)
    flush_consumer_offset_interval: int = setting(
        "flushConsumerOffsetInterval", _STORE.flush_offsets_interval_ms,
        "interval at which committed offsets are saved; after a crash, consumers may get messages "
        "of this interval again", unit="ms", floor=100)
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
    inert("duplicationEnable", False, "belongs to DLedger"),
    inert("messageIndexSafe", False, "recovery always repairs the index", important=True),
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
    inert("putMsgIndexHightWater", 600000, "RocketMQ does not use it either"),
    inert("diskFallRecorded", True, "RocketMQ does not use it either"),
    inert("debugLockEnable", False, "the store has no such lock"),
)
