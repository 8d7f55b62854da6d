"""How far a consumer is behind, and messages by time. One request for each queue where possible."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mqclient.consumer.process_queue import ProcessQueue
from mqclient.engine.metrics import ClientMetrics
from mqclient.errors import RocketMQError
from mqcommon.message import MessageQueue, ReceivedMessage, decode_reply
from mqcommon.wire.calls import message_calls, offset_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.pull import PullMessageResponseHeader

__all__ = ["LAG_INTERVAL_S", "Lag", "OffsetAtTime", "lag_of", "tell_lag"]

log = logging.getLogger(__name__)
LAG_INTERVAL_S = 15.0
"""Seconds between two reports of the lag to `metrics`."""

Invoke = Callable[[Call[Any]], Awaitable[Any]]
"""Calls the broker of the queue."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a consumer is behind in one queue.

    position: offset of the first message that is not handled. end: offset that the next message
    will get. messages: stored messages that are not handled, those that a filter leaves out
    included. seconds: age of the oldest of them by the clock of this machine, 0 if there is none.
    """

    position: int
    end: int
    messages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class OffsetAtTime:
    """A message that was found by its store time: its offset, and when the broker stored it."""

    offset: int
    store_timestamp: datetime


async def lag_of(invoke: Invoke, held: ProcessQueue, group: str) -> Lag:
    """The lag of a queue. group: in whose name the oldest message is read; nothing is committed."""
    queue, position, oldest = held.queue, held.position, held.first_message
    if oldest is not None and oldest.queue_offset == position:
        end: int = await invoke(offset_calls.max_offset(queue))
        return _lag(position, end, end - position, oldest)
    header, oldest = await _at(invoke, queue, group, position)
    if position < header.min_offset:  # messages that the broker deleted do not count
        header, oldest = await _at(invoke, queue, group, header.min_offset)
    count = header.max_offset - max(position, header.min_offset)
    return _lag(position, header.max_offset, count, oldest)


async def tell_lag(
    metrics: ClientMetrics, group: str, lags: Callable[[], Awaitable[Mapping[MessageQueue, Lag]]]
) -> None:
    """Tell the metrics how far a member is behind, by topic. group: "" for none."""
    behind = Counter[str]()
    try:
        for queue, lag in (await lags()).items():
            behind[queue.topic] += lag.messages
    except RocketMQError as error:
        log.debug("the lag of group %r is not known now: %s", group, error)
    for topic, messages in behind.items():
        metrics.set("lag_messages", messages, {"group": group, "topic": topic})


async def _at(
    invoke: Invoke, queue: MessageQueue, group: str, offset: int
) -> tuple[PullMessageResponseHeader, ReceivedMessage | None]:
    """The first message at or after an offset, if there is one, and the extent of the queue."""
    reply: Frame = await invoke(message_calls.pull_at_once(queue, group, offset, 1))
    found = decode_reply(reply.body)[0] if reply.code == ResponseCode.SUCCESS else []
    return PullMessageResponseHeader.from_fields(reply.fields), found[0] if found else None


def _lag(position: int, end: int, count: int, oldest: ReceivedMessage | None) -> Lag:
    if count <= 0:
        return Lag(position, end, 0, 0.0)
    age = 0.0 if oldest is None else time.time() - oldest.store_timestamp_ms / 1000
    return Lag(position, end, count, max(0.0, age))
