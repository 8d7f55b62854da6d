"""Backpressure: when pulling pauses because enough messages are held. Pure."""

from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.settings import ConsumerSettings, LitePullSettings

__all__ = ["FLOW_CONTROL_DELAY", "too_much_held"]

FLOW_CONTROL_DELAY = 0.05
"""Seconds until a paused queue is checked again."""


def too_much_held(held: ProcessQueue, settings: ConsumerSettings | LitePullSettings) -> str | None:
    """Why the queue must not be pulled now, or None. Checks in RocketMQ's order."""
    if len(held) > settings.queue_count_max:
        return f"{len(held)} messages held, limit {settings.queue_count_max}"
    if held.bytes_held > settings.queue_bytes_max:
        return f"{held.bytes_held} bytes held, limit {settings.queue_bytes_max}"
    if not settings.orderly and held.span > settings.queue_span_max:
        return f"offsets span {held.span}, limit {settings.queue_span_max}"
    return None
