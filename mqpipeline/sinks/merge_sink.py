"""The sink of `compact`: each row names files of a lake, which the task merges into one file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from mqpipeline.lake.lake_writer import BUFFER_BYTES
from mqpipeline.lake.storage import Lake

__all__ = ["Merge", "Merged", "merge"]

FORMAT = "mqpipeline-merge"
LISTING = "merged.json"


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one folder, and the file that replaces them."""

    target: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged file. staged: its path in the staging folder. target: its path in the lake."""

    staged: str
    target: str
    rows: int
    bytes: int


@dataclass
class _Done(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed for us
    merged: list[Merged]


class MergeSink(DataSource):  # type: ignore[misc]
    """format("mqpipeline-merge") with the options lake and staging; its column is a `Merge` in
    JSON."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """A writer that merges the files of each row."""
        return _Writer(self.options["lake"], self.options["staging"])


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, where: str, staging: str) -> None:
        self._where, self._staging = where, staging

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Merge the files of one task attempt."""
        lake, attempt = Lake(self._where), uuid4().hex[:12]
        merged = []
        for batch in iterator:
            for text in batch.column(0).to_pylist():
                found = json.loads(text)
                plan = Merge(found["target"], tuple(found["files"]))
                merged.append(_merge(lake, plan, self._staging, f"{attempt}/{plan.target}"))
        return _Done(merged)

    def commit(self, messages: list[Any]) -> None:
        """Write the list of the files of the successful attempts."""
        listed = [
            {"staged": m.staged, "target": m.target, "rows": m.rows, "bytes": m.bytes}
            for message in messages
            for m in message.merged
        ]
        Lake(self._where).replace(f"{self._staging}/{LISTING}", json.dumps(listed).encode())

    def abort(self, messages: list[Any]) -> None:
        """Do nothing: the next run deletes the staging folder."""


def _merge(lake: Lake, plan: Merge, staging: str, staged: str) -> Merged:
    """Copy the rows of some files to one file, in the order of the files."""
    sources = [pq.ParquetFile(lake.full(path), filesystem=lake.fs) for path in plan.files]
    schema = pa.unify_schemas([source.schema_arrow for source in sources])
    part = f"{staging}/{staged}.part"
    rows = 0
    with lake.new_parquet(part, schema) as writer:
        waiting: list[pa.Table] = []
        for source in sources:
            for batch in source.iter_batches():
                waiting.append(_fitted(pa.Table.from_batches([batch]), schema))
                rows += batch.num_rows
                if sum(table.nbytes for table in waiting) >= BUFFER_BYTES:
                    _write(writer, waiting)
        if waiting:
            _write(writer, waiting)
    expected = sum(source.metadata.num_rows for source in sources)
    if rows != expected:
        raise ValueError(f"{plan.target}: merged {rows} rows, but the files have {expected}")
    return Merged(staged, plan.target, rows, lake.finish(part, f"{staging}/{staged}"))


def _write(writer: Any, waiting: list[pa.Table]) -> None:
    table = pa.concat_tables(waiting)
    writer.write_table(table, row_group_size=table.num_rows)
    waiting.clear()


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with all columns of a schema; missing columns are null."""
    columns = [
        table[field.name] if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]  # fmt: skip
    return pa.table(columns, schema=schema)


def merge(session: Any, lake: Lake, staging: str, plans: Sequence[Merge]) -> list[Merged]:
    """Merge files with a Spark job; returns the merged files in the staging folder."""
    session.dataSource.register(MergeSink)
    rows = [(json.dumps({"target": plan.target, "files": plan.files}),) for plan in plans]
    options: Mapping[str, str] = {"lake": lake.where, "staging": staging}
    frame = session.createDataFrame(rows, "plan string")
    frame.write.format(FORMAT).options(**options).mode("append").save()
    return [Merged(**entry) for entry in lake.report(f"{staging}/{LISTING}")]
