"""mqadmin offsets export: print a group's offsets, for `offsets import`."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.moving import GROUP
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask for the committed offsets."""
    group = arguments.required("group")
    offsets = await admin.offsets.of_group(group, arguments.text("topic") or None)
    rows = [
        {
            "group": group,
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "offset": offset,
        }
        for queue, offset in offsets.items()
    ]
    return Report(rows, columns=("group", "topic", "brokerName", "queueId", "offset"))


OFFSETS_EXPORT = Command(
    "offsets export",
    run,
    [GROUP, Option("t", "topic", "Only this topic; every topic of the group without it")],
    description="Print a group's committed offsets, for offsets import",
)
