"""The store's settings: RocketMQ's MessageStoreConfig (store.md 11), and our own keys."""

from __future__ import annotations

from mqserver.config.table import INT_MAX, LONG_MAX, Setting, inert

_GIB = 1 << 30
_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_LATER = "not built yet"
_OWN_WAY = "the store flushes and allocates in its own way"


_PLACE = (
    Setting("storePathRootDir", "~/store", "the store's directory", important=True),
    Setting("storePathCommitLog", "", "the log's directory, which may be on another disk; "
            "{storePathRootDir}/commitlog becomes a link to it; empty: that itself",
            important=True),
    Setting("mappedFileSizeCommitLog", _GIB, "size of a commit-log file; an existing store's is "
            "adopted unless this is set", unit="bytes", floor=4096, ceiling=INT_MAX,
            aliases=("mapedFileSizeCommitLog",)),
    Setting("mappedFileSizeConsumeQueue", 6_000_000, "size of a consume-queue file, a multiple "
            "of 20; adopted like the commit log's", unit="bytes", floor=20, ceiling=_GIB,
            aliases=("mapedFileSizeConsumeQueue",)),
    Setting("maxHashSlotNum", 5_000_000, "slots of an index file; adopted", floor=1,
            ceiling=100_000_000),
    Setting("maxIndexNum", 20_000_000, "entries of an index file; adopted", floor=2,
            ceiling=500_000_000),
    Setting("messageIndexEnable", True, "index KEYS and unique ids", important=True),
    Setting("maxMsgsNumBatch", 64, "most messages of a query", floor=1, ceiling=4096),
    Setting("minFreeBytes", 0, "refuse sends below this much free space, and delete the oldest "
            "files below twice as much; 0: by the ratios of the disk", unit="bytes",
            ceiling=LONG_MAX),
    Setting("allocateStepBytes", 64 << 20, "blocks allocated ahead of the write position",
            unit="bytes", floor=4096, ceiling=4 * _GIB),
    Setting("damagePolicy", "heal", "what a damaged log gets", choices=("heal", "refuse")),
    Setting("checkCRCOnRecover", True, "after a clean stop, the start compares the message bodies "
            "in the last three files with their CRC; recovery after a crash always does"),
)  # fmt: skip

_DURABILITY = (
    Setting("brokerRole", "ASYNC_MASTER", "role of the broker",
            choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"), important=True),
    Setting("flushDiskType", "ASYNC_FLUSH", "acknowledge before or after the flush",
            choices=("ASYNC_FLUSH", "SYNC_FLUSH"), important=True),
    Setting("syncFlushTimeout", 5000, "give up waiting for a flush", unit="ms", floor=1),
    Setting("flushIntervalCommitLog", 500, "period of the asynchronous flush", unit="ms", floor=1,
            important=True),
    Setting("flushCommitLogLeastPages", 4, "least to flush", unit="pages of 4 KiB"),
    Setting("flushCommitLogThoroughInterval", 10_000, "flush everything this often", unit="ms",
            floor=1),
    Setting("maxMessageSize", 4 << 20, "largest body", unit="bytes", floor=1024,
            ceiling=1 << 30),
    Setting("messageDelayLevel", _LEVELS, "the delay levels"),
    Setting("enableScheduleMessageStats", True, "count the delayed messages that were delivered"),
)  # fmt: skip

_READING = (
    Setting("maxTransferBytesOnMessageInMemory", 262_144, "reply size of a pull from memory",
            unit="bytes", floor=1, important=True),
    Setting("maxTransferCountOnMessageInMemory", 32, "messages of a pull from memory", floor=1,
            important=True),
    Setting("maxTransferBytesOnMessageInDisk", 65_536,
            "reply size of a pull that waits for the disk", unit="bytes", floor=1, important=True),
    Setting("maxTransferCountOnMessageInDisk", 8,
            "messages of a pull that waits for the disk", floor=1, important=True),
    Setting("accessMessageInMemoryMaxRatio", 40,
            "share of the memory within which messages are not for a slave", unit="%", floor=1,
            ceiling=100, important=True),
    Setting("defaultQueryMaxNum", 32, "most messages of a unique-key query", floor=1,
            ceiling=4096),
    Setting("osPageCacheBusyTimeOutMills", 1000, "refuse sends while the log lock is held longer",
            unit="ms", floor=1),
)  # fmt: skip

_CLEANING = (
    Setting("fileReservedTime", 72, "files of the log not written for longer go", unit="hours",
            floor=1, online=True, important=True),
    Setting("deleteWhen", "04", "hours of the day in which old files go, separated by ;",
            online=True, important=True),
    Setting("diskMaxUsedSpaceRatio", 75, "above it old files go at any hour", unit="%", floor=10,
            ceiling=95, online=True),
    Setting("diskSpaceCleanForciblyRatio", 85, "above it the oldest files go, whatever their age",
            unit="%", floor=10, ceiling=99, online=True),
    Setting("diskSpaceWarningLevelRatio", 90, "above it sends are refused as well", unit="%",
            floor=10, ceiling=99, online=True),
    Setting("cleanFileForciblyEnable", True, "files may go before their age", online=True,
            important=True),
    Setting("cleanResourceInterval", 10_000, "how often it is looked whether files must go",
            unit="ms", floor=1),
    Setting("deleteCommitLogFilesInterval", 100, "pause between two deletions", unit="ms",
            online=True),
    Setting("deleteConsumeQueueFilesInterval", 100, "pause between queues with deletions",
            unit="ms", online=True),
    Setting("redeleteHangedFileInterval", 120_000, "a file that could not be deleted is tried "
            "again", unit="ms", floor=1, online=True),
)  # fmt: skip

_QUEUES = (
    Setting("flushDelayOffsetInterval", 10_000, "how often the progress of delayed messages is "
            "saved", unit="ms", floor=1),
    Setting("enableConsumeQueueExt", False, "write the consume-queue extension"),
    Setting("mappedFileSizeConsumeQueueExt", 50_331_648, "size of an extension file; adopted",
            unit="bytes", floor=64, ceiling=_GIB),
    Setting("bitMapLengthConsumeQueueExt", 64, "filter bits of a message", unit="bits", floor=1,
            ceiling=65_536),
    Setting("enableMultiDispatch", False, "messages enter the queues INNER_MULTI_DISPATCH names"),
    Setting("enableLmq", False, "these may be light queues (%LMQ%...)"),
    Setting("maxLmqConsumeQueueNum", 20_000, "most light queues", floor=1),
)  # fmt: skip

_INERT = (
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

STORE_ROWS = (*_PLACE, *_DURABILITY, *_READING, *_CLEANING, *_QUEUES, *_INERT)
