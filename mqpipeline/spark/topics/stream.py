"""Streaming reads: micro-batches between two sets of offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from mqclient.errors import NoRouteError
from mqcommon.message import MessageQueue
from mqpipeline.spark.topics.batch import tasks_of
from mqpipeline.spark.topics.cluster import Cluster, DataLossError, Extent
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import QueueRange, limited, offset_key, queue_of
from mqpipeline.spark.topics.positions import LATEST, GroupStart
from mqpipeline.spark.topics.progress import GroupProgress
from mqpipeline.spark.topics.row_sizes import RowSizes
from mqpipeline.spark.topics.rows import read_rows
from mqpipeline.spark.topics.survey import (
    check_filter,
    fewer_queues,
    patiently,
    queues_of,
    reached,
    resolve,
    topics_of,
)

__all__ = ["StreamReader"]

_log = logging.getLogger(__name__)

Offsets = dict[str, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Micro-batches between two sets of offsets, "broker|topic|queue" to the next offset.

    An end below its start means that the queue restarted: the micro-batch reads it from its
    first message.
    """

    def __init__(self, schema: pa.Schema, options: Options) -> None:
        self._schema = schema
        self._options = options
        self._initial: Offsets | None = None
        self._has_begun = False
        """Whether this process ended the first micro-batch of a query, or found it ended."""
        self._target: Offsets | None = None
        self._newest: Offsets = {}
        self._without_route: set[str] = set()
        self._fewer = ""
        """The queues in the last warning about queues that are no longer readable."""
        self._sizes = RowSizes(options)
        self._progress = GroupProgress(options) if options.commit_group else None

    def initialOffset(self) -> Offsets:
        """The offsets at which a new query starts; Spark asks twice, so they are resolved once."""
        if self._initial is None:
            self._initial = patiently(self._options, self._first)
        return self._initial

    def _first(self, cluster: Cluster) -> Offsets:
        options = self._options
        extents = self._whole_extents(cluster)
        if self._progress is not None:
            self._progress.refuse_members(cluster, extents)
        first = resolve(options.starting, cluster, extents, options, default=LATEST)
        return {offset_key(queue): first[queue] for queue in sorted(first)}

    def _whole_extents(self, cluster: Cluster) -> dict[MessageQueue, Extent]:
        queues = queues_of(cluster, self._options)
        check_filter(cluster, self._options, queues)
        return reached(cluster.extents(queues))

    @property
    def _moves(self) -> bool:
        """Whether the starting position would change if it were resolved again later.

        The first micro-batch of such a query is empty: Spark keeps where it ends, but not where
        it starts. After a crash in the first micro-batch, nothing is missed.
        """
        return self._options.starting in (None, LATEST) or isinstance(
            self._options.starting, GroupStart
        )

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxRowsPerTrigger, maxBytesPerTrigger, or everything; two limits hold together."""
        if self._options.max_rows_per_trigger is not None:
            return ReadMaxRows(self._options.max_rows_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix what "now" is: later messages belong to the next start."""
        extents = patiently(self._options, self._whole_extents)
        self._target = {offset_key(queue): extent.end for queue, extent in extents.items()}

    def latestOffset(self, start: Offsets | None = None, limit: ReadLimit | None = None) -> Offsets:
        """The end of the next micro-batch: `start` itself if there is nothing new."""
        start = start or {}
        extents = patiently(self._options, lambda cluster: self._look(cluster, start))
        anew = self._check_losses(start, extents)
        is_first = self._moves and not self._has_begun and start == self._initial
        self._has_begun = True
        self._newest = {**start, **{key: extent.end for key, extent in extents.items()}}
        if is_first:
            return start
        begin, end = self._spans(start, extents, anew)
        end = self._limited(begin, end, limit)
        return start if end == start else dict(sorted(end.items()))

    def _look(self, cluster: Cluster, start: Offsets) -> dict[str, Extent]:
        """The extents of the queues whose brokers answer.

        A topic of the query without a route is left out, because an unreachable broker loses the
        routes of its topics.
        """
        queues = []
        for topic in topics_of(cluster, self._options):
            try:
                queues += cluster.queues(topic)
                self._without_route.discard(topic)
            except NoRouteError:
                is_read = any(queue_of(key).topic == topic for key in start)
                if not is_read and self._options.topic_pattern is None:
                    raise
                if topic not in self._without_route:
                    _log.warning("topic %s has no route now; its offsets stay", topic)
                self._without_route.add(topic)
        if self._progress is not None and not self._has_begun:
            self._progress.refuse_members(cluster, queues)
        if not self._has_begun:
            check_filter(cluster, self._options, queues)
        fewer = fewer_queues(cluster, start, queues, self._options)
        if fewer and fewer != self._fewer:
            self._lose(f"the checkpoint of this query knows more: {fewer}", "leave them unread")
        self._fewer = fewer
        found = {}
        for queue, extent in cluster.extents(queues).items():
            key = offset_key(queue)
            if extent is not None and key in start and not cluster.has_master(queue):
                # A slave may be late, so its offsets do not show a loss.
                extent = Extent(min(extent.first, start[key]), max(extent.end, start[key]))
            if extent is not None:
                found[key] = extent
        return found

    def _check_losses(self, start: Offsets, extents: Mapping[str, Extent]) -> set[str]:
        """Find queues that lost messages; returns the queues that restarted.

        Raises DataLossError for any such queue if failOnDataLoss is true.
        """
        anew = set()
        for key, extent in extents.items():
            if key not in start:
                continue
            queue, at = queue_of(key), start[key]
            if extent.end < at:
                self._lose(
                    f"{queue} ends at {extent.end}, but was read up to {at} before: the topic was "
                    f"made anew, or the broker lost messages",
                    "read the queue from its first message",
                )
                anew.add(key)
            elif extent.first > at:
                self._lose(
                    f"{queue} begins at {extent.first}, but was read only up to {at} before: the "
                    f"broker deleted messages that were not read",
                    "go on with what is left",
                )
        return anew

    def _lose(self, problem: str, instead: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{problem}; set failOnDataLoss to false to {instead}")
        _log.warning("%s; failOnDataLoss is false: the query will %s", problem, instead)

    def _spans(
        self, start: Offsets, extents: Mapping[str, Extent], anew: set[str]
    ) -> tuple[Offsets, Offsets]:
        """Start and end of each queue's next range; a new queue starts at its minimum.

        A queue whose broker is unreachable keeps its position in `start`; a new one is left out.
        """
        begin, end = dict(start), dict(start)
        for key, extent in extents.items():
            stop = extent.end
            if self._target is not None:
                if key not in self._target and key not in start:
                    continue
                stop = min(stop, self._target.get(key, stop))
            first = extent.first if key in anew else max(start.get(key, 0), extent.first)
            begin[key], end[key] = first, max(first, stop)
        return begin, end

    def _limited(self, begin: Offsets, end: Offsets, limit: ReadLimit | None) -> Offsets:
        if limit is None or isinstance(limit, ReadAllAvailable):
            return end
        rows, size = self._options.max_rows_per_trigger, self._options.max_bytes_per_trigger
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        if isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        if rows is not None:
            end = limited(begin, end, rows)
        if size is not None:
            end = limited(begin, end, size, self._sizes.of(begin, end))
        return end

    def reportLatestOffset(self) -> Offsets | None:
        """The ends of all queues as last seen, for the query's progress."""
        return dict(sorted(self._newest.items())) or None

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Tasks between two sets of offsets; a queue without a start begins at its minimum."""
        if self._moves and not self._has_begun and start == self._initial:
            return []  # the first micro-batch, repeated after a crash: see `_moves`
        fresh = [queue_of(key) for key in sorted(end) if key not in start]
        first = {key: at if at <= end.get(key, at) else 0 for key, at in start.items()}
        if fresh:
            extents = patiently(self._options, lambda cluster: reached(cluster.extents(fresh)))
            first |= {offset_key(queue): extent.first for queue, extent in extents.items()}
        ranges = [
            QueueRange(queue_of(key), first[key], max(end[key], first[key])) for key in sorted(end)
        ]
        return tasks_of(ranges, self._options)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        return read_rows(partition, self._schema, self._options)

    def commit(self, end: Offsets) -> None:
        """Publish the group's progress; Spark's checkpoint is the truth."""
        if self._progress is not None:
            self._progress.commit(end)

    def stop(self) -> None:
        """Nothing is held open between calls."""
