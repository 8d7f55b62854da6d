"""The arguments and results of handlers."""

import inspect
from collections.abc import Awaitable, Callable
from enum import Enum

from mqstore.message import MessageQueue, ReceivedMessage

__all__ = ["ConsumeContext", "ConsumeResult", "Handler", "is_async"]


class ConsumeResult(Enum):
    """Results that a handler may return; None means SUCCESS."""

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeContext:
    """The queue of the messages, and how to handle a failure.

    message_queue: their queue. delay_level: how long to wait before redelivery: 0 lets the broker
    choose (longer with each try), 1 to 18 are RocketMQ's levels, -1 is the dead-letter topic.
    ack_index: index of the last message that succeeded, None for all; with a SUCCESS the messages
    after it are delivered again.
    """

    __slots__ = ("ack_index", "delay_level", "message_queue")

    def __init__(self, message_queue: MessageQueue) -> None:
        self.message_queue = message_queue
        self.delay_level = 0
        self.ack_index: int | None = None


HandlerResult = ConsumeResult | None
Handler = (
    Callable[[list[ReceivedMessage], ConsumeContext], HandlerResult]
    | Callable[[list[ReceivedMessage], ConsumeContext], Awaitable[HandlerResult]]
)
"""A handler: plain functions run in threads, `async def` ones on the loop."""


def is_async(handler: Callable[..., object]) -> bool:
    """True for an `async def` function, and for an object whose __call__ is one."""
    call = getattr(handler, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)
