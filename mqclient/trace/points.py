"""Reads records of message trace (`TraceDataEncoder`, `TraceView`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mqclient.trace.records import FIELD_END, RECORD_END
from mqcommon.message import ReceivedMessage

__all__ = ["TracePoint", "trace_points"]


@dataclass(frozen=True, slots=True)
class TracePoint:
    """A send of a message, or the end of its delivery to a group.

    group: the producer's or the consumer's. client_host: the client's IP address. timestamp_ms:
    start of a send, end of a delivery. cost_ms: duration of the send or of the handler. A delivery
    has no topic, tags, store_host and offset_msg_id.
    """

    kind: Literal["Pub", "SubAfter"]
    group: str
    client_host: str
    timestamp_ms: int
    cost_ms: int
    success: bool
    msg_id: str
    topic: str | None = None
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    offset_msg_id: str | None = None


def trace_points(carrier: ReceivedMessage, msg_id: str) -> Iterator[TracePoint]:
    """The sends and deliveries of one message in a message of a trace topic.

    Records that are too short to be read are left out.
    """
    host = carrier.born_host.rpartition(":")[0]
    for record in carrier.body.decode(errors="replace").split(RECORD_END):
        fields = record.split(FIELD_END)
        try:
            point = _point(fields, host, carrier.store_timestamp_ms)
        except (IndexError, ValueError):
            continue
        if point is not None and point.msg_id == msg_id:
            yield point


def _point(fields: Sequence[str], host: str, stored_ms: int) -> TracePoint | None:
    if fields[0] == "Pub":
        # RocketMQ 3 wrote no offset id; RocketMQ 5 adds the client's host.
        is_short = len(fields) < 14
        return TracePoint(
            "Pub",
            fields[3],
            host,
            int(fields[1]),
            int(fields[10]),
            fields[12 if is_short else 13] == "true",
            fields[5],
            fields[4],
            _text(fields[6]),
            _text(fields[7]),
            _text(fields[8]),
            None if is_short else _text(fields[12]),
        )
    if fields[0] == "SubAfter":
        is_short = len(fields) < 9  # of a client of Alibaba Cloud: without time and group
        return TracePoint(
            "SubAfter",
            "" if is_short else fields[8],
            host,
            stored_ms if is_short else int(fields[7]),
            int(fields[3]),
            fields[4] == "true",
            fields[2],
            keys=_text(fields[5]),
        )
    return None


def _text(field: str) -> str | None:
    """A field of text; Java writes "null" for none."""
    return None if field in ("", "null") else field
