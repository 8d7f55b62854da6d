"""mqadmin dlq peek: the oldest messages that a group could not consume."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.dead_letters import AGAIN, COLUMNS, GROUP, rows_of
from mqadmin.report import Report
from mqclient.admin import Admin

COUNT_DEFAULT = 10


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Read the messages; nothing is consumed."""
    count = arguments.count("count") or COUNT_DEFAULT
    messages = await admin.dead_letters.read(
        arguments.required("group"), count, again=arguments.flag("again")
    )
    return Report(rows_of(messages), columns=COLUMNS)


DLQ_PEEK = Command(
    "dlq peek",
    run,
    [GROUP, Option("", "count", f"At most this many messages, {COUNT_DEFAULT} without it"), AGAIN],
    description="Show the oldest dead letters of a group that were not redriven",
)
