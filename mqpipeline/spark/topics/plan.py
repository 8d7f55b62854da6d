"""From offsets to tasks: which ranges of which queues one task reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mqcommon.message import MessageQueue

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


def split(
    ranges: list[QueueRange], tasks_max: int, *, tasks_min: int = 1, rows_max: int | None = None
) -> list[tuple[QueueRange, ...]]:
    """Cut ranges into tasks of the same number of rows, give or take one, small queues together.

    tasks_min: at least this many tasks, if there are as many rows. rows_max: most rows of a task;
    it may lead to more than `tasks_max` tasks. The same ranges always give the same tasks.
    """
    total = sum(piece.rows for piece in ranges)
    if total == 0:
        return []
    tasks = max(min(tasks_max, -(-total // ROWS_PER_TASK)), min(tasks_min, total))
    if rows_max is not None:
        tasks = max(tasks, -(-total // rows_max))
    parts: list[list[QueueRange]] = [[]]
    room = total // tasks
    for piece in ranges:
        first = piece.first
        while first < piece.end:
            if room == 0:
                parts.append([])
                room = total * len(parts) // tasks - total * (len(parts) - 1) // tasks
            end = min(piece.end, first + room)
            parts[-1].append(QueueRange(piece.queue, first, end))
            room -= end - first
            first = end
    return [tuple(part) for part in parts]


def limited(
    start: Mapping[str, int],
    end: Mapping[str, int],
    most: int,
    size_of: Callable[[str], int] = lambda _: 1,
) -> dict[str, int]:
    """Move `end` towards `start` until at most `most` lies between them.

    size_of: the size of one row of a queue, 1 or more; by default, rows are counted. Each queue
    gets a share in proportion to its backlog. Rows left over from rounding go first to queues
    that got nothing, so that no small queue waits for the large ones, and a small limit still makes
    progress. One row always passes.
    """
    behind = {key: max(at - start[key], 0) for key, at in end.items()}
    sizes = {key: size_of(key) for key, rows in behind.items() if rows}
    total = sum(behind[key] * size for key, size in sizes.items())
    if total <= most:
        return dict(end)
    shares = {key: behind[key] * most // total for key in sizes}
    left = most - sum(shares[key] * size for key, size in sizes.items())
    for key in sorted(shares, key=lambda key: (shares[key] > 0, key)):
        extra = min(left // sizes[key], 1 if shares[key] == 0 else behind[key] - shares[key])
        shares[key] += extra
        left -= extra * sizes[key]
    if not any(shares.values()):
        shares[min(sizes)] = 1
    return {key: start[key] + shares.get(key, 0) for key in end}
