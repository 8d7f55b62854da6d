"""mqadmin topicStatus: the extent of each queue of a topic, and the time of its last message."""

from __future__ import annotations

from collections.abc import Sequence

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import front, millis_text
from mqadmin.report import Report, Row
from mqclient.admin import Admin

COLUMNS = ("brokerName", "queueId", "minOffset", "maxOffset", "lastUpdateTimestamp")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask every broker of the topic."""
    stats = await admin.topics.stats(arguments.required("topic"))
    rows = [
        {
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "minOffset": offsets.min_offset,
            "maxOffset": offsets.max_offset,
            "lastUpdateTimestamp": offsets.last_update_timestamp,
        }
        for queue, offsets in sorted(stats.offset_table.items())
    ]
    return Report(rows, lambda: _table(rows), columns=COLUMNS)


def _table(rows: Sequence[Row]) -> str:
    def line(broker: object, queue: object, low: object, high: object, last: str) -> str:
        return f"{broker!s:<32}  {queue!s:<4}  {low!s:<20}  {high!s:<20}    {last}"

    lines = [line("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")]
    for row in rows:
        _, broker, queue, low, high, last = row.values()
        lines.append(line(front(str(broker), 32), queue, low, high, _time(last)))
    return "\n".join(lines)


def _time(timestamp_ms: object) -> str:
    assert isinstance(timestamp_ms, int)
    return millis_text(timestamp_ms) if timestamp_ms > 0 else ""


TOPIC_STATUS = Command(
    "topicStatus",
    run,
    [Option("t", "topic", "topic name", required=True)],
)
