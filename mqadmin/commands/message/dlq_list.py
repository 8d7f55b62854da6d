"""mqadmin dlq list: the dead-letter topics and how many messages they hold."""

from __future__ import annotations

from mqadmin.command import Arguments, Command
from mqadmin.report import Report
from mqclient.admin import Admin

COLUMNS = ("group", "topic", "messages", "waiting", "lastTimestamp")


async def run(admin: Admin, _arguments: Arguments) -> Report:
    """Ask for the topics of all groups."""
    rows = [
        {
            "group": one.group,
            "topic": one.topic,
            "messages": one.messages,
            "waiting": one.waiting,
            "lastTimestamp": one.last_timestamp_ms,
        }
        for one in await admin.dead_letters.topics()
    ]
    return Report(rows, columns=COLUMNS)


DLQ_LIST = Command(
    "dlq list",
    run,
    description="Dead-letter topics: messages, and those that were not redriven",
)
