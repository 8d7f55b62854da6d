"""Backpressure: when pulling pauses because enough messages are held. Pure."""

from typing import NamedTuple

from mqclient.consumer.process_queue import ProcessQueue
from mqclient.settings.consumers import LitePullOptions, PushOptions

__all__ = ["FLOW_CONTROL_DELAY", "too_much_held"]

FLOW_CONTROL_DELAY = 0.05
"""Seconds until a paused queue is checked again."""


class QueueLimits(NamedTuple):
    """What may be held of one queue: messages, bytes, and the span of their offsets."""

    messages: int
    size: int
    span: int | None = None
    """None: not limited."""


def too_much_held(
    held: ProcessQueue, settings: PushOptions | LitePullOptions, queues: int = 1
) -> str | None:
    """Why the queue must not be pulled now, or None. Checks in RocketMQ's order.

    queues: how many the consumer reads.
    """
    limits = _limits(settings, queues)
    if len(held) > limits.messages:
        return f"{len(held)} messages held, limit {limits.messages}"
    if held.bytes_held > limits.size:
        return f"{held.bytes_held} bytes held, limit {limits.size}"
    if limits.span is not None and held.span > limits.span:
        return f"offsets span {held.span}, limit {limits.span}"
    return None


def _limits(settings: PushOptions | LitePullOptions, queues: int) -> QueueLimits:
    """Rules: RocketMQ 4.9 `RebalancePushImpl.messageQueueChanged`."""
    if isinstance(settings, LitePullOptions):
        own = settings.limits
        return QueueLimits(own.queue_messages, own.queue_bytes, own.queue_offset_span)
    limits = settings.limits
    count, size = limits.queue_messages, limits.queue_bytes
    if limits.total_messages is not None:
        count = max(1, limits.total_messages // max(1, queues))
    if limits.total_bytes is not None:
        size = max(1, limits.total_bytes // max(1, queues))
    return QueueLimits(count, size, None if settings.orderly else limits.queue_offset_span)
