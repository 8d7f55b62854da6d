"""mqadmin dlq purge: delete a group's dead-letter topic."""

from __future__ import annotations

import sys

from mqadmin.command import Arguments, Command
from mqadmin.confirmation import DRY_RUN
from mqadmin.dead_letters import GROUP
from mqadmin.report import Report
from mqclient.admin import Admin

RETENTION = (
    "the records stay in the brokers' commit logs until retention deletes the log files "
    "(fileReservedTime)"
)


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Delete the topic, or show the number of its messages."""
    group = arguments.required("group")
    state = await admin.dead_letters.topic(group)
    addresses = [] if arguments.flag("dry-run") else await admin.dead_letters.purge(group)
    if addresses:
        print(f"note: {RETENTION}", file=sys.stderr)
    row = {
        "group": group,
        "topic": state.topic,
        "messages": state.messages,
        "waiting": state.waiting,
        "brokerAddrs": addresses,
    }
    return Report([row], columns=tuple(row))


async def effect(admin: Admin, arguments: Arguments) -> str:
    """The messages that cannot be read any more."""
    state = await admin.dead_letters.topic(arguments.required("group"))
    return (
        f"delete topic {state.topic} with {state.messages} messages, of which {state.waiting} "
        f"were not redriven; {RETENTION}"
    )


DLQ_PURGE = Command(
    "dlq purge",
    run,
    [GROUP, DRY_RUN],
    effect=effect,
    description="Delete a group's dead-letter topic; its records stay until retention",
)
