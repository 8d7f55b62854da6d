"""Reads a store directory, ours or Java's, without changing it.

It takes no lock, does no recovery and creates no files, so a broker may run on the directory at the
same time.

    reader = mqstore.open("/var/lib/rocketmq/store")
    for message in reader.records(topic="TopicTest"):
        print(message.msg_id, message.body)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mqstore.offline.reader import StoreReader, open
from mqstore.offline.walk import Chunk, Gap, LogWalk, Wanted

if TYPE_CHECKING:
    from mqstore.offline.materialize import json_lines
    from mqstore.offline.repairing import cut, rebuild, repair
    from mqstore.offline.report import (
        Checkpoint,
        Condition,
        Finding,
        GroupOutlook,
        Layout,
        QueueSummary,
        RepairReport,
        VerifyReport,
    )
    from mqstore.offline.stat import PartSize, StoreStat
    from mqstore.offline.views import (
        INDEX_ENTRY_FIELDS,
        QUEUE_UNIT_FIELDS,
        IndexView,
        QueueView,
    )

_HOMES = {
    "INDEX_ENTRY_FIELDS": "views",
    "QUEUE_UNIT_FIELDS": "views",
    "Checkpoint": "report",
    "Condition": "report",
    "Finding": "report",
    "GroupOutlook": "report",
    "IndexView": "views",
    "Layout": "report",
    "PartSize": "stat",
    "QueueSummary": "report",
    "QueueView": "views",
    "RepairReport": "report",
    "StoreStat": "stat",
    "VerifyReport": "report",
    "cut": "repairing",
    "json_lines": "materialize",
    "rebuild": "repairing",
    "repair": "repairing",
}
"""The module of each name; it is imported at the first use, so that commands start fast."""

__all__ = [
    "INDEX_ENTRY_FIELDS",
    "QUEUE_UNIT_FIELDS",
    "Checkpoint",
    "Chunk",
    "Condition",
    "Finding",
    "Gap",
    "GroupOutlook",
    "IndexView",
    "Layout",
    "LogWalk",
    "PartSize",
    "QueueSummary",
    "QueueView",
    "RepairReport",
    "StoreReader",
    "StoreStat",
    "VerifyReport",
    "Wanted",
    "cut",
    "json_lines",
    "open",
    "rebuild",
    "repair",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
