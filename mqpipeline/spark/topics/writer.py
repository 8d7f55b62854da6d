"""Batch and streaming writes: rows in Arrow batches become messages, sent in batches.

At least once: a task that Spark runs again sends its messages again. Every message carries the
property `sparkRowId`, which is the same each time its row is sent, so that a reader can drop
repeats. It is "job/partition/row" in a batch, and "query/batch/partition/row" in a stream.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mqpipeline.spark.files import message_schema
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.row_sink import WriteError, worker_sinks
from mqpipeline.spark.topics.write_columns import check_columns

__all__ = ["BatchWriter", "StreamWriter"]


@dataclass
class _Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed for us
    """The result of one task."""

    messages: int


def _check(schema: StructType, options: Options) -> None:
    """Refuse on the driver rows that no task could write; columns of a read are ignored."""
    check_columns(schema, [*message_schema().names, "broker_name"], options.topic)


def _write(batches: Iterator[pa.RecordBatch], options: Options, job: str) -> _Written:
    """Send the rows of one task; returns when all are stored."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    sink = worker_sinks().sink(options)
    sink.start(f"{job}/{partition}/")
    try:
        for batch in batches:
            sink.write(batch)
        return _Written(sink.finish())
    except WriteError as error:
        raise WriteError(f"partition {partition}: {error}") from error.__cause__


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends the rows of a DataFrame."""

    def __init__(self, schema: StructType, options: Options) -> None:
        _check(schema, options)
        self._options = options
        self._job = uuid.uuid4().hex  # made on the driver: each attempt of a task has the same

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task; returns when all are stored."""
        return _write(iterator, self._options, self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: the messages are already sent."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: sent messages cannot be taken back."""


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Appends the rows of each micro-batch."""

    def __init__(self, schema: StructType, options: Options) -> None:
        _check(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task; returns when all are stored."""
        return _write(iterator, self._options, _micro_batch())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: the messages are already sent."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: sent messages cannot be taken back."""


def _micro_batch() -> str:
    """Query and batch, if Spark provides them."""
    from pyspark import TaskContext

    context = TaskContext.get()
    local = context.getLocalProperty if context is not None else (lambda _: None)
    query = local("sql.streaming.queryId") or ""
    return f"{query}/{local('streaming.sql.batchId') or ''}"
