"""The arguments and results of handlers."""

import inspect
from collections.abc import Awaitable, Callable
from enum import Enum

from mqclient.settings.checks import seconds
from mqcommon.message import DELAY_LEVEL_MAX, MessageQueue, ReceivedMessage

__all__ = [
    "ConsumeContext",
    "ConsumeResult",
    "Handler",
    "HandlerResult",
    "is_async",
]


ANY_QUEUE = MessageQueue("TopicTest", "broker-a", 0)


class ConsumeResult(Enum):
    """Results that a handler may return; None means SUCCESS.

    RECONSUME_LATER and SUSPEND_CURRENT_QUEUE_A_MOMENT mean the same: the messages come again. A
    concurrent consumer sends them back to the broker; an orderly one keeps the queue waiting.
    COMMIT and ROLLBACK are for orderly handlers with `context.auto_commit = False`: they
    acknowledge, or handle again, all messages since the last COMMIT.
    """

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


class ConsumeContext:
    """The queue of the messages, and how to handle a failure.

    message_queue: their queue. `ConsumeContext()`, for tests of a handler, has queue 0 of a topic
    "TopicTest" at a broker "broker-a".

    Of a concurrent consumer: delay_level: how long to wait before redelivery: 0 lets the broker
    choose (longer with each try), 1 to 18 are RocketMQ's levels, -1 is the dead-letter topic.
    ack_index: index of the last message that succeeded, None for all; with a SUCCESS the messages
    after it are delivered again.

    Of an orderly consumer: retry_delay: pause in seconds, 0.01 to 30, before a
    queue handles a failed message again; None means the consumer's setting (1 s). auto_commit:
    if True, SUCCESS acknowledges the messages; if False, only COMMIT does.
    """

    __slots__ = ("_delay_level", "_retry_delay", "ack_index", "auto_commit", "message_queue")

    def __init__(self, message_queue: MessageQueue = ANY_QUEUE) -> None:
        self.message_queue = message_queue
        self._delay_level = 0
        self.ack_index: int | None = None
        self.auto_commit = True
        self._retry_delay: float | None = None

    @property
    def delay_level(self) -> int:
        """How long to wait before redelivery. Setting it raises TypeError, ValueError."""
        return self._delay_level

    @delay_level.setter
    def delay_level(self, level: int) -> None:
        if not isinstance(level, int):
            raise TypeError(f"delay_level must be int, not {type(level).__name__}")
        if not -1 <= level <= DELAY_LEVEL_MAX:
            raise ValueError(
                f"delay_level {level} is no level: 1 to {DELAY_LEVEL_MAX} stand for 1 s to 2 h, 0 "
                "lets the broker choose, -1 is the dead-letter topic"
            )
        self._delay_level = level

    @property
    def retry_delay(self) -> float | None:
        """Pause in seconds before a failed message is handled again; None means the setting."""
        return self._retry_delay

    @retry_delay.setter
    def retry_delay(self, delay: float | None) -> None:
        self._retry_delay = None if delay is None else seconds(delay, "retry_delay")


HandlerResult = ConsumeResult | None
Handler = (
    Callable[[list[ReceivedMessage], ConsumeContext], HandlerResult]
    | Callable[[list[ReceivedMessage], ConsumeContext], Awaitable[HandlerResult]]
)
"""A handler as the consumer calls it; `handlers.py` makes one of what programs write."""


def is_async(handler: Callable[..., object]) -> bool:
    """True for an `async def` function, and for an object whose __call__ is one."""
    call = getattr(handler, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)
