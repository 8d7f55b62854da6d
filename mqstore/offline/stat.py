"""A summary of a store: sizes, condition, extent, and the settings that open it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mqcommon.names import LIGHT_PREFIX
from mqstore.offline.report import Checkpoint, Condition, Layout, QueueSummary

__all__ = ["PartSize", "StoreStat", "broker_conf", "part_sizes"]

PARTS = ("commitlog", "consumequeue", "consumequeue_ext", "index")


@dataclass(frozen=True, slots=True)
class PartSize:
    """Files of one part of a store."""

    name: str
    """Its directory: commitlog, consumequeue, consumequeue_ext or index."""
    files: int
    """Number of files."""
    length_bytes: int
    """Sum of their lengths; RocketMQ creates files at full length, mostly empty at first."""
    disk_bytes: int
    """Bytes that they occupy on the disk."""


@dataclass(frozen=True, slots=True)
class StoreStat:
    """Summary of a store; `StoreReader.stat` makes it."""

    path: Path
    """Root of the store."""
    condition: Condition
    """Whether the store is in use, clean, or was left by a crash."""
    layout: Layout
    """Sizes of its files."""
    parts: tuple[PartSize, ...]
    """Files and bytes of each part."""
    begin_physical_offset: int
    """Start of the log, bytes."""
    end_physical_offset: int
    """End of the newest record that was found, bytes."""
    queued_physical_offset: int
    """End of the newest record that a consume queue lists, bytes."""
    first_store_timestamp_ms: int | None
    """Store time of the oldest record, None without any."""
    last_store_timestamp_ms: int | None
    """Store time of the newest record."""
    checkpoint: Checkpoint | None
    """The last flush of each kind of file, as recorded by the broker."""
    topics: tuple[str, ...]
    """Topics with a queue on disk or in config/topics.json, sorted."""
    groups: tuple[str, ...]
    """Consumer groups known to the store, sorted."""
    queue_count: int
    """Consume queues on disk."""
    message_count: int
    """Messages that the queues list."""
    above_read_count: tuple[QueueSummary, ...]
    """Queues with messages that consumers do not get: the topic has fewer read queues now."""
    unread: tuple[tuple[str, str], ...]
    """Files of a newer RocketMQ that cannot be read: path in the store, description."""
    broker_conf: dict[str, str]
    """The settings of a broker.conf that open this store."""


def part_sizes(root: Path) -> tuple[PartSize, ...]:
    """The sizes of the store's parts."""
    return tuple(_part(root, name) for name in PARTS if (root / name).is_dir())


def _part(root: Path, name: str) -> PartSize:
    """Count the files of a part; ignores a file that a broker deletes at the same time."""
    files = length = disk = 0
    for directory, _, names in os.walk(root / name):
        for file in names:
            try:
                found = os.stat(os.path.join(directory, file))
            except FileNotFoundError:
                continue
            files += 1
            length += found.st_size
            disk += found.st_blocks * 512
    return PartSize(name, files, length, disk)


def broker_conf(root: Path, layout: Layout, topics: set[str]) -> dict[str, str]:
    """A broker.conf that opens the store, without sizes that its files do not show."""
    sizes = {
        "mappedFileSizeCommitLog": layout.commit_log_file_bytes,
        "mappedFileSizeConsumeQueue": layout.consume_queue_file_bytes,
        "maxHashSlotNum": layout.index_slots,
        "maxIndexNum": layout.index_entries,
    }
    settings = {"storePathRootDir": str(root.absolute())}
    settings |= {key: str(size) for key, size in sizes.items() if size is not None}
    extended = next((root / "consumequeue_ext").glob("*/*/[0-9]*"), None)
    if extended is not None:
        settings["enableConsumeQueueExt"] = "true"
        settings["mappedFileSizeConsumeQueueExt"] = str(extended.stat().st_size)
    if any(topic.startswith(LIGHT_PREFIX) for topic in topics):
        settings |= {"enableLmq": "true", "enableMultiDispatch": "true"}
    return settings
