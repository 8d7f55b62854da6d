"""Stored messages as Arrow record batches, built natively column by column.

Needs pyarrow (`pip install mqstack[arrow]`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from mqstore.errors import StoreDamaged
from mqstore.message import COLUMN_LAYOUTS, ColumnBuilder
from mqstore.offline import LogWalk, StoreReader, Wanted

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "BatchBuilder", "arrow_schema", "store_batches"]

BATCH_ROWS = 10_000
"""A batch is full at this many rows ..."""
BATCH_BYTES = 8 << 20
"""... or this many bytes, whichever comes first."""

_TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "map": pa.map_(pa.string(), pa.string()),
}


def arrow_schema(columns: Collection[str]) -> pa.Schema:
    """The Arrow schema of some columns of COLUMN_LAYOUTS, all nullable."""
    return pa.schema([(name, _TYPES[COLUMN_LAYOUTS[name]]) for name in columns])


class BatchBuilder:
    """Collects records and gives them as RecordBatches of one schema.

    schema: columns of COLUMN_LAYOUTS with their types; nothing else is decoded. constants:
    text columns with the same value in every row, such as the broker's name.
    Raises ValueError for a column that is neither.
    """

    def __init__(self, schema: pa.Schema, constants: dict[str, str] | None = None) -> None:
        self._schema = schema
        self._constants = constants or {}
        decoded = [name for name in schema.names if name not in self._constants]
        self._builder = ColumnBuilder(decoded)

    @property
    def full(self) -> bool:
        """Whether it is time to take a batch."""
        return self._builder.rows >= BATCH_ROWS or self._builder.size_bytes >= BATCH_BYTES

    @property
    def rows(self) -> int:
        """Rows collected since the last batch."""
        return self._builder.rows

    def add(self, body: bytes, **wanted: Any) -> int:
        """Add the wanted records of `body`; see ColumnBuilder.add."""
        return self._builder.add(body, **wanted)

    def take(self) -> pa.RecordBatch:
        """What was collected, as one batch; the builder is empty afterwards."""
        rows = self._builder.rows
        buffers = self._builder.take()
        arrays = [self._array(field, rows, buffers) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: pa.Field, rows: int, buffers: dict[str, Any]) -> pa.Array:
        if field.name in self._constants:
            return pa.repeat(pa.scalar(self._constants[field.name], field.type), rows)
        taken = buffers[field.name]
        if pa.types.is_map(field.type):
            return _map_array(field.type, rows, taken)
        return _flat_array(field.type, rows, taken)


def _flat_array(kind: pa.DataType, rows: int, buffers: tuple[bytes | None, ...]) -> pa.Array:
    wrapped = [None if data is None else pa.py_buffer(data) for data in buffers]
    return pa.Array.from_buffers(kind, rows, wrapped)


def _map_array(kind: pa.MapType, rows: int, taken: tuple[Any, ...]) -> pa.Array:
    ends, pairs, names, values = taken
    entry = pa.struct([kind.key_field, kind.item_field])
    children = [
        _flat_array(kind.key_type, pairs, (None, *names)),
        _flat_array(kind.item_type, pairs, (None, *values)),
    ]
    entries = pa.Array.from_buffers(entry, pairs, [None], children=children)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(ends)], children=[entries])


def store_batches(
    reader: StoreReader, schema: pa.Schema, start: int, end: int, **wanted: Any
) -> Iterator[pa.RecordBatch]:
    """Batches of the records that start in [start, end), physical offsets.

    wanted: topic, queue_ids, tags, as in ColumnBuilder.add.
    Raises StoreDamaged, after the last batch, when the log becomes unreadable before `end`.
    """
    builder = BatchBuilder(schema)
    reached = start
    walk = reader.walk(start, Wanted(stop=end, topic=wanted.get("topic")))
    for body, at in _steps(walk):
        builder.add(body, end_physical_offset=end, **wanted)
        reached = at
        if builder.full:
            yield builder.take()
    if builder.rows:
        yield builder.take()
    if reached < end:
        raise StoreDamaged(
            f"store {reader.path}: the log is unreadable at {reached}, before {end}; to see "
            f"more: mqstore verify {reader.path}"
        )


def _steps(walk: LogWalk) -> Iterator[tuple[bytes, int]]:
    """Records, and how far they reach, up to damage or the end."""
    why = "more"
    while why == "more":
        body, why = walk.step()
        yield body, walk.offset
