"""A batch read that reads less by the conditions of `.where()`; only by the option `pushdown`.

Spark shares one plan between all uses of a DataFrame. A DataFrame with this option must therefore
be used once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from mqcommon.message import MessageQueue
from mqcommon.names import tags_of
from mqpipeline.spark.topics.batch import BatchReader
from mqpipeline.spark.topics.cluster import Cluster, Extent
from mqpipeline.spark.topics.plan import QueueRange

__all__ = ["PushdownReader"]

_TESTS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    In: lambda value, values: value in values,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
_NEVER_NULL = ("topic", "queue_id", "queue_offset", "store_timestamp")


@dataclass(frozen=True, slots=True)
class _Span:
    """Whole numbers from `first` on, before `end`; None is no bound."""

    first: int = 0
    end: int | None = None

    def cut(self, condition: Filter, at: int, is_whole: bool = True) -> _Span:
        """The numbers that also satisfy a condition.

        at: its value, rounded down. is_whole: whether nothing was lost by rounding.
        """
        first, end = self.first, self.end
        if isinstance(condition, EqualTo | GreaterThan | GreaterThanOrEqual):
            is_first = is_whole and not isinstance(condition, GreaterThan)
            first = max(first, at if is_first else at + 1)
        if isinstance(condition, EqualTo | LessThan | LessThanOrEqual):
            is_end = is_whole and isinstance(condition, LessThan)
            stop = at if is_end else at + 1
            end = stop if end is None else min(end, stop)
        return _Span(first, end)


class PushdownReader(BatchReader):
    """Prunes by topic, queue_id, queue_offset, store_timestamp and tags."""

    _of_queues: tuple[Filter, ...] = ()
    _offsets = _Span()
    _times = _Span()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Keep what can prune; yields each condition that Spark has to apply as well."""
        for condition in filters:
            if not self._takes(condition):
                yield condition

    def _takes(self, condition: Filter) -> bool:
        """Use a condition; whether no row that violates it is read."""
        column = ".".join(getattr(condition, "attribute", ()))
        if isinstance(condition, IsNotNull):
            return column in _NEVER_NULL
        if type(condition) not in _TESTS:
            return False
        if column == "tags":
            return self._takes_tags(condition)
        if column in ("topic", "queue_id"):
            self._of_queues += (condition,)
            return True
        if column == "queue_offset" and type(condition.value) is int:
            self._offsets = self._offsets.cut(condition, condition.value)
            return True
        value = getattr(condition, "value", None)
        # A time without a zone means one of the session, which only Spark knows.
        if column == "store_timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            # Times of a queue need not rise: a clock was set back. Spark compares them too.
            micros = round(value.timestamp() * 1_000_000)
            self._times = self._times.cut(condition, micros // 1000, micros % 1000 == 0)
        return False

    def _takes_tags(self, condition: Filter) -> bool:
        if not isinstance(condition, EqualTo | In):
            return False
        tags = list(condition.value) if isinstance(condition, In) else [condition.value]
        is_filtered = self._options.tag is not None or self._options.filter is not None
        if is_filtered or not tags or any(tags_of(tag) != [tag] for tag in tags):
            return False
        self._options = replace(self._options, tag=" || ".join(tags))
        return True

    def _queues(self, cluster: Cluster) -> list[MessageQueue]:
        return [
            queue
            for queue in super()._queues(cluster)
            if all(
                _TESTS[type(test)](getattr(queue, test.attribute[0]), test.value)
                for test in self._of_queues
            )
        ]

    def _resolved(
        self, cluster: Cluster, extents: Mapping[MessageQueue, Extent]
    ) -> list[QueueRange]:
        after = _found(cluster, extents, self._times.first)
        before = _found(cluster, extents, self._times.end)
        ranges = []
        for piece in super()._resolved(cluster, extents):
            ends = (piece.end, self._offsets.end, before.get(piece.queue))
            first = max(piece.first, self._offsets.first, after.get(piece.queue, 0))
            ranges.append(QueueRange(piece.queue, first, min(e for e in ends if e is not None)))
        return ranges


def _found(
    cluster: Cluster, extents: Mapping[MessageQueue, Extent], time_ms: int | None
) -> dict[MessageQueue, int]:
    """The first offset at a time by queue; empty without a time."""
    if not time_ms:
        return {}
    found = cluster.offsets_at(extents, time_ms)
    return {queue: at for queue, at in found.items() if at is not None}
