"""The tables `consumequeue` and `index` of format("rocketmq-store"): entries of files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from mqpipeline.spark.files.options import StoreOptions
from mqstore.offline import StoreReader
from mqstore.offline import open as open_store
from mqstore.offline.views import HOLE_BYTES, HOLE_TAGS_CODE

__all__ = ["COLUMNS", "AuditReader"]

_INT, _LONG, _TEXT = IntegerType(), LongType(), StringType()
COLUMNS: dict[str, dict[str, DataType]] = {
    "consumequeue": {
        "store": _TEXT, "topic": _TEXT, "queue_id": _INT, "queue_offset": _LONG,
        "physical_offset": _LONG, "size": _INT, "tags_code": _LONG, "is_hole": BooleanType(),
    },
    "index": {
        "store": _TEXT, "file": _TEXT, "entry": _INT, "key_hash": _INT, "physical_offset": _LONG,
        "store_timestamp": TimestampType(), "previous_entry": _INT,
    },
}  # fmt: skip
"""Columns of each table. `is_hole`: the entry has no record. `store_timestamp` of an index entry
is exact to the second."""

_QUEUE_ENTRY = struct.Struct(">qiq")
_INDEX_ENTRY = struct.Struct(">iqii")
BATCH_ROWS = 10_000
TASK_ROWS = 2_000_000
"""Most entries of one task."""


@dataclass
class _Piece(InputPartition):  # type: ignore[misc]  # pyspark is not typed for us
    """Entries [start, end) of one queue or index file."""

    path: str
    name: str
    """The topic, or the index file."""
    number: int
    """The queue id, or the store time of the file's first message in milliseconds."""
    start: int
    end: int


class AuditReader(DataSourceReader):  # type: ignore[misc]
    """Reads the entries of consume queues or of index files."""

    def __init__(self, schema: pa.Schema, options: StoreOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Ranges of entries; their ends are fixed by this call."""
        plan = self._queues if self._options.table == "consumequeue" else self._index_files
        return [
            _Piece(path, name, number, at, min(at + TASK_ROWS, end))
            for path in self._options.paths
            for name, number, start, end in plan(path)
            for at in range(start, end, TASK_ROWS)
        ]

    def _queues(self, path: str) -> Iterator[tuple[str, int, int, int]]:
        options = self._options
        for queue in open_store(path).queues():
            if options.topic not in (None, queue.topic):
                continue
            if options.queues is None or queue.queue_id in options.queues:
                yield queue.topic, queue.queue_id, queue.min_offset, queue.max_offset

    def _index_files(self, path: str) -> Iterator[tuple[str, int, int, int]]:
        for name, begin_ms, entries in open_store(path).index_files():
            yield name, begin_ms, 1, entries + 1

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of one piece; any other partition stands for an empty plan."""
        if not isinstance(partition, _Piece):
            return
        columns = _queue_columns if self._options.table == "consumequeue" else _index_columns
        store, at = open_store(partition.path), partition.start
        while at < partition.end:
            found = columns(store, partition, at, min(BATCH_ROWS, partition.end - at))
            count = len(found["physical_offset"])
            if not count:  # a broker deleted the file
                return
            yield self._batch(found, count)
            at += count

    def _batch(self, found: dict[str, Any], rows: int) -> pa.RecordBatch:
        """A batch of the named columns; a single value is repeated for all rows."""
        arrays = []
        for field in self._schema:
            value = found[field.name]
            is_column = isinstance(value, list | tuple | range)
            column = value if is_column else [value] * rows
            arrays.append(pa.array(column, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _queue_columns(store: StoreReader, piece: _Piece, at: int, count: int) -> dict[str, Any]:
    entries = store.raw_queue_entries(piece.name, piece.number, at, count)
    rows = list(_QUEUE_ENTRY.iter_unpack(entries))
    return {
        "store": piece.path,
        "topic": piece.name,
        "queue_id": piece.number,
        "queue_offset": range(at, at + len(rows)),
        "physical_offset": [row[0] for row in rows],
        "size": [row[1] for row in rows],
        "tags_code": [row[2] for row in rows],
        "is_hole": [row[1] == HOLE_BYTES or row[2] == HOLE_TAGS_CODE for row in rows],
    }


def _index_columns(store: StoreReader, piece: _Piece, at: int, count: int) -> dict[str, Any]:
    rows = list(_INDEX_ENTRY.iter_unpack(store.raw_index_entries(piece.name, at, count)))
    return {
        "store": piece.path,
        "file": piece.name,
        "entry": range(at, at + len(rows)),
        "key_hash": [row[0] for row in rows],
        "physical_offset": [row[1] for row in rows],
        "store_timestamp": [(piece.number + row[2] * 1000) * 1000 for row in rows],
        "previous_entry": [row[3] for row in rows],
    }
