"""The columns of a write: which there may be, and their Arrow buffers for native code."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

__all__ = ["check_columns", "column_buffers"]

_TYPES = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "flag": ("int",),
    "delay_level": ("int",),
    "order_key": ("string",),
}
"""Spark's types of the columns that a write uses."""
_EMPTY = pa.py_buffer(b"")


def check_columns(schema: StructType, ignored: Iterable[str], topic: str | None) -> None:
    """Raise ValueError unless rows with this schema can be written.

    ignored: further columns that there may be. topic: of rows that have none.
    """
    known = {*_TYPES, *ignored}
    for field in schema:
        types, given = _TYPES.get(field.name), field.dataType.simpleString()
        if field.name not in known:
            near = get_close_matches(field.name, _TYPES, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"no column {field.name!r}; {hint}there are: {', '.join(_TYPES)}")
        if types is not None and given not in types:
            raise ValueError(f"column {field.name!r} must be {' or '.join(types)}, not {given}")
    if "body" not in schema.names:
        raise ValueError('a write needs a column "body", binary or string')
    if "topic" not in schema.names and topic is None:
        raise ValueError('say where to write: .option("topic", ...) or a column "topic"')


def column_buffers(batch: pa.RecordBatch) -> dict[str, tuple[Any, ...]]:
    """The columns that a write uses, as `_core.RowWriter.write` takes them."""
    return {name: _buffers(batch.column(name)) for name in batch.schema.names if name in _TYPES}


def _buffers(array: pa.Array) -> tuple[Any, ...]:
    kind = array.type
    if pa.types.is_map(kind):
        return (*_outer(array), _texts(array.keys), _texts(array.items))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lists = array.cast(pa.list_(pa.string()))
        return (*_outer(lists), _texts(lists.values))
    if pa.types.is_int32(kind):
        validity, values = array.buffers()
        return array.offset, len(array), validity, values or _EMPTY
    return _texts(array)


def _outer(array: pa.Array) -> tuple[Any, ...]:
    """What lists and maps have of their own: rows, nulls, and where each row ends."""
    validity, ends = array.buffers()[:2]
    return array.offset, len(array), validity, ends or _EMPTY


def _texts(array: pa.Array) -> tuple[Any, ...]:
    if array.type not in (pa.string(), pa.binary()):
        is_text = pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type)
        array = array.cast(pa.string() if is_text else pa.binary())
    validity, ends, values = array.buffers()
    return array.offset, len(array), validity, ends or _EMPTY, values or _EMPTY
