"""mqadmin brokerConsumeStats: how far every group of a broker is in each of its queues."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import front, seconds_text
from mqadmin.report import Report
from mqclient.admin import Admin
from mqcommon.wire.bodies.groups import ConsumeStatsList

COLUMNS = (
    "topic", "group", "brokerName", "queueId", "brokerOffset", "consumerOffset", "diff",
    "lastTimestamp",
)  # fmt: skip
TIMEOUT_MS = 50_000
"""RocketMQ's: a broker with many groups takes long."""


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask the broker; queues that are less than --level behind are left out."""
    timeout_ms = arguments.number("timeoutMillis", TIMEOUT_MS)
    stats = await admin.brokers.consume_stats(
        arguments.required("brokerAddr"),
        ordered=arguments.is_true("order"),
        timeout=timeout_ms / 1000,
    )
    rows = _rows(stats, arguments.number("level", 0))
    return Report(rows, lambda: _table(rows, stats.total_diff), columns=COLUMNS)


def _rows(stats: ConsumeStatsList, level: int) -> list[dict[str, object]]:
    by_group = [entry for groups in stats.consume_stats_list for entry in groups.items()]
    offsets = (
        (group, queue, offset)
        for group, parts in by_group
        for part in parts
        for queue, offset in sorted(part.offset_table.items())
    )
    rows: list[dict[str, object]] = []
    for group, queue, offset in offsets:
        diff = offset.broker_offset - offset.consumer_offset
        # A queue of which nothing was consumed ever has no time: RocketMQ leaves it out.
        if diff >= level and offset.last_timestamp > 0:
            rows.append(
                {
                    "topic": queue.topic,
                    "group": group,
                    "brokerName": queue.broker_name,
                    "queueId": queue.queue_id,
                    "brokerOffset": offset.broker_offset,
                    "consumerOffset": offset.consumer_offset,
                    "diff": diff,
                    "lastTimestamp": offset.last_timestamp,
                }
            )
    return rows


def _table(rows: list[dict[str, object]], total_diff: int) -> str:
    def line(*cells: object) -> str:
        widths = (64, 64, 32, 4, 20, 20, 20, 0)
        return "  ".join(f"{cell!s:<{width}}" for cell, width in zip(cells, widths, strict=True))

    titles = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
    lines = [line(*titles, "#Diff", "#LastTime")]
    for row in rows:
        *cells, last = row.values()
        cells[0], cells[2] = front(str(row["topic"]), 64), front(str(row["brokerName"]), 32)
        lines.append(line(*cells, seconds_text(int(str(last)))))
    return "\n".join([*lines, "", f"Diff Total: {total_diff}"])


BROKER_CONSUME_STATS = Command(
    "brokerConsumeStats",
    run,
    [
        Option("b", "brokerAddr", "Broker address", required=True),
        Option("t", "timeoutMillis", "request timeout Millis"),
        Option("l", "level", "threshold of print diff"),
        Option("o", "order", "order topic"),
    ],
)
