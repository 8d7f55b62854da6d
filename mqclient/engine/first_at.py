"""Finds the first message of a queue that was stored at or after a time.

RocketMQ's search (`searchOffset`) gives any one of several messages of the same time, and the
nearest message when no time is equal, which may be an earlier one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from mqcommon.message import MessageQueue, ReceivedMessage, decode_reply
from mqcommon.wire.calls import message_calls, offset_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.pull import PullMessageResponseHeader

__all__ = ["Ask", "asking", "first_at", "first_message_at"]

R = TypeVar("R")
PULL_COUNT = 32
"""Messages of one pull: a broker's default maximum."""


class Ask(Protocol):
    """Calls the broker of the queue. make: makes a new call for each try."""

    def __call__(self, make: Callable[[], Call[R]], /) -> Awaitable[R]:
        """The result; raises the client's errors."""


def asking(invoke: Callable[[Call[R]], Awaitable[R]]) -> Ask:
    """An `Ask` that tries once. invoke: calls the broker of the queue."""

    def ask(make: Callable[[], Call[R]]) -> Awaitable[R]:
        return invoke(make())

    return ask  # type: ignore[return-value]  # invoke takes calls of any result


async def first_at(ask: Ask, queue: MessageQueue, group: str, timestamp_ms: int) -> int:
    """The offset of the first message stored at or after a time, the queue's end if there is none.

    group: in whose name messages are pulled; joins and commits nothing. The search is for the
    millisecond before, which is never too late; the store times of the messages decide.
    """
    return (await _search(ask, queue, group, timestamp_ms))[0]


async def first_message_at(
    ask: Ask, queue: MessageQueue, group: str, timestamp_ms: int
) -> ReceivedMessage | None:
    """The first message stored at or after a time, None if there is none; see `first_at`."""
    return (await _search(ask, queue, group, timestamp_ms))[1]


async def _search(
    ask: Ask, queue: MessageQueue, group: str, timestamp_ms: int
) -> tuple[int, ReceivedMessage | None]:
    before_ms = max(timestamp_ms - 1, 0)
    near = await ask(lambda: offset_calls.search_offset(queue, before_ms))
    first = await ask(lambda: offset_calls.min_offset(queue))
    end = await ask(lambda: offset_calls.max_offset(queue))
    offset = max(near, first)
    while offset < end:
        reply = await ask(partial(message_calls.pull_at_once, queue, group, offset, PULL_COUNT))
        if reply.code == ResponseCode.SUCCESS:
            for message in decode_reply(reply.body)[0]:
                if message.store_timestamp_ms >= timestamp_ms:
                    return message.queue_offset, message
        following = PullMessageResponseHeader.from_fields(reply.fields).next_begin_offset
        if following <= offset:
            return offset, None
        offset = following
    return end, None
