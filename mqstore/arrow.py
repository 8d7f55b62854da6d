"""Stored messages as Arrow record batches, built column by column in native code.

Needs pyarrow (`pip install mqstack[arrow]`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mqcommon import extras
from mqcommon.message import COLUMN_LAYOUTS, ColumnBuilder
from mqstore.errors import StoreDamaged
from mqstore.offline.materialize import Rows
from mqstore.offline.walk import Gap, Walk

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = extras.load("pyarrow", "Arrow")

__all__ = [
    "BATCH_BYTES",
    "BATCH_BYTES_MIN",
    "BATCH_ROWS",
    "BATCH_ROWS_MIN",
    "BatchBuilder",
    "arrow_schema",
    "store_batches",
    "walk_batches",
]

T = TypeVar("T")

BATCH_ROWS = 10_000
"""A batch is full at this many rows ..."""
BATCH_BYTES = 8 << 20
"""... or this many bytes, whichever comes first."""
BATCH_ROWS_MIN = 1_000
"""Batches of a store have at least this many rows ..."""
BATCH_BYTES_MIN = 1 << 20
"""... or this many bytes, except the last: joining small batches is cheaper than passing them
on."""

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
    """Collects records and returns them as RecordBatches of one schema.

    schema: columns of COLUMN_LAYOUTS with their types; other columns are not decoded. constants:
    text columns with the same value in every row, such as the broker's name. Raises ValueError for
    a column that is in neither.
    """

    def __init__(self, schema: pa.Schema, constants: dict[str, str] | None = None) -> None:
        self._schema = schema
        self._constants = constants or {}
        decoded = [name for name in schema.names if name not in self._constants]
        self._builder = ColumnBuilder(decoded)

    @property
    def full(self) -> bool:
        """Whether enough rows or bytes are collected for a batch."""
        return self._builder.rows >= BATCH_ROWS or self._builder.size_bytes >= BATCH_BYTES

    @property
    def rows(self) -> int:
        """Rows collected since the last batch."""
        return self._builder.rows

    def add(self, body: bytes, **wanted: Any) -> int:
        """Add the wanted records of `body`; see ColumnBuilder.add."""
        return self._builder.add(body, **wanted)

    def fill(self, fill: Callable[[ColumnBuilder, int, int], T]) -> T:
        """Let a native reader add records until the batch is full or the reader has no more.

        fill: called with the columns, and the rows and bytes at which a batch is full.
        """
        return fill(self._builder, BATCH_ROWS, BATCH_BYTES)

    def take(self) -> pa.RecordBatch:
        """The collected rows as one batch; the builder is empty afterwards."""
        rows = self._builder.rows
        return _batch(self._schema, self._constants, rows, self._builder.take())


def _batch(
    schema: pa.Schema, constants: dict[str, str], rows: int, buffers: dict[str, Any]
) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        if field.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], field.type), rows))
        elif pa.types.is_map(field.type):
            arrays.append(_map_array(field.type, rows, buffers[field.name]))
        else:
            arrays.append(_flat_array(field.type, rows, buffers[field.name]))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _flat_array(kind: pa.DataType, rows: int, buffers: tuple[Any, ...]) -> pa.Array:
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


def walk_batches(walk: Walk[Rows], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches from a walk over the log; small ones are joined."""
    yield from _whole_batches(iter(walk), schema)


def store_batches(
    walk: Walk[Rows],
    schema: pa.Schema,
    end: int,
    store: Path,
    on_gap: Callable[[Gap], None] | None = None,
    constants: dict[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches from a walk that must reach the physical offset `end`.

    store: the directory, for the error text. on_gap: called with each range without a readable
    record; a range at the end is reported here. constants: see BatchBuilder. Without on_gap, raises
    StoreDamaged after the last batch before such a range.
    """
    yield from _whole_batches(iter(walk) if on_gap else _steps(walk), schema, constants)
    if walk.offset < end:
        if on_gap:
            on_gap(Gap(walk.offset, end))
            return
        raise StoreDamaged(
            f"store {store}: the log is unreadable at {walk.offset}, before {end}; for "
            f"details: mqstore verify {store}"
        )


def _steps(walk: Walk[Rows]) -> Iterator[Rows]:
    """The steps of a walk until damage or the end."""
    why = "more"
    while why == "more":
        rows, why = walk.step()
        yield rows


def _whole_batches(
    parts: Iterator[Rows], schema: pa.Schema, constants: dict[str, str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of at least BATCH_ROWS_MIN rows or BATCH_BYTES_MIN bytes, except the last."""
    waiting: list[pa.RecordBatch] = []
    for rows, buffers in parts:
        if rows:
            waiting.append(_batch(schema, constants or {}, rows, buffers))
        if _suffices(waiting):
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _suffices(batches: list[pa.RecordBatch]) -> bool:
    rows = sum(batch.num_rows for batch in batches)
    size_bytes = sum(batch.nbytes for batch in batches)
    return bool(rows >= BATCH_ROWS_MIN or size_bytes >= BATCH_BYTES_MIN)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
