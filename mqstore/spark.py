"""Spark's batch source over store directories: format("rocketmq-store").

    spark.read.format("rocketmq-store").option("topic", "TopicTest").load("/var/lib/store")

Driver and executors must see the same path. A read is a snapshot: where each file ends is
fixed when it is planned. Name a subset of the columns by `.schema("queue_offset long, ...")`
and only that is decoded. Options, all but the path optional:

path: the store's root. topic: only this topic. queues: only these queue ids, "0,2".
tag: only messages with this tag, or one of "TagA || TagB".
startingOffset, endingOffset: physical offsets; a record that starts at the end is left out.
failOnDataLoss: by default damage is an error, a body that does not match its checksum included.
With false, one warning for each log file says what was left out.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from mqstore.arrow import store_batches
from mqstore.errors import StoreDamaged
from mqstore.message import COLUMN_LAYOUTS
from mqstore.offline import StoreReader
from mqstore.offline import open as open_store
from mqstore.offline.walk import Gap, Wanted
from mqstore.spark_options import queue_ids, refuse_unknown, tag_names

__all__ = [
    "StoreDataSource",
    "message_schema",
    "register",
    "wanted_schema",
]

_SPARK_TYPES: dict[str, DataType] = {
    "int32": IntegerType(),
    "int64": LongType(),
    "timestamp": TimestampType(),
    "string": StringType(),
    "binary": BinaryType(),
    "map": MapType(StringType(), StringType()),
}
_OPTION_NAMES = (
    *("path", "topic", "queues", "tag"),
    *("startingOffset", "endingOffset", "failOnDataLoss"),
)
_log = logging.getLogger(__name__)
_ONLY_BY_NAME = {"raw_properties"}


def message_schema(constants: tuple[str, ...] = ()) -> StructType:
    """Columns of a message, all nullable; `constants` are text columns put first."""
    schema = StructType()
    for name in constants:
        schema.add(name, StringType())
    for name, layout in COLUMN_LAYOUTS.items():
        if name not in _ONLY_BY_NAME:
            schema.add(name, _SPARK_TYPES[layout])
    return schema


def wanted_schema(schema: StructType, constants: tuple[str, ...] = ()) -> pa.Schema:
    """The Arrow schema of the columns that a user asked for.

    Raises ValueError naming a column that does not exist or has another type.
    """
    types: dict[str, DataType] = {name: StringType() for name in constants}
    types |= {name: _SPARK_TYPES[layout] for name, layout in COLUMN_LAYOUTS.items()}
    for field in schema:
        known = types.get(field.name)
        if known is None:
            raise ValueError(f"no column {field.name!r}; there are: {', '.join(types)}")
        if field.dataType != known:
            raise ValueError(
                f"column {field.name!r} is {known.simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )
    return to_arrow_schema(schema, timezone="UTC")


@dataclass
class _Piece(InputPartition):  # type: ignore[misc]  # pyspark is not typed for us
    """Records that start in [start, end) of one store."""

    path: str
    start: int
    end: int


class _StoreReader(DataSourceReader):  # type: ignore[misc]
    """Plans one piece per commit-log file and reads a piece as Arrow batches."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        refuse_unknown(options, _OPTION_NAMES)
        path = options.get("path")
        if not path:
            raise ValueError("say where the store is: .load(path)")
        self._path = path.removeprefix("file:")
        self._schema = wanted_schema(schema)
        self._topic = options.get("topic")
        self._queues = queue_ids(options.get("queues"))
        self._tags = tag_names(options.get("tag"))
        self._start = _number(options, "startingOffset")
        self._end = _number(options, "endingOffset")
        self._fail_on_data_loss = (options.get("failOnDataLoss") or "true").lower() != "false"

    def partitions(self) -> list[InputPartition]:
        """One piece per log file, its end fixed now."""
        reader = open_store(self._path)
        if self._start is not None and reader.message_at(self._start) is None:
            raise ValueError(f"option startingOffset = {self._start}: no record starts there")
        start = max(reader.min_physical_offset, self._start or 0)
        end = self._planned_end(reader)
        file_bytes = reader.layout.commit_log_file_bytes or 1
        pieces = []
        while start < end:
            stop = min(start - start % file_bytes + file_bytes, end)
            pieces.append(_Piece(os.path.abspath(self._path), start, stop))
            start = stop
        return pieces

    def _planned_end(self, reader: StoreReader) -> int:
        """The end of the log, unless the user said less; damage before it is an error."""
        queued = reader.queued_end()  # first: the log of a live broker is ahead of its queues
        end = reader.end_physical_offset()
        if end < queued and self._fail_on_data_loss and (self._end is None or end < self._end):
            raise StoreDamaged(
                f"store {self._path}: the log is unreadable at {end}, but queues list records up "
                f"to {queued}; set failOnDataLoss to false to read what is left"
            )
        end = max(end, queued)  # records go on after damage
        return end if self._end is None else min(end, self._end)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batches of one piece; anything else stands for an empty plan."""
        if not isinstance(partition, _Piece):
            return
        reader = open_store(partition.path)
        gaps: list[Gap] = []
        on_gap = None if self._fail_on_data_loss else gaps.append
        wanted = Wanted(stop=partition.end, topic=self._topic, check_crc=True)
        walk = reader.columns(
            self._schema.names,
            partition.start,
            wanted,
            on_gap,
            queue_ids=self._queues,
            tags=self._tags,
        )
        yield from store_batches(walk, self._schema, partition.end, reader.path, on_gap)
        if gaps:
            _log.warning(
                "store %s: %d bytes of damaged records in %d places were left out, first at "
                "offset %d; to see more: mqstore verify %s",
                partition.path, sum(gap.end - gap.start for gap in gaps), len(gaps),
                gaps[0].start, partition.path,
            )  # fmt: skip


def _number(options: Mapping[str, str], key: str) -> int | None:
    text = options.get(key)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise ValueError(f"option {key} = {text!r}: give a physical offset, a number") from None


class StoreDataSource(DataSource):  # type: ignore[misc]
    """format("rocketmq-store"): the messages of a store directory, as they lie on disk."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "rocketmq-store"

    def schema(self) -> StructType:
        """Every column of a message."""
        return message_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in `schema`."""
        return _StoreReader(schema, self.options)


def register(spark: Any) -> None:
    """Make format("rocketmq-store") known to a session that does not discover it by itself."""
    spark.dataSource.register(StoreDataSource)
