"""What one task does on a worker: read its ranges into Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from mqclient.spark.cluster import Cluster
from mqclient.spark.options import Options
from mqclient.spark.plan import QueueRange
from mqstore.arrow import BatchBuilder

__all__ = ["Task", "read_task"]


@dataclass
class Task(InputPartition):  # type: ignore[misc]  # pyspark is not typed for us
    """What one task reads."""

    ranges: tuple[QueueRange, ...]


def read_task(task: Any, schema: pa.Schema, options: Options) -> Iterator[pa.RecordBatch]:
    """The batches of one task; anything but a task stands for an empty plan."""
    if not isinstance(task, Task):
        return
    with Cluster(options) as cluster:
        for piece in task.ranges:
            constants = {"broker_name": piece.queue.broker_name}
            constants = {name: at for name, at in constants.items() if name in schema.names}
            builder = BatchBuilder(schema, constants)
            for body in cluster.read(piece.queue, piece.first, piece.end):
                builder.add(
                    body,
                    tags=options.tags,
                    first_queue_offset=piece.first,
                    end_queue_offset=piece.end,
                )
                if builder.full:
                    yield builder.take()
            if builder.rows:
                yield builder.take()
