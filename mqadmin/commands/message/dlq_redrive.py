"""mqadmin dlq redrive: send dead letters to their group again."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.confirmation import DRY_RUN
from mqadmin.dead_letters import AGAIN, COLUMNS, GROUP, rows_of
from mqadmin.report import Report
from mqclient.admin import Admin
from mqcommon.cli.running import refusing_arguments


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Send the messages, or show which would be sent."""
    group, count = arguments.required("group"), arguments.count("count")
    again = arguments.flag("again")
    ids = _ids(arguments)
    if arguments.flag("dry-run"):
        if ids:
            raise UsageError("--dry-run cannot be combined with --msgId: it names the messages")
        state = await admin.dead_letters.topic(group)
        limit = count or (state.messages if again else state.waiting)
        messages = await admin.dead_letters.read(group, limit, again=again) if limit else []
        return Report(rows_of(messages), columns=COLUMNS)
    if ids:
        with refusing_arguments():
            done = await admin.dead_letters.redrive_some(group, ids)
    else:
        done = await admin.dead_letters.redrive(group, count, again=again)
    return Report(rows_of(done.messages), columns=COLUMNS, failure=done.failure)


def _ids(arguments: Arguments) -> list[str]:
    return [part.strip() for part in (arguments.text("msgId") or "").split(",") if part.strip()]


async def effect(admin: Admin, arguments: Arguments) -> str:
    """How many messages the group gets again."""
    group, ids = arguments.required("group"), _ids(arguments)
    state = await admin.dead_letters.topic(group)
    count = len(ids) or (state.messages if arguments.flag("again") else state.waiting)
    limit = arguments.count("count")
    if limit is not None and not ids:
        count = min(count, limit)
    return (
        f"send {count} dead letters to group {group} again; no other group gets them, and the "
        f"dead-letter topic keeps its {state.messages} messages"
    )


DLQ_REDRIVE = Command(
    "dlq redrive",
    run,
    [
        GROUP,
        Option(
            "i", "msgId", "Only these messages: offset ids or unique keys, separated by a comma"
        ),
        Option("", "count", "At most this many messages; all without it"),
        AGAIN,
        DRY_RUN,
    ],
    effect=effect,
    description="Send dead letters to their group again, which begins with no failed deliveries",
)
