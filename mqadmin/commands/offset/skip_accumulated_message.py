"""mqadmin skipAccumulatedMessage: move a group to the end of a topic."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqadmin.resetting import effect_of, move, report
from mqclient.admin import Admin
from mqclient.admin.resets import END_MS


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Move the group."""
    return report(await move(admin, arguments, END_MS), ("", ""))


async def effect(admin: Admin, arguments: Arguments) -> str:
    """The messages that the group will not consume."""
    return await effect_of(admin, arguments, END_MS)


SKIP_ACCUMULATED_MESSAGE = Command(
    "skipAccumulatedMessage",
    run,
    [
        Option("g", "group", "set the consumer group", required=True),
        Option("t", "topic", "set the topic", required=True),
        Option("f", "force", "set the force rollback by timestamp switch[true|false]"),
    ],
    effect=effect,
)
