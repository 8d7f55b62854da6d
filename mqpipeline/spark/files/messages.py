"""The table `messages` of format("rocketmq-store"): the records of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from mqpipeline.spark.files.options import StoreOptions
from mqpipeline.spark.files.split import split
from mqstore.arrow import store_batches
from mqstore.offline import StoreReader
from mqstore.offline import open as open_store
from mqstore.offline.walk import Gap, Wanted

__all__ = ["STORE", "MessageReader"]

STORE = "store"
"""Column with the path of the store; present for several stores, or if the schema names it."""
PIECE_BYTES = 128 << 20
"""Bytes of the log per task, about; Spark's default for files."""
_log = logging.getLogger(__name__)


@dataclass
class _Piece(InputPartition):  # type: ignore[misc]  # pyspark is not typed for us
    """Records that start in [start, end) of one store."""

    path: str
    start: int
    end: int


class MessageReader(DataSourceReader):  # type: ignore[misc]
    """Plans pieces of commit-log files, and reads a piece as Arrow batches."""

    def __init__(self, schema: pa.Schema, options: StoreOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Pieces of each log file, at least `minPartitions`; their ends are fixed by this call."""
        stores = [(path, open_store(path)) for path in self._options.paths]
        files = [(path, store, *range_) for path, store in stores for range_ in self._files(store)]
        parts_min = -(-self._options.partitions // max(len(files), 1))
        return [
            _Piece(path, *range_)
            for path, store, start, end in files
            for range_ in split(store, start, end, max(parts_min, -(-(end - start) // PIECE_BYTES)))
        ]

    def _files(self, store: StoreReader) -> Iterator[tuple[int, int]]:
        """The range of each log file to read."""
        starting = self._options.starting
        if starting is not None and store.message_at(starting) is None:
            raise ValueError(f"option startingOffset = {starting}: no record starts there")
        start = max(store.min_physical_offset, starting or 0)
        end = self._planned_end(store)
        file_bytes = store.layout.commit_log_file_bytes or 1
        while start < end:
            stop = min(start - start % file_bytes + file_bytes, end)
            yield start, stop
            start = stop

    def _planned_end(self, store: StoreReader) -> int:
        """The end of the log, or an earlier end of the user; the tasks find damage before it."""
        end = store.end_physical_offset(store.queued_end())
        return end if self._options.ending is None else min(end, self._options.ending)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of one piece; any other partition stands for an empty plan."""
        if not isinstance(partition, _Piece):
            return
        options, store = self._options, open_store(partition.path)
        gaps: list[Gap] = []
        on_gap = None if options.fail_on_data_loss else gaps.append
        walk = store.columns(
            [name for name in self._schema.names if name != STORE],
            partition.start,
            Wanted(stop=partition.end, topic=options.topic, check_crc=True),
            on_gap,
            queue_ids=options.queues,
            tags=options.tags,
        )
        constants = {STORE: partition.path} if STORE in self._schema.names else {}
        yield from store_batches(walk, self._schema, partition.end, store.path, on_gap, constants)
        if gaps:
            _log.warning(
                "store %s: skipped %d bytes of damaged records in %d places, the first at "
                "offset %d; for details: mqstore verify %s",
                partition.path, sum(gap.end - gap.start for gap in gaps), len(gaps),
                gaps[0].start, partition.path,
            )  # fmt: skip
