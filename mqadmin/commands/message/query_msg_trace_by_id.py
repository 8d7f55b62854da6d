"""mqadmin queryMsgTraceById: the send of a message and its deliveries, from message trace."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import hash_order, seconds_text
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.trace.points import TracePoint
from mqcommon.names import TRACE_TOPIC

COLUMNS = ("type", "group", "clientHost", "timestamp", "costTime", "status")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Look the records up by the message's id."""
    topic = arguments.text("traceTopic") or TRACE_TOPIC
    points = await admin.messages.trace(arguments.required("msgId"), topic)
    return Report([_row(point) for point in points], lambda: _text(points), columns=COLUMNS)


def _row(point: TracePoint) -> dict[str, object]:
    return {
        "type": "Pub" if point.kind == "Pub" else "Sub",
        "group": point.group,
        "clientHost": point.client_host,
        "timestamp": point.timestamp_ms,
        "costTime": point.cost_ms,
        "status": _status(point),
        "msgId": point.msg_id,
        "topic": point.topic,
        "tags": point.tags,
        "keys": point.keys,
        "storeHost": point.store_host,
        "offsetMsgId": point.offset_msg_id,
    }


def _status(point: TracePoint) -> str:
    return "success" if point.success else "failed"


def _text(points: list[TracePoint]) -> str:
    """RocketMQ's tables: one for each send, then one for each consumer group."""
    sends = [point for point in points if point.kind == "Pub"]
    blocks = [[_heading("#ProducerGroup", "#SendTime"), _line("Pub", send)] for send in sends]
    ends = [point for point in points if point.kind != "Pub"]
    blocks += [
        [
            _heading("#ConsumerGroup", "#ConsumerTime"),
            *(_line("Sub", end) for end in ends if end.group == group),
        ]
        for group in hash_order(end.group for end in ends)
    ]
    return "".join(f"{line}\n" for block in blocks for line in [*block, ""])


def _heading(group: str, time: str) -> str:
    return _cells("#Type", group, "#ClientHost", time, "#CostTimes", "#Status")


def _line(kind: str, point: TracePoint) -> str:
    time, cost = seconds_text(point.timestamp_ms), f"{point.cost_ms}ms"
    return _cells(kind, point.group, point.client_host, time, cost, _status(point))


def _cells(*cells: str) -> str:
    widths = (10, 20, 20, 20, 10, 10)
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))


QUERY_MSG_TRACE_BY_ID = Command(
    "queryMsgTraceById",
    run,
    [
        Option("i", "msgId", "Message Id", required=True),
        Option("t", "traceTopic", "The name value of message trace topic"),
    ],
)
