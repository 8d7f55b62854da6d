"""Backpressure: when pulling pauses because enough messages are held. Pure."""

from mqclient.consumer.process_queue import ProcessQueue
from mqclient.settings.consumers import LitePullOptions, PushOptions

__all__ = ["FLOW_CONTROL_DELAY", "too_much_held"]

FLOW_CONTROL_DELAY = 0.05
"""Seconds until a paused queue is checked again."""


def too_much_held(
    held: ProcessQueue, settings: PushOptions | LitePullOptions, queues: int = 1
) -> str | None:
    """Why the queue must not be pulled now, or None. Checks in RocketMQ's order.

    queues: how many the consumer reads.
    """
    limits = settings.queue_limits(queues)
    if len(held) > limits.messages:
        return f"{len(held)} messages held, limit {limits.messages}"
    if held.bytes_held > limits.size:
        return f"{held.bytes_held} bytes held, limit {limits.size}"
    if limits.span is not None and held.span > limits.span:
        return f"offsets span {held.span}, limit {limits.span}"
    return None
