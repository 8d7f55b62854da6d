"""Columns of messages in Spark and Arrow."""

from __future__ import annotations

import pyarrow as pa
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

from mqcommon.message import COLUMN_LAYOUTS

__all__ = ["arrow_of", "message_schema", "wanted_schema"]

_SPARK_TYPES: dict[str, DataType] = {
    "int32": IntegerType(),
    "int64": LongType(),
    "timestamp": TimestampType(),
    "string": StringType(),
    "binary": BinaryType(),
    "map": MapType(StringType(), StringType()),
}
_ONLY_BY_NAME = {"raw_properties"}


def message_schema(constants: tuple[str, ...] = ()) -> StructType:
    """Columns of a message, all nullable; `constants` are text columns before them."""
    schema = StructType()
    for name in constants:
        schema.add(name, StringType())
    for name, layout in COLUMN_LAYOUTS.items():
        if name not in _ONLY_BY_NAME:
            schema.add(name, _SPARK_TYPES[layout])
    return schema


def wanted_schema(schema: StructType, constants: tuple[str, ...] = ()) -> pa.Schema:
    """The Arrow schema of the columns that a user selected.

    Raises ValueError naming a column that does not exist or has another type.
    """
    types: dict[str, DataType] = {name: StringType() for name in constants}
    types |= {name: _SPARK_TYPES[layout] for name, layout in COLUMN_LAYOUTS.items()}
    return arrow_of(schema, types)


def arrow_of(schema: StructType, types: dict[str, DataType]) -> pa.Schema:
    """The Arrow schema of a subset of the columns `types`, in the order of `schema`.

    Raises ValueError naming a column that does not exist or has another type.
    """
    for field in schema:
        known = types.get(field.name)
        if known is None:
            raise ValueError(f"no column {field.name!r}; the columns are: {', '.join(types)}")
        if field.dataType != known:
            raise ValueError(
                f"column {field.name!r} is {known.simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )
    return to_arrow_schema(schema, timezone="UTC")
