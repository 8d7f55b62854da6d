"""Splits a log file into ranges that start with a record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from mqstore.offline import StoreReader
from mqstore.offline.report import QueueSummary

__all__ = ["split"]


def split(store: StoreReader, start: int, end: int, parts: int) -> Iterator[tuple[int, int]]:
    """Split [start, end) of a log file into about `parts` ranges that start with a record.

    The log has no marks for the start of a record, so the entries of the largest queue are used. A
    range without such an entry stays whole.
    """
    queues = store.queues() if parts > 1 else []
    largest = max(queues, key=lambda queue: queue.message_count, default=None)
    if largest is not None:
        for part in range(1, parts):
            wanted = start + (end - start) // (parts + 1 - part)
            at = _listed_from(store, largest, wanted)
            if at is not None and start < at < end:
                yield start, at
                start = at
    yield start, end


def _listed_from(store: StoreReader, queue: QueueSummary, physical_offset: int) -> int | None:
    """Start of the first record of a queue at or after a physical offset; None if there is none."""

    def entry_at(queue_offset: int) -> int:
        entry = store.raw_queue_entries(queue.topic, queue.queue_id, queue_offset, 1)
        return int.from_bytes(entry[:8], "big")

    offsets = range(queue.min_offset, queue.max_offset)
    at = offsets.start + bisect_left(offsets, physical_offset, key=entry_at)
    found = store.message_at(entry_at(at)) if at < offsets.stop else None
    if found is None or (found.topic, found.queue_id) != (queue.topic, queue.queue_id):
        return None  # a damaged entry or record
    return found.commit_log_offset
