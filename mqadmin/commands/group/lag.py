"""mqadmin lag: how far groups are behind, in messages and in time."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report, Row
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqclient.admin.lag import QueueLag

COLUMNS = (
    "group", "topic", "brokerName", "queueId", "maxOffset", "consumerOffset", "lag", "lagMs",
)  # fmt: skip
TOTAL_COLUMNS = ("group", "topic", "lag", "lagMs")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask for one group, or for all."""
    group, topic = arguments.text("group") or None, arguments.text("topic") or None
    unreached = Unreached()
    found: list[tuple[str, QueueLag]] = []
    if group is not None:
        found = [(group, lag) for lag in await admin.lags.of(group, topic)]
    else:
        for name in sorted(await admin.groups.names()):
            with unreached.passed_over():  # a group that never committed is an error
                found += [(name, lag) for lag in await admin.lags.of(name, topic)]
    if arguments.flag("total"):
        return Report(_totals(found), columns=TOTAL_COLUMNS, failure=unreached.failure)
    return Report(
        [_row(name, lag) for name, lag in found], columns=COLUMNS, failure=unreached.failure
    )


def _row(group: str, lag: QueueLag) -> Row:
    return {
        "group": group,
        "topic": lag.queue.topic,
        "brokerName": lag.queue.broker_name,
        "queueId": lag.queue.queue_id,
        "minOffset": lag.minimum,
        "maxOffset": lag.maximum,
        "consumerOffset": lag.consumer_offset,
        "lag": lag.messages,
        "lagMs": lag.milliseconds,
    }


def _totals(found: list[tuple[str, QueueLag]]) -> list[Row]:
    """A row for each group and topic: all messages, and the age of the oldest one."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    messages: dict[tuple[str, str], int] = {}
    ages: dict[tuple[str, str], int] = {}
    for group, lag in found:
        key = (group, lag.queue.topic)
        messages[key] = messages.get(key, 0) + lag.messages
        ages[key] = max(ages.get(key, 0), lag.milliseconds)
        rows[key] = {"group": group, "topic": lag.queue.topic}
    return [{**row, "lag": messages[key], "lagMs": ages[key]} for key, row in rows.items()]


LAG = Command(
    "lag",
    run,
    [
        Option("g", "group", "Consumer group; all groups without it"),
        Option("t", "topic", "Only this topic"),
        Option("", "total", "One row for each group and topic", takes_value=False),
    ],
    description="Messages that groups have not consumed, and the age of the oldest",
)
