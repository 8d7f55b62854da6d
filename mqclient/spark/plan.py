"""From offsets to tasks: which ranges of which queues one task reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mqstore.message import MessageQueue

__all__ = ["QueueRange", "limited", "offset_key", "queue_of", "split"]

ROWS_PER_TASK = 10_000
"""Less than this is not worth a task of its own."""


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Offsets [first, end) of one queue."""

    queue: MessageQueue
    first: int
    end: int

    @property
    def rows(self) -> int:
        """Messages in the range."""
        return self.end - self.first


def offset_key(queue: MessageQueue) -> str:
    """A queue as a key of Spark's offsets: "broker|topic|queue"."""
    return f"{queue.broker_name}|{queue.topic}|{queue.queue_id}"


def queue_of(key: str) -> MessageQueue:
    """The queue that a key names; ValueError for text that is no key."""
    broker_name, _, rest = key.partition("|")
    topic, separator, queue_id = rest.rpartition("|")
    if not separator or not queue_id.isdigit():
        raise ValueError(f'offset key {key!r} is not "broker|topic|queue"')
    return MessageQueue(topic, broker_name, int(queue_id))


def split(ranges: list[QueueRange], tasks_max: int) -> list[tuple[QueueRange, ...]]:
    """Cut ranges into tasks of about the same number of rows, small queues together.

    Deterministic: the same ranges give the same tasks.
    """
    total = sum(piece.rows for piece in ranges)
    if total == 0:
        return []
    tasks = min(tasks_max, -(-total // ROWS_PER_TASK))
    share = -(-total // tasks)
    parts: list[list[QueueRange]] = [[]]
    room = share
    for piece in ranges:
        first = piece.first
        while first < piece.end:
            if room == 0:
                parts.append([])
                room = share
            end = min(piece.end, first + room)
            parts[-1].append(QueueRange(piece.queue, first, end))
            room -= end - first
            first = end
    return [tuple(part) for part in parts]


def limited(start: Mapping[str, int], end: Mapping[str, int], rows_max: int) -> dict[str, int]:
    """Move `end` towards `start` until at most `rows_max` rows lie between them.

    Every queue gets its share of what is behind it, and what rounding leaves goes to the first
    ones, so that a small limit still makes progress.
    """
    behind = {key: max(at - start[key], 0) for key, at in end.items()}
    total = sum(behind.values())
    if total <= rows_max:
        return dict(end)
    shares = {key: rows * rows_max // total for key, rows in behind.items()}
    left = rows_max - sum(shares.values())
    for key in sorted(shares):
        extra = min(left, behind[key] - shares[key])
        shares[key] += extra
        left -= extra
    return {key: start[key] + share for key, share in shares.items()}
