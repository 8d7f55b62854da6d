"""A lake that is a Delta table: a file belongs to the table once the table's log names it.

delta-rs writes the log (`pip install 'mqstack[delta]'`), so Spark does not need Delta's jar. Each
commit contains the job's name and the number of messages that the job has written. After a kill,
the next run finds its last commit in the log by these, and does not repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from mqcommon import extras, files
from mqpipeline.errors import PipelineError, UsageError
from mqpipeline.lake.storage import Lake

__all__ = ["DeltaLog", "is_table"]

LOG = "_delta_log"
PARTITIONS = {"topic": pa.string(), "day": pa.date32(), "hour": pa.int32()}
"""Columns whose values are in the folder names of a lake."""


def is_table(lake: Lake) -> bool:
    """Whether a lake is a Delta table."""
    return bool(lake.names(LOG))


class DeltaLog:
    """The log of one lake. Raises UsageError if the lake is not on a local path."""

    def __init__(self, lake: Lake) -> None:
        if not lake.is_local:
            raise UsageError(f"--format delta needs a local path, but the lake is {lake.where}")
        self._deltalake = extras.load("deltalake", "Delta")
        self._lake = lake
        self._uri = lake.full("").rstrip("/")

    def prepare(self, moves: Sequence[tuple[str, str]]) -> None:
        """Create the table if it does not exist; UsageError if the files have other columns.

        moves: the current path and the final path of each file. All checks of the files happen
        here, because `commit` cannot be undone.
        """
        for path, target in moves:
            schema, columns = self._schema(path, target), list(_partition(target))
            if not is_table(self._lake):
                self._deltalake.DeltaTable.create(self._uri, schema, partition_by=columns)
                self._flush()
            if schema != self._table().schema():
                raise UsageError(
                    f"lake {self._lake.where} is a Delta table with other columns than this run "
                    f"writes: keep --body, --schema and --by, or use another lake"
                )

    def commit(self, name: str, messages: int, added: Sequence[str]) -> None:
        """Add files of the lake to the table, unless this commit is already in the log.

        name: the job's name. messages: total number that the job has written, including these
        files.
        """
        if not added:
            return
        table = self._table()
        application = f"mqpipeline/{name}"
        seen = table.transaction_version(application)
        if seen is not None and seen > messages:
            raise PipelineError(
                f"job {name} has written {messages} messages to lake {self._lake.where}, but the "
                f"table's log has {seen} of this job: the job's state was deleted; "
                f"use another --name"
            )
        if seen != messages:
            transaction = self._deltalake.Transaction(application, messages)
            table.create_write_transaction(
                [self._action(path) for path in added],
                "append",
                table.schema(),
                table.metadata().partition_columns,
                commit_properties=self._deltalake.CommitProperties(app_transactions=[transaction]),
            )
        self._flush()

    def _table(self) -> Any:
        return self._deltalake.DeltaTable(self._uri)

    def _action(self, path: str) -> Any:
        full = self._lake.full(path)
        info = self._lake.fs.get_file_info(full)
        return self._deltalake.transaction.AddAction(
            path=path,
            size=info.size,
            partition_values=_partition(path),
            modification_time=info.mtime_ns // 1_000_000,
            data_change=True,
            stats=f'{{"numRecords": {pq.read_metadata(full).num_rows}}}',
        )

    def _schema(self, path: str, target: str) -> Any:
        """The table's schema, from a file and from the folders of its final path."""
        schema = pq.read_schema(self._lake.full(path)).remove_metadata()
        for column in _partition(target):
            schema = schema.append(pa.field(column, PARTITIONS[column]))
        return self._deltalake.Schema.from_arrow(schema)

    def _flush(self) -> None:
        """Flush the newest commit to the disk."""
        table = self._table()
        files.sync_file(self._lake.full(f"{LOG}/{table.version():020d}.json"))
        for folder in (LOG, ""):
            files.sync_directory(self._lake.full(folder))


def _partition(path: str) -> dict[str, str]:
    """The partition values in the folder names of a file, in the format of the log."""
    pairs = (part.split("=", 1) for part in path.split("/")[:-1])
    return {name: str(int(value)) if name == "hour" else unquote(value) for name, value in pairs}
