"""The store engine: appends messages, maintains queues and index, recovers after a crash."""

import os
from dataclasses import dataclass, field, fields
from typing import Self, TypeVar

from mqcommon import _core, core_logs
from mqcommon._core import GetResult, PutResult, QueryResult, bloom_bits, check_sql

__all__ = ["GetResult", "PutResult", "QueryResult", "Settings", "Store", "bloom_bits", "check_sql"]

T = TypeVar("T")


def _setting(default: T, key: str, unit: str = "") -> T:
    """A field with RocketMQ's key and its unit in the metadata."""
    declared: T = field(default=default, metadata={"key": key, "unit": unit})
    return declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a store, given when it is opened.

    Each field's metadata names RocketMQ's key and the unit (`key`, `unit`; key "" where
    RocketMQ has none). None for a file size uses the size of the store's files, or RocketMQ's
    default for a new store; a size that differs from existing files is refused with UnknownLayout.

    >>> from dataclasses import fields
    >>> {f.name: f.metadata["key"] for f in fields(Settings)}["sync_flush"]
    'flushDiskType'
    """

    commit_log_path: str | None = _setting(None, "storePathCommitLog")
    """The log's directory, if it is not the store's `commitlog`, which then becomes a link."""
    commit_log_file_bytes: int | None = _setting(None, "mappedFileSizeCommitLog", "bytes")
    """Length of a commit-log file; default 1 GiB."""
    consume_queue_file_bytes: int | None = _setting(None, "mappedFileSizeConsumeQueue", "bytes")
    """Length of a consume-queue file, rounded up to 20; default 6,000,000."""
    index_slots: int | None = _setting(None, "maxHashSlotNum", "slots")
    """Hash slots of an index file; default 5,000,000."""
    index_entries: int | None = _setting(None, "maxIndexNum", "entries")
    """Entries of an index file; default 20,000,000."""
    role: str = _setting("master", "brokerRole")
    """What the store does with its log: "master" takes puts, "slave" copies a master's log,
    "read_only" changes nothing. `Store.set_role` changes it later."""
    sync_flush: bool = _setting(False, "flushDiskType")
    """True means SYNC_FLUSH: the store acknowledges a put when it is on the disk."""
    flush_interval_ms: int = _setting(500, "flushIntervalCommitLog", "ms")
    """Period of the asynchronous flush."""
    flush_least_pages: int = _setting(4, "flushCommitLogLeastPages", "pages of 4 KiB")
    """The asynchronous flush skips the log while it has fewer dirty pages than this."""
    flush_thorough_interval_ms: int = _setting(10_000, "flushCommitLogThoroughInterval", "ms")
    """Period of the flush that writes everything, whatever its size."""
    sync_flush_timeout_ms: int = _setting(5_000, "syncFlushTimeout", "ms")
    """Timeout of a put for its flush; then the answer is FLUSH_DISK_TIMEOUT."""
    max_message_bytes: int = _setting(4 << 20, "maxMessageSize", "bytes")
    """Most bytes of a body."""
    delay_levels: str = _setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", "messageDelayLevel"
    )
    """Delays of the levels 1, 2, ...: each is a number with s, m, h or d."""
    index_enabled: bool = _setting(True, "messageIndexEnable")
    """Whether messages can be found by key."""
    allocate_step_bytes: int = _setting(64 << 20, "", "bytes")
    """Blocks are allocated ahead of the write position in steps of this size."""
    min_free_bytes: int | None = _setting(None, "", "bytes")
    """Refuse puts if the free space is less than this, and delete the oldest files below twice
    this; None uses RocketMQ's ratios (`disk_warning_percent` and the others)."""
    repair_damage: bool = _setting(True, "damagePolicy")
    """Whether recovery replaces damage in the middle of the log (repair) or refuses to open."""
    check_crc_on_recover: bool = _setting(True, "checkCRCOnRecover")
    """Whether the check after a clean stop compares message bodies with their CRC. Recovery after
    an unclean stop always does."""
    flush_offsets_interval_ms: int = _setting(5_000, "flushConsumerOffsetInterval", "ms")
    """Period in which committed offsets are persisted."""
    max_transfer_memory_count: int = _setting(32, "maxTransferCountOnMessageInMemory", "messages")
    """Most messages of one read while they are in memory."""
    max_transfer_memory_bytes: int = _setting(
        256 << 10, "maxTransferBytesOnMessageInMemory", "bytes"
    )
    """Most bytes of one read while they are in memory."""
    max_transfer_disk_count: int = _setting(8, "maxTransferCountOnMessageInDisk", "messages")
    """Most messages of one read from disk."""
    max_transfer_disk_bytes: int = _setting(64 << 10, "maxTransferBytesOnMessageInDisk", "bytes")
    """Most bytes of one read from disk."""
    hot_memory_percent: int = _setting(40, "accessMessageInMemoryMaxRatio", "%")
    """The newest part of the log, in percent of the machine's memory, counts as in memory."""
    query_count_max: int = _setting(64, "maxMsgsNumBatch", "messages")
    """Most messages of a query."""
    page_cache_busy_ms: int = _setting(1_000, "osPageCacheBusyTimeOutMills", "ms")
    """Refuse puts while the put lock has been held longer than this, because the disk lags."""
    flush_delay_offsets_interval_ms: int = _setting(10_000, "flushDelayOffsetInterval", "ms")
    """Period in which the progress of delayed messages is persisted."""
    reserved_hours: int = _setting(72, "fileReservedTime", "hours")
    """Delete log files that are older than this since their last write, in the hours of
    `delete_when`."""
    delete_when: str = _setting("04", "deleteWhen", "hours of the day")
    """Hours in which old files are deleted, separated by ";"."""
    disk_max_used_percent: int = _setting(75, "diskMaxUsedSpaceRatio", "%")
    """On a partition fuller than this, delete old files at any hour."""
    disk_forcible_percent: int = _setting(85, "diskSpaceCleanForciblyRatio", "%")
    """On a partition fuller than this, delete the oldest files at any age."""
    disk_warning_percent: int = _setting(90, "diskSpaceWarningLevelRatio", "%")
    """On a partition fuller than this, refuse puts as well."""
    clean_forcibly_enabled: bool = _setting(True, "cleanFileForciblyEnable")
    """Whether files may be deleted before `reserved_hours`."""
    clean_interval_ms: int = _setting(10_000, "cleanResourceInterval", "ms")
    """Period of the check for files to delete."""
    delete_log_pause_ms: int = _setting(100, "deleteCommitLogFilesInterval", "ms")
    """Pause between two deletions of log files."""
    delete_queue_pause_ms: int = _setting(100, "deleteConsumeQueueFilesInterval", "ms")
    """Pause between two queues with deletions."""
    delete_retry_ms: int = _setting(120_000, "redeleteHangedFileInterval", "ms")
    """Period after which a failed deletion is tried again."""
    queue_ext_enabled: bool = _setting(False, "enableConsumeQueueExt")
    """Whether consume queues get an extension with tags code, store time and filter bits."""
    queue_ext_file_bytes: int | None = _setting(None, "mappedFileSizeConsumeQueueExt", "bytes")
    """Length of an extension file; default 50,331,648, an existing store's is adopted."""
    queue_ext_bitmap_bits: int = _setting(64, "bitMapLengthConsumeQueueExt", "bits")
    """Filter bits of a message in the extension."""
    multi_dispatch_enabled: bool = _setting(False, "enableMultiDispatch")
    """Whether messages are also added to the queues that INNER_MULTI_DISPATCH names."""
    lmq_enabled: bool = _setting(False, "enableLmq")
    """Whether these queues may be light queues (`%LMQ%...`)."""
    lmq_queues_max: int = _setting(20_000, "maxLmqConsumeQueueNum", "queues")
    """Maximum number of light queues."""

    def as_dict(self) -> dict[str, object]:
        """Every field by name, in the form for the compiled engine."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


class Store(_core.Store):
    """A store directory opened for writing: one process at a time, any number of threads.

    path: the store's root. settings: see `Settings`. create: create the directory if it is missing.
    Opening recovers the store after a crash. Use it as a context manager, or call `close()`; a
    store that is not closed is recovered at the next open. To read without the lock, see
    `mqstore.open`.
    Raises StoreLocked, UnknownLayout, StoreDamaged, SettingError, and OSError for file errors
    (FileNotFoundError if the directory is missing and `create` is False).

    >>> import tempfile
    >>> root = tempfile.TemporaryDirectory()
    >>> with Store(root.name, Settings(commit_log_file_bytes=1 << 20), create=True) as store:
    ...     put = store.put("TopicTest", b"Hello RocketMQ")
    ...     print(put.status, put.queue_offset)
    PUT_OK 0
    """

    __slots__ = ()

    def __new__(
        cls,
        path: str | os.PathLike[str],
        settings: Settings | None = None,
        create: bool = False,
    ) -> Self:
        """Open the store at a path."""
        core_logs.forward()
        fields = (settings or Settings()).as_dict()
        return super().__new__(cls, os.fspath(path), fields, create)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
