"""Batch reads: a snapshot of queues, cut into tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from mqcommon.message import MessageQueue
from mqpipeline.spark.topics.cluster import Cluster, Extent
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import QueueRange, split
from mqpipeline.spark.topics.positions import EARLIEST, LATEST
from mqpipeline.spark.topics.rows import read_rows
from mqpipeline.spark.topics.survey import check_filter, patiently, queues_of, reached, resolve
from mqpipeline.spark.topics.task import Task

__all__ = ["BatchReader", "tasks_of"]


class BatchReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed for us
    """A snapshot: offsets are fixed when the read is planned."""

    def __init__(self, schema: pa.Schema, options: Options) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Tasks over the ranges of every queue."""
        return tasks_of(patiently(self._options, self._ranges), self._options)

    def _ranges(self, cluster: Cluster) -> list[QueueRange]:
        options = self._options
        queues = self._queues(cluster)
        check_filter(cluster, options, queues)
        extents = reached(cluster.extents(queues))
        return [piece for piece in self._resolved(cluster, extents) if piece.rows > 0]

    def _queues(self, cluster: Cluster) -> list[MessageQueue]:
        pattern = self._options.topic_pattern
        queues = queues_of(cluster, self._options)
        if not queues and pattern is not None:
            raise ValueError(f"option topicPattern = {pattern.pattern!r}: no topic matches")
        return queues

    def _resolved(
        self, cluster: Cluster, extents: Mapping[MessageQueue, Extent]
    ) -> list[QueueRange]:
        options = self._options
        first = resolve(options.starting, cluster, extents, options, default=EARLIEST)
        end = resolve(options.ending, cluster, extents, options, default=LATEST, unnamed=LATEST)
        return [QueueRange(queue, first[queue], end[queue]) for queue in sorted(extents)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        return read_rows(partition, self._schema, self._options)


def tasks_of(ranges: list[QueueRange], options: Options) -> list[InputPartition]:
    """Tasks of as many ranges and rows as the options say."""
    parts = split(
        ranges,
        options.partitions,
        tasks_min=options.partitions_min,
        rows_max=options.rows_per_partition_max,
    )
    return [Task(part) for part in parts]
