"""Reading a store directory that may be live or dead, ours or Java's, without touching it.

No lock, no recovery, nothing created: a broker may run on the directory meanwhile.

    reader = mqstore.open("/var/lib/rocketmq/store")
    for message in reader.records(topic="TopicTest"):
        print(message.msg_id, message.body)
"""

from __future__ import annotations

from mqstore.offline.reader import StoreReader, open
from mqstore.offline.report import Chunk, Finding, Layout, QueueSummary, VerifyReport
from mqstore.offline.stat import StoreStat
from mqstore.offline.state import Checkpoint, Condition
from mqstore.offline.views import INDEX_ENTRY_FIELDS, QUEUE_UNIT_FIELDS, IndexView, QueueView

__all__ = [
    "INDEX_ENTRY_FIELDS",
    "QUEUE_UNIT_FIELDS",
    "Checkpoint",
    "Chunk",
    "Condition",
    "Finding",
    "IndexView",
    "Layout",
    "QueueSummary",
    "QueueView",
    "StoreReader",
    "StoreStat",
    "VerifyReport",
    "open",
]
