"""Reading a store directory that may be live or dead, ours or Java's, without touching it.

No lock, no recovery, nothing created: a broker may run on the directory meanwhile.

    reader = mqstore.open("/var/lib/rocketmq/store")
    for message in reader.records(topic="TopicTest"):
        print(message.msg_id, message.body)
"""

from __future__ import annotations

from mqstore.offline.made import json_lines
from mqstore.offline.mend import rebuild, repair
from mqstore.offline.reader import StoreReader, open
from mqstore.offline.report import (
    Checkpoint,
    Chunk,
    Condition,
    Finding,
    Gap,
    GroupOutlook,
    Layout,
    QueueSummary,
    RepairReport,
    VerifyReport,
)
from mqstore.offline.stat import PartSize, StoreStat
from mqstore.offline.views import INDEX_ENTRY_FIELDS, QUEUE_UNIT_FIELDS, IndexView, QueueView
from mqstore.offline.walk import LogWalk, Wanted

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
    "json_lines",
    "open",
    "rebuild",
    "repair",
]
