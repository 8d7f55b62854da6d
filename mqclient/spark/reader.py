"""Batch and streaming reads of queues, as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from mqclient.spark.cluster import Cluster, DataLossError, Extent
from mqclient.spark.options import EARLIEST, LATEST, Options
from mqclient.spark.plan import QueueRange, limited, offset_key, queue_of, split
from mqclient.spark.task import Task, read_task
from mqstore.message import MessageQueue

__all__ = ["CONSTANTS", "BatchReader", "StreamReader"]

CONSTANTS = ("broker_name",)
"""Columns that are the same in every row of one broker."""

_log = logging.getLogger(__name__)

Offsets = dict[str, int]
Position = str | int | dict[str, int] | None


def _all_queues(cluster: Cluster, options: Options) -> list[MessageQueue]:
    return [queue for topic in options.topics for queue in cluster.queues(topic)]


def _resolve(
    position: Position,
    cluster: Cluster,
    extents: Mapping[MessageQueue, Extent],
    options: Options,
) -> dict[MessageQueue, int]:
    """A starting or ending position as one offset per queue, within what the queue holds."""
    found: dict[MessageQueue, int | None]
    if isinstance(position, int):
        found = cluster.offsets_at(extents, position)
    elif isinstance(position, dict):
        named = {queue_of(key): at for key, at in position.items()}
        unknown = [str(queue) for queue in named if queue not in extents]
        if unknown:
            raise ValueError(f"offsets name queues that do not exist: {', '.join(unknown)}")
        for queue, at in named.items():
            _check_readable(queue, at, extents[queue], options)
        found = {queue: named.get(queue) for queue in extents}
    elif position == LATEST:
        found = {queue: extent.end for queue, extent in extents.items()}
    else:
        found = {queue: extent.first for queue, extent in extents.items()}
    return {
        queue: min(max(extent.first if at is None else at, extent.first), extent.end)
        for (queue, extent), at in zip(extents.items(), found.values(), strict=True)
    }


def _check_readable(queue: MessageQueue, at: int, extent: Extent, options: Options) -> None:
    """An offset outside what a queue holds is an error, or a warning if loss is allowed."""
    if extent.first <= at <= extent.end:
        return
    problem = (
        f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}: offset {at} "
        f"cannot be read, only {extent.first} to {extent.end}"
    )
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{problem}; give an offset of that range, or set failOnDataLoss to false to read "
            f"what is left"
        )
    nearest = min(max(at, extent.first), extent.end)
    _log.warning("%s; the read uses offset %d", problem, nearest)


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """A snapshot: offsets are fixed when the read is planned."""

    def __init__(self, schema: pa.Schema, options: Options) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Tasks over the ranges of every queue."""
        options = self._options
        with Cluster(options) as cluster:
            queues = _all_queues(cluster, options)
            extents = _reachable(cluster.extents(queues))
            first = _resolve(options.starting or EARLIEST, cluster, extents, options)
            end = _resolve(options.ending or LATEST, cluster, extents, options)
        ranges = [QueueRange(q, first[q], max(end[q], first[q])) for q in sorted(extents)]
        return [Task(part) for part in split(ranges, options.partitions)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        return read_task(partition, self._schema, self._options)


def _reachable(extents: Mapping[MessageQueue, Extent | None]) -> dict[MessageQueue, Extent]:
    """Demand that every queue's broker answered: a batch must not miss queues silently."""
    missing = sorted(str(queue) for queue, extent in extents.items() if extent is None)
    if missing:
        raise ConnectionError(
            f"no answer from the broker of {len(missing)} queues, first {missing[0]}; is the "
            f"advertised address reachable from here? (see the option addressMap)"
        )
    return {queue: extent for queue, extent in extents.items() if extent is not None}


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Micro-batches between two sets of offsets, "broker|topic|queue" to the next offset."""

    def __init__(self, schema: pa.Schema, options: Options) -> None:
        self._schema = schema
        self._options = options
        self._initial: Offsets | None = None
        self._newest: Offsets = {}
        self._target: Offsets | None = None

    def initialOffset(self) -> Offsets:
        """Where a new query starts; asked twice, so it is resolved once."""
        if self._initial is None:
            with Cluster(self._options) as cluster:
                extents = _reachable(cluster.extents(_all_queues(cluster, self._options)))
                first = _resolve(self._options.starting or LATEST, cluster, extents, self._options)
            self._initial = {offset_key(queue): first[queue] for queue in sorted(first)}
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxRowsPerTrigger, else everything."""
        rows = self._options.max_rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix what "now" is: later messages belong to the next start."""
        self._target = self._look({})[1]

    def latestOffset(self, start: Offsets | None = None, limit: ReadLimit | None = None) -> Offsets:
        """Where the next micro-batch ends: `start` itself when there is nothing new."""
        start = start or {}
        begin, self._newest = self._look(start)
        end = self._newest if self._target is None else self._target
        end = {key: max(end.get(key, at), at) for key, at in begin.items()}
        if isinstance(limit, ReadMaxRows):
            end = limited(begin, end, limit.max_rows)
        return start if end == start else dict(sorted(end.items()))

    def reportLatestOffset(self) -> Offsets | None:
        """The ends of all queues as last seen, for the query's progress."""
        return dict(sorted(self._newest.items())) or None

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Tasks between two sets of offsets; a queue without a start begins at its minimum."""
        fresh = [queue_of(key) for key in sorted(end) if key not in start]
        first = dict(start)
        if fresh:
            with Cluster(self._options) as cluster:
                extents = _reachable(cluster.extents(fresh))
            first |= {offset_key(queue): extent.first for queue, extent in extents.items()}
        ranges = [
            QueueRange(queue_of(key), first[key], max(end[key], first[key])) for key in sorted(end)
        ]
        return [Task(part) for part in split(ranges, self._options.partitions)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        return read_task(partition, self._schema, self._options)

    def commit(self, end: Offsets) -> None:
        """Nothing: Spark's checkpoint is the truth."""

    def stop(self) -> None:
        """Nothing is held open between calls."""

    def _look(self, start: Offsets) -> tuple[Offsets, Offsets]:
        """Where each queue begins (as `start` says, a new one at its minimum), and ends now.

        A queue whose broker is away stays where `start` has it, and is left out when it is new.
        """
        with Cluster(self._options) as cluster:
            extents = cluster.extents(_all_queues(cluster, self._options))
        begin, end = dict(start), dict(start)
        for queue, extent in extents.items():
            if extent is None:
                continue
            key = offset_key(queue)
            begin.setdefault(key, extent.first)
            end[key] = max(extent.end, begin[key])
            if extent.end < begin[key] and self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{queue} ends at {extent.end}, but was read up to {begin[key]} before: the "
                    f"broker lost messages; set failOnDataLoss to false to go on"
                )
        return begin, end
