"""Shared by the commands that send: timed sends, and the columns of a send."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqadmin.java_text import fixed
from mqclient.errors import RocketMQError
from mqcommon.message import Message, MessageQueue

if TYPE_CHECKING:
    from mqclient.producer.producer import Producer
    from mqclient.producer.results import SendResult

__all__ = ["SEND_COLUMNS", "TimedSend", "average_text", "padding", "timed_send"]

SEND_COLUMNS = ("brokerName", "queueId", "status", "msgId", "queueOffset")


@dataclass(frozen=True, slots=True)
class TimedSend:
    """A send and its duration in whole milliseconds. result: None if it failed, with the error."""

    duration_ms: int
    result: SendResult | None
    error: RocketMQError | None = None


async def timed_send(
    producer: Producer, message: Message, queue: MessageQueue | None = None
) -> TimedSend:
    """Send a message and measure how long it takes; a failure is part of the measurement."""
    began = time.monotonic()
    result, failure = None, None
    try:
        result = await producer.send(message, queue=queue)
    except RocketMQError as error:
        failure = error
    return TimedSend(round((time.monotonic() - began) * 1000), result, failure)


def padding(size: int) -> bytes:
    """A body of this many bytes."""
    return b"a" * size


def average_text(total_ms: int, count: int) -> str:
    """The average of some durations, as Java prints it."""
    return fixed(total_ms / count, 2) if count > 0 else "NaN"
