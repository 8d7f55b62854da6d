"""Chooses the rows of a task for Spark: rows with a wanted key, and each row once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mqcommon.property_text import NAME_END, PAIR_END
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.task import read_task
from mqstore.arrow import arrow_schema

__all__ = ["ROW_ID", "read_rows"]

ROW_ID = "sparkRowId"
"""Property that names a row that Spark wrote."""
_ROW_ID_VALUE = f"(?:^|{PAIR_END}){ROW_ID}{NAME_END}(?P<id>[^{PAIR_END}]*)"
"""The property as it is stored."""


def read_rows(task: Any, schema: pa.Schema, options: Options) -> Iterator[pa.RecordBatch]:
    """The batches of one task that Spark gets, of the columns of `schema`."""
    needed = (("keys",) if options.keys else ()) + (
        ("topic", "raw_properties") if options.dedup else ()
    )
    if not needed:
        yield from read_task(task, schema, options)
        return
    more = arrow_schema([name for name in needed if name not in schema.names])
    seen: set[tuple[str, str]] = set()
    for batch in read_task(task, pa.schema([*schema, *more]), options):
        if options.keys:
            batch = batch.filter(_has_key(batch, options.keys))
        if options.dedup:
            batch = batch.filter(_is_first(batch, seen))
        yield pa.RecordBatch.from_arrays(
            [batch.column(name) for name in schema.names], schema=schema
        )


def _has_key(batch: pa.RecordBatch, keys: frozenset[str]) -> pa.Array:
    """Whether each row has one of the keys; a message's keys are separated by spaces."""
    wanted = "|".join(re.escape(key) for key in sorted(keys))
    found = pc.match_substring_regex(batch.column("keys"), f"(?:^| )(?:{wanted})(?: |$)")
    return pc.fill_null(found, False)


def _is_first(batch: pa.RecordBatch, seen: set[tuple[str, str]]) -> pa.Array:
    """Whether each row has no row id, or one that is not yet in `seen`; adds the ids to `seen`.

    A copy of a message in another topic is another message.
    """
    found = pc.extract_regex(batch.column("raw_properties"), _ROW_ID_VALUE)
    ids = pc.struct_field(found, "id")
    if ids.null_count == len(ids):
        return pa.repeat(True, len(ids))
    first = []
    for row_id, topic in zip(ids.to_pylist(), batch.column("topic").to_pylist(), strict=True):
        first.append(row_id is None or (topic, row_id) not in seen)
        if row_id is not None:
            seen.add((topic, row_id))
    return pa.array(first, pa.bool_())
