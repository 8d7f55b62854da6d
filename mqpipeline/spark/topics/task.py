"""One task on a worker: reads its ranges into Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import QueueRange
from mqpipeline.spark.topics.ranges import Ranges
from mqstore.arrow import BatchBuilder

__all__ = ["Task", "read_task"]


@dataclass
class Task(InputPartition):  # type: ignore[misc]  # pyspark is not typed for us
    """The ranges that one task reads."""

    ranges: tuple[QueueRange, ...]


def read_task(task: Any, schema: pa.Schema, options: Options) -> Iterator[pa.RecordBatch]:
    """The batches of one task; anything but a task stands for an empty plan."""
    if not isinstance(task, Task):
        return
    with closing(Ranges(task.ranges, options)) as reader:
        for broker_name, pieces in groupby(task.ranges, lambda piece: piece.queue.broker_name):
            constants = {"broker_name": broker_name} if "broker_name" in schema.names else {}
            builder = BatchBuilder(schema, constants)
            for _ in pieces:
                while not reader.fill(builder):
                    yield builder.take()
            if builder.rows:
                yield builder.take()
